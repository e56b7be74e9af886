package harvester

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/strategytest"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// spec of a minimal blueprint, with changes.
func spec(changes ...func(*v1alpha1.HarvesterBlueprintSpec)) v1alpha1.HarvesterBlueprintSpec {
	s := v1alpha1.HarvesterBlueprintSpec{
		Endpoint:    "https://10.0.0.10:6443",
		VMNamespace: "rig-prod",
		Image:       "image-x7k2p",
		Networks:    []string{"default/vlan-10"},
		SSHUser:     "ubuntu",
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func open(t testing.TB, s v1alpha1.HarvesterBlueprintSpec) strategies.Strategy {
	t.Helper()
	opened, err := Open(blueprint(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func blueprint(t testing.TB, s v1alpha1.HarvesterBlueprintSpec) json.RawMessage {
	t.Helper()
	b := v1alpha1.HarvesterBlueprint{Spec: s}
	b.Name = "fra1"
	return strategytest.Encode(t, b)
}

func TestOpenRefusals(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.HarvesterBlueprintSpec)
		want   string
	}{
		"EndpointMissing": {
			"The cloud provider needs an address.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Endpoint = "" },
			`spec.endpoint: Invalid value: "": must be https://, a host and a port, such as https://10.0.0.10:6443`,
		},
		"EndpointHTTP": {
			"A token must not travel in the clear.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Endpoint = "http://10.0.0.10:6443" },
			`spec.endpoint: Invalid value: "http://10.0.0.10:6443": must be https://, a host and a port, such as https://10.0.0.10:6443`,
		},
		"EndpointPath": {
			"An API server has no path.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Endpoint = "https://10.0.0.10:6443/k8s" },
			`spec.endpoint: Invalid value: "https://10.0.0.10:6443/k8s": must be https://, a host and a port, such as https://10.0.0.10:6443`,
		},
		"EndpointNoHost": {
			"A port alone is no address.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Endpoint = "https://:6443" },
			`spec.endpoint: Invalid value: "https://:6443": must be https://, a host and a port, such as https://10.0.0.10:6443`,
		},
		"NamespaceMissing": {
			"Virtual machines live in a namespace.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.VMNamespace = "" },
			`spec.vmNamespace: Required value: name the Harvester namespace of the virtual machines`,
		},
		"NamespaceDots": {
			"A namespace is a DNS label.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.VMNamespace = "rig.prod" },
			`spec.vmNamespace: Invalid value: "rig.prod": must not contain dots`,
		},
		"ImageMissing": {
			"A disk is made from an image.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Image = "" },
			`spec.image: Required value: must be namespace/name`,
		},
		"ImageDisplayName": {
			"The driver wants the object's name, not its display name.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Image = "Ubuntu 24.04" },
			`spec.image: Invalid value: "Ubuntu 24.04": a lowercase RFC 1123 subdomain must consist`,
		},
		"ImageDeep": {
			"There is one namespace only.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Image = "a/b/c" },
			`spec.image: Invalid value: "b/c": a lowercase RFC 1123 subdomain must consist`,
		},
		"NetworksMissing": {
			"A node without a network joins nothing.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Networks = nil },
			`spec.networks: Required value: a node needs at least one network`,
		},
		"NetworkNamespaceEmpty": {
			"A slash promises a namespace; the path counts from zero.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Networks = []string{"default/vlan-10", "/vlan-11"} },
			`spec.networks[1]: Invalid value: "": a lowercase RFC 1123 label must consist`,
		},
		"NetworkEmpty": {
			"An empty entry is no network.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Networks = []string{""} },
			`spec.networks[0]: Required value: must be namespace/name`,
		},
		"StorageClass": {
			"A StorageClass is a Kubernetes name.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.StorageClassName = "Fast SSD" },
			`spec.storageClassName: Invalid value: "Fast SSD": a lowercase RFC 1123 subdomain must consist`,
		},
		"SSHUser": {
			"Rancher logs in as somebody.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.SSHUser = " " },
			`spec.sshUser: Required value: name the user of the image, such as ubuntu`,
		},
		"SecureBootWithoutEFI": {
			"Harvester refuses secure boot on a BIOS machine.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.EnableSecureBoot = true },
			`spec.enableSecureBoot: Invalid value: true: secure boot needs enableEFI`,
		},
		"CloudInitScript": {
			"A script cannot be merged, and its text may hold passwords.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.CloudInit = "#!/bin/sh\necho hunter2" },
			`spec.cloudInit: Invalid value: must be cloud-config YAML: the only header allowed is #cloud-config`,
		},
		"RatioBelowOne": {
			"Harvester's setting takes 0 or 1 to 10.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Overhead.MemoryRatio = "0.5" },
			`spec.overhead.memoryRatio: Invalid value: "0.5": must be 0, or 1 to 10 with up to three decimals`,
		},
		"RatioAboveTen": {
			"Harvester's setting takes 0 or 1 to 10.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Overhead.MemoryRatio = "10.001" },
			`spec.overhead.memoryRatio: Invalid value: "10.001": must be 0, or 1 to 10 with up to three decimals`,
		},
		"RatioMilli": {
			"The schema refuses a suffix, so a render must, too.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Overhead.MemoryRatio = "1500m" },
			`spec.overhead.memoryRatio: Invalid value: "1500m": must be 0, or 1 to 10 with up to three decimals`,
		},
		"Undercommit": {
			"Harvester refuses to commit less than there is.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Overhead.MemoryOvercommit = 99 },
			`spec.overhead.memoryOvercommit: Invalid value: 99: must be a percentage from 100 to 10000`,
		},
		"OvercommitTooLarge": {
			"The schema has a bound, so a render must, too.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Overhead.MemoryOvercommit = 10001 },
			`spec.overhead.memoryOvercommit: Invalid value: 10001: must be a percentage from 100 to 10000`,
		},
		"Architecture": {
			"Harvester runs on two.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.Overhead.Architecture = "riscv64" },
			`spec.overhead.architecture: Unsupported value: "riscv64": supported values: "amd64", "arm64"`,
		},
		"NodeDefaults": {
			"A default that no node can have is found before a pool needs it.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.NodeDefaults.Memory = "8500Mi" },
			`spec.nodeDefaults.memory: Invalid value: "8500Mi": Harvester builds whole GiB, at least one: use 9Gi`,
		},
		"Several": {
			"Everything is said at once.",
			func(s *v1alpha1.HarvesterBlueprintSpec) { s.SSHUser, s.Networks = "", nil },
			`[spec.networks: Required value: a node needs at least one network, spec.sshUser: Required value: name the user of the image, such as ubuntu]`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := Open(blueprint(t, spec(tc.change)))
			if err == nil {
				t.Fatalf("%s\nOpen(...): want an error", tc.reason)
			}
			got, ok := strings.CutPrefix(err.Error(), "cannot use the HarvesterBlueprint fra1: ")
			if !ok || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s\nOpen(...):\ngot  %s\nwant %s", tc.reason, err, tc.want)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("%s\nOpen(...): the error quotes user data: %s", tc.reason, got)
			}
		})
	}
}

func TestOverhead(t *testing.T) {
	type overhead = v1alpha1.HarvesterOverhead
	cases := map[string]struct {
		reason   string
		overhead overhead
		cpu      v1alpha1.Quantity
		memory   v1alpha1.Quantity
		want     int64 // MiB of the pod
	}{
		"Small":         {"Harvester's defaults, computed by hand.", overhead{}, "2", "4Gi", 4518},
		"Medium":        {"Harvester's defaults, computed by hand.", overhead{}, "4", "8Gi", 8646},
		"MemoryHeavy":   {"Memory counts by its page tables.", overhead{}, "4", "16Gi", 16854},
		"Large":         {"Harvester's defaults, computed by hand.", overhead{}, "8", "32Gi", 33318},
		"ExtraLarge":    {"Harvester's defaults, computed by hand.", overhead{}, "16", "64Gi", 66246},
		"SaidOtherwise": {"Defaults that are written out are the same.", overhead{MemoryRatio: "1.5", MemoryOvercommit: 150, Architecture: "amd64"}, "4", "8Gi", 8646},
		"RatioOne":      {"292 + 8192/1.5/512 MiB, rounded up.", overhead{MemoryRatio: "1"}, "4", "8Gi", 8192 + 303},
		"RatioTen":      {"Ten times 302.67 MiB, rounded up.", overhead{MemoryRatio: "10.0"}, "4", "8Gi", 8192 + 3027},
		"RatioOff":      {"Without Harvester's ratio KubeVirt's own is left, which is 1.", overhead{MemoryRatio: "0"}, "4", "8Gi", 8192 + 303},
		"RatioDecimals": {"302.67 MiB × 1.333.", overhead{MemoryRatio: "1.333"}, "4", "8Gi", 8192 + 404},
		"NoOvercommit":  {"The whole memory is requested: (292 + 16) × 1.5 MiB.", overhead{MemoryOvercommit: 100}, "4", "8Gi", 8192 + 462},
		"ARM64":         {"Firmware counts before the ratio: 128 × 1.5 MiB more.", overhead{Architecture: "arm64"}, "4", "8Gi", 8646 + 192},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, spec(func(s *v1alpha1.HarvesterBlueprintSpec) { s.Overhead = tc.overhead }))
			got, errs := s.Node(field.NewPath("pool"), v1alpha1.Pool{CPU: tc.cpu, Memory: tc.memory, Disk: "40Gi"})
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			want := got.Size
			want[ledger.Memory] = tc.want * mib
			if diff := cmp.Diff(want, got.Footprint); diff != "" {
				t.Errorf("%s\nNode(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestNode(t *testing.T) {
	path := field.NewPath("spec", "pools").Index(0)
	cases := map[string]struct {
		reason   string
		defaults v1alpha1.NodeDefaults
		pool     v1alpha1.Pool
		want     strategies.Node
		errs     field.ErrorList
	}{
		"Own": {
			reason:   "What the pool says wins.",
			defaults: v1alpha1.NodeDefaults{CPU: "16", Memory: "64Gi", Disk: "500Gi"},
			pool:     v1alpha1.Pool{CPU: "2", Memory: "4Gi", Disk: "50Gi"},
			want: strategies.Node{
				Size:      ledger.Resources{2000, 4 * gib, 50 * gib, 1},
				Footprint: ledger.Resources{2000, 4518 * mib, 50 * gib, 1},
			},
		},
		"Blueprint": {
			reason:   "The blueprint's sizes are next, each on its own.",
			defaults: v1alpha1.NodeDefaults{Memory: "16Gi"},
			pool:     v1alpha1.Pool{Disk: "100Gi"},
			want: strategies.Node{
				Size:      ledger.Resources{4000, 16 * gib, 100 * gib, 1},
				Footprint: ledger.Resources{4000, 16854 * mib, 100 * gib, 1},
			},
		},
		"Embedded": {
			reason: "Nobody said anything.",
			want: strategies.Node{
				Size:      ledger.Resources{4000, 8 * gib, 40 * gib, 1},
				Footprint: ledger.Resources{4000, 8646 * mib, 40 * gib, 1},
			},
		},
		"OtherNotations": {
			reason: "A quantity counts by its value.",
			pool:   v1alpha1.Pool{CPU: "2000m", Memory: "4096Mi", Disk: "53687091200"},
			want: strategies.Node{
				Size:      ledger.Resources{2000, 4 * gib, 50 * gib, 1},
				Footprint: ledger.Resources{2000, 4518 * mib, 50 * gib, 1},
			},
		},
		"NotWhole": {
			reason: "Each refusal proposes the next whole size.",
			pool:   v1alpha1.Pool{CPU: "2500m", Memory: "8G", Disk: "40.5Gi"},
			errs: field.ErrorList{
				field.Invalid(path.Child("cpu"), "2500m", "Harvester builds whole vCPUs, at least one: use 3"),
				field.Invalid(path.Child("memory"), "8G", "Harvester builds whole GiB, at least one: use 8Gi"),
				field.Invalid(path.Child("disk"), "40.5Gi", "Harvester builds whole GiB, at least one: use 41Gi"),
			},
		},
		"Zero": {
			reason: "A node has at least one of each.",
			pool:   v1alpha1.Pool{CPU: "0", Memory: "0", Disk: "1"},
			errs: field.ErrorList{
				field.Invalid(path.Child("cpu"), "0", "Harvester builds whole vCPUs, at least one: use 1"),
				field.Invalid(path.Child("memory"), "0", "Harvester builds whole GiB, at least one: use 1Gi"),
				field.Invalid(path.Child("disk"), "1", "Harvester builds whole GiB, at least one: use 1Gi"),
			},
		},
		"NoQuantity": {
			reason: "Refusals of the parser keep their path.",
			pool:   v1alpha1.Pool{CPU: "-1", Memory: "lots"},
			errs: field.ErrorList{
				field.Invalid(path.Child("cpu"), "-1", "must be a Kubernetes quantity in whole milli-cpus, such as 4 or 500m"),
				field.Invalid(path.Child("memory"), "lots", "must be a Kubernetes quantity in whole bytes, such as 16Gi"),
			},
		},
		"TooLarge": {
			reason: "No machine is so large, and sums must not overflow.",
			pool:   v1alpha1.Pool{CPU: "2M", Memory: "2Pi"},
			errs: field.ErrorList{
				field.Invalid(path.Child("cpu"), "2M", "a node has at most 1048576 vCPUs"),
				field.Invalid(path.Child("memory"), "2Pi", "a node has at most 1048576 GiB"),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := open(t, spec(func(s *v1alpha1.HarvesterBlueprintSpec) { s.NodeDefaults = tc.defaults }))
			got, errs := s.Node(path, tc.pool)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nNode(...): -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.errs, errs); diff != "" {
				t.Errorf("%s\nNode(...): -want errors, +got errors:\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzNode(f *testing.F) {
	f.Add("4", "8Gi", "40Gi", "1.5", int64(150), true)
	f.Add("2500m", "1", "", "0", int64(100), false)
	f.Add("1048576", "1048576Gi", "1048576Gi", "10", int64(10000), true)
	f.Add("9223372036854775807", "8191Pi", "0.000000001", "9.999", int64(101), false)
	f.Fuzz(func(t *testing.T, cpu, memory, disk, ratio string, overcommit int64, arm bool) {
		b := spec()
		b.Overhead = v1alpha1.HarvesterOverhead{MemoryRatio: v1alpha1.Quantity(ratio), MemoryOvercommit: overcommit}
		if arm {
			b.Overhead.Architecture = arm64
		}
		s, err := Open(blueprint(t, b))
		if err != nil {
			return
		}
		pool := v1alpha1.Pool{CPU: v1alpha1.Quantity(cpu), Memory: v1alpha1.Quantity(memory), Disk: v1alpha1.Quantity(disk)}
		n, errs := s.Node(field.NewPath("pool"), pool)
		if len(errs) > 0 {
			if diff := cmp.Diff(strategies.Node{}, n); diff != "" {
				t.Errorf("Node(%v): an error beside a node:\n%s", pool, diff)
			}
			return
		}
		// KubeVirt's arithmetic, each part rounded down: the footprint must not be below it.
		least := n.Size
		cpus, mebibytes := n.Size[ledger.CPU]/1000, n.Size[ledger.Memory]/mib
		least[ledger.Memory] += (260 + 8*cpus + mebibytes*100/s.(*strategy).spec.Overhead.MemoryOvercommit/512) * mib
		if !least.Within(n.Footprint) {
			t.Errorf("Node(%v): footprint %v is below %v", pool, n.Footprint, least)
		}
		for d, unit := range []int64{1000, gib, gib, 1} {
			if n.Size[d] < unit || n.Size[d]%unit != 0 {
				t.Errorf("Node(%v): size %v is not whole in %s", pool, n.Size, ledger.Dimension(d))
			}
		}
		// Whatever the pool asked for is what it gets.
		for d, q := range []v1alpha1.Quantity{ledger.CPU: pool.CPU, ledger.Memory: pool.Memory, ledger.Disk: pool.Disk} {
			parse := ledger.ParseBytes
			if ledger.Dimension(d) == ledger.CPU {
				parse = ledger.ParseCPU
			}
			if v, err := parse(nil, q); q != "" && (err != nil || v != n.Size[d]) {
				t.Errorf("Node(%v): size %v is not what was asked for in %s", pool, n.Size, ledger.Dimension(d))
			}
		}
	})
}
