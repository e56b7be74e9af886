package size

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
)

func TestPool(t *testing.T) {
	path := field.NewPath("spec", "pools").Index(0)
	defaults := v1alpha1.NodeDefaults{CPU: "4", Memory: "8Gi", Disk: "40Gi"}
	units := Units{Provider: "Cloud", Memory: Unit{"multiples of 4 MiB", 4 * Mebibyte}, Disk: Unit{"whole GiB", Gibibyte}}
	cases := map[string]struct {
		reason   string
		defaults v1alpha1.NodeDefaults
		pool     v1alpha1.Pool
		want     ledger.Resources
		errs     field.ErrorList
	}{
		"Own": {
			reason: "What the pool says wins.", defaults: defaults,
			pool: v1alpha1.Pool{CPU: "2", Memory: "4100Mi", Disk: "50Gi"},
			want: ledger.Resources{2000, 4100 * Mebibyte, 50 * Gibibyte, 1},
		},
		"Defaults": {
			reason: "Each size is filled in on its own.", defaults: defaults,
			pool: v1alpha1.Pool{Memory: "16Gi"},
			want: ledger.Resources{4000, 16 * Gibibyte, 40 * Gibibyte, 1},
		},
		"NotWhole": {
			reason: "Each refusal names the provider's unit and proposes the next size.", defaults: defaults,
			pool: v1alpha1.Pool{CPU: "500m", Memory: "8190Mi", Disk: "41000Mi"},
			want: ledger.Resources{0, 0, 0, 1},
			errs: field.ErrorList{
				field.Invalid(path.Child("cpu"), "500m", "Cloud builds whole vCPUs, at least one: use 1"),
				field.Invalid(path.Child("memory"), "8190Mi", "Cloud builds multiples of 4 MiB, at least one: use 8Gi"),
				field.Invalid(path.Child("disk"), "41000Mi", "Cloud builds whole GiB, at least one: use 41Gi"),
			},
		},
		"NotWholeDefault": {
			reason: "A wrong default is named where it is written.", defaults: v1alpha1.NodeDefaults{CPU: "4", Memory: "8Gi", Disk: "1"},
			want: ledger.Resources{4000, 8 * Gibibyte, 0, 1},
			errs: field.ErrorList{
				field.Invalid(field.NewPath("spec", "nodeDefaults", "disk"), "1", "Cloud builds whole GiB, at least one: use 1Gi"),
			},
		},
		"TooLarge": {
			reason: "No machine is so large, and sums must not overflow.", defaults: defaults,
			pool: v1alpha1.Pool{CPU: "2M", Memory: "2Pi", Disk: "2Pi"},
			want: ledger.Resources{0, 0, 0, 1},
			errs: field.ErrorList{
				field.Invalid(path.Child("cpu"), "2M", "a node has at most 1048576 vCPUs"),
				field.Invalid(path.Child("memory"), "2Pi", "a node has at most 1048576 GiB"),
				field.Invalid(path.Child("disk"), "2Pi", "a node has at most 1048576 GiB"),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, errs := units.Pool(path, tc.pool, tc.defaults)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nPool(...): -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.errs, errs); diff != "" {
				t.Errorf("%s\nPool(...): -want errors, +got errors:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestDefault(t *testing.T) {
	cases := map[string]struct {
		reason   string
		own      v1alpha1.NodeDefaults
		embedded string
		want     v1alpha1.NodeDefaults
		fails    bool
	}{
		"Fill":   {reason: "What is left out is filled in.", own: v1alpha1.NodeDefaults{Memory: "16Gi"}, embedded: `{cpu: "4", memory: 8Gi}`, want: v1alpha1.NodeDefaults{CPU: "4", Memory: "16Gi"}},
		"Strict": {reason: "A typo must not be ignored.", embedded: `{cpus: "4"}`, fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.own
			if err := Default(&got, []byte(tc.embedded)); (err != nil) != tc.fails {
				t.Errorf("%s\nDefault(...): got error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nDefault(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}
