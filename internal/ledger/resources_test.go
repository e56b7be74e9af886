package ledger

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

func TestParseQuantity(t *testing.T) {
	path := field.NewPath("spec", "quota", "cpu")
	cases := map[string]struct {
		reason string
		in     v1alpha1.Quantity
		cpu    int64
		bytes  int64
		errCPU string
		errB   string
	}{
		"Whole":       {reason: "A number is cpus, or bytes.", in: "4", cpu: 4000, bytes: 4},
		"Milli":       {reason: "Milli-cpus are exact, milli-bytes are not bytes.", in: "500m", cpu: 500, errB: "whole bytes"},
		"Decimal":     {reason: "A decimal fraction is exact where it can be.", in: "1.5", cpu: 1500, errB: "whole bytes"},
		"Binary":      {reason: "Binary suffixes count in 1024.", in: "16Gi", cpu: 16 * gib * 1000, bytes: 16 * gib},
		"Decimals":    {reason: "Decimal suffixes count in 1000.", in: "2k", cpu: 2_000_000, bytes: 2000},
		"Exa":         {reason: "Exabytes are read without overflow.", in: "3Ei", errCPU: "larger than any", bytes: 3 << 60},
		"TooLarge":    {reason: "More than can be summed is refused.", in: "5Ei", errCPU: "larger than any", errB: "larger than any"},
		"Huge":        {reason: "More digits than an int64 has are refused.", in: "9999999999999999999", errCPU: "larger than any", errB: "larger than any"},
		"SubMilli":    {reason: "Nothing is rounded in anybody's favour.", in: "0.0001", errCPU: "whole milli-cpus", errB: "whole bytes"},
		"Negative":    {reason: "A negative amount is none.", in: "-1", errCPU: "must be a Kubernetes quantity", errB: "must be a Kubernetes quantity"},
		"Exponent":    {reason: "Exponents are refused before anybody expands them.", in: "1e999999999", errCPU: "must be a Kubernetes quantity", errB: "must be a Kubernetes quantity"},
		"Malformed":   {reason: "Words are no quantity.", in: "plenty", errCPU: "must be a Kubernetes quantity", errB: "must be a Kubernetes quantity"},
		"WrongSuffix": {reason: "An unknown suffix is refused.", in: "16GB", errCPU: "must be a Kubernetes quantity", errB: "must be a Kubernetes quantity"},
		"Empty":       {reason: "A missing quantity is not zero.", in: "", errCPU: "Required", errB: "Required"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, p := range []struct {
				parse   func(*field.Path, v1alpha1.Quantity) (int64, *field.Error)
				want    int64
				wantErr string
			}{{ParseCPU, tc.cpu, tc.errCPU}, {ParseBytes, tc.bytes, tc.errB}} {
				got, err := p.parse(path, tc.in)
				if p.wantErr == "" && err != nil || got != p.want {
					t.Errorf("%s\nparse(%q): want %d, got %d, %v", tc.reason, tc.in, p.want, got, err)
				}
				if p.wantErr != "" && (err == nil || !strings.Contains(err.Error(), p.wantErr) || !strings.HasPrefix(err.Error(), "spec.quota.cpu: ")) {
					t.Errorf("%s\nparse(%q): want an error at spec.quota.cpu with %q, got %v", tc.reason, tc.in, p.wantErr, err)
				}
			}
		})
	}
}

func FuzzParseQuantity(f *testing.F) {
	for _, s := range []string{"4", "500m", "16Gi", "3Ei", "1.5", "-1", "1e9", "0.000000001", "+7", "Ki", "9223372036854775807"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for d, parse := range map[Dimension]func(*field.Path, v1alpha1.Quantity) (int64, *field.Error){CPU: ParseCPU, Memory: ParseBytes} {
			v, err := parse(nil, v1alpha1.Quantity(s))
			if err != nil {
				continue
			}
			if v < 0 || v > maxQuantity {
				t.Fatalf("%s %q: %d is out of bounds", d, s, v)
			}
			want := resource.MustParse(s)
			if back := resource.MustParse(d.Format(v)); back.Cmp(want) != 0 {
				t.Fatalf("%s %q: reads as %s", d, s, back.String())
			}
		}
	})
}

func FuzzResources(f *testing.F) {
	f.Add(int64(1), int64(2), int64(3))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(500))
	f.Add(int64(maxQuantity), int64(maxQuantity), int64(2))
	f.Fuzz(func(t *testing.T, a, b, n int64) {
		a, b, n = max(a, 0), max(b, 0), max(n, 0)
		exact := func(want *big.Int, got int64, what string) {
			if want.IsInt64() && want.Int64() != got || !want.IsInt64() && got != math.MaxInt64 {
				t.Fatalf("%s of %d and %d: want %s or saturation, got %d", what, a, b, want, got)
			}
		}
		x, y := Resources{CPU: a}, Resources{CPU: b}
		exact(new(big.Int).Add(big.NewInt(a), big.NewInt(b)), x.Plus(y)[CPU], "sum")
		exact(new(big.Int).Mul(big.NewInt(a), big.NewInt(n)), x.Times(n)[CPU], "product")
		if x.Within(y) != (a <= b) {
			t.Fatalf("%d within %d is %v", a, b, x.Within(y))
		}
	})
}

func TestReport(t *testing.T) {
	limits := Resources{CPU: 64000, Memory: 256 * gib, Disk: 4096 * gib, Nodes: Unlimited, Clusters: 10}
	need := Resources{CPU: 24000, Memory: 96 * gib, Disk: 300 * gib, Nodes: 3, Clusters: 1}
	for want, got := range map[string]string{
		"needs 24 cpu, short 16 of 64":                                      Refusal(need, Resources{CPU: 16000}, limits),
		"needs 24 cpu, short 16 of 64, and 96Gi memory, short 1Gi of 256Gi": Refusal(need, Resources{CPU: 16000, Memory: gib}, limits),
		"needs 1 cluster, short 1 of 10":                                    Refusal(need, Resources{Clusters: 1}, limits),
		"needs 24 cpu, the whole quota is 8":                                Excess(need, Resources{CPU: 8000, Memory: limits[Memory], Disk: limits[Disk], Nodes: Unlimited, Clusters: 10}, "the whole quota is"),
		"24 cpu, 96Gi memory, 300Gi disk, 3 nodes":                          need.String(),
		"nothing": Resources{}.String(),
	} {
		if want != got {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}
