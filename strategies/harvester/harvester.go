// Package harvester builds clusters of virtual machines on Harvester, through Rancher's Harvester node driver.
package harvester

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
)

const (
	millicpus = 1000
	mebibyte  = 1 << 20
	gibibyte  = 1 << 30

	// maxUnits is the most vCPUs, or GiB of memory or of disk, of one node. It keeps all arithmetic far from overflowing.
	maxUnits = 1 << 20
)

// Parts of what KubeVirt adds to the memory of a virtual machine, in MiB, as in KubeVirt 1.8
// (pkg/hypervisor/kvm/hypervisorbackend.go). KubeVirt 1.3, of Harvester 1.4, takes 10 MiB less.
const (
	overheadFixed = 220 + 8 + 32 // Launcher and QEMU, I/O thread, video memory.
	overheadCPU   = 8            // Each vCPU.
	overheadARM64 = 128          // Firmware of an arm64 machine.

	// pageTableShare of the memory request is taken by page tables.
	pageTableShare = 512
)

//go:embed defaults.yaml
var defaultSizes []byte

// strategy is bound to one valid blueprint.
type strategy struct {
	// spec has every default applied, and its image and networks carry their namespace.
	spec     v1alpha1.HarvesterBlueprintSpec
	userData string
	// ratio of the memory overhead, in thousandths. Harvester's 0 is 1000 here.
	ratio int64
}

// Open a HarvesterBlueprint, a whole object as JSON. Every field that Harvester would refuse is named in the error.
func Open(blueprint json.RawMessage) (strategies.Strategy, error) {
	var b v1alpha1.HarvesterBlueprint
	if err := json.Unmarshal(blueprint, &b); err != nil {
		return nil, fmt.Errorf("cannot decode the HarvesterBlueprint: %w", err)
	}
	s := &strategy{spec: b.Spec}
	if err := s.complete(); err != nil {
		return nil, fmt.Errorf("cannot use the HarvesterBlueprint %s: %w", b.Name, err)
	}
	return s, nil
}

// Node sizes of the pool, of the blueprint or of the embedded defaults. Harvester builds whole vCPUs and whole GiB of
// memory and disk; an error proposes the next whole size.
//
// The footprint is what Harvester counts in a namespace's quota: the vCPUs, the nominal disk (neither thin nor times
// its replicas), and the memory limit of the virtual machine's pod, which is the memory plus
//
//	(260 MiB + 8 MiB × vCPUs [+ 128 MiB on arm64] + memory / overcommit / 512) × ratio
//
// rounded up to whole MiB. The ratio "0" turns the Harvester setting off, and KubeVirt's own ratio of 1 remains; the
// memory that Harvester then reserves comes out of the guest's memory and does not change the limit
// (https://docs.harvesterhci.io/v1.4/advanced/index/#additional-guest-memory-overhead-ratio).
//
// Not counted: the serial console's log container (15m cpu, 60M memory in KubeVirt 1.5), because Harvester's own
// arithmetic leaves it out, and pods that attach the volumes of workloads. A quota at the provider needs headroom for
// both.
func (s *strategy) Node(path *field.Path, pool v1alpha1.Pool) (strategies.Node, field.ErrorList) {
	defaults := field.NewPath("spec", "nodeDefaults")
	either := func(name string, own, fallback v1alpha1.Quantity) source {
		if own == "" {
			return source{defaults.Child(name), fallback}
		}
		return source{path.Child(name), own}
	}
	size, errs := parseSize(
		either("cpu", pool.CPU, s.spec.NodeDefaults.CPU),
		either("memory", pool.Memory, s.spec.NodeDefaults.Memory),
		either("disk", pool.Disk, s.spec.NodeDefaults.Disk),
	)
	if len(errs) > 0 {
		return strategies.Node{}, errs
	}
	footprint := size
	footprint[ledger.Memory] += s.overhead(size)
	return strategies.Node{Size: size, Footprint: footprint}, nil
}

// overhead of a node of this size, in bytes of memory. Everything is brought over one denominator, so that nothing but
// the result is rounded.
func (s *strategy) overhead(size ledger.Resources) int64 {
	fixed := overheadFixed + overheadCPU*(size[ledger.CPU]/millicpus)
	if s.spec.Overhead.Architecture == arm64 {
		fixed += overheadARM64
	}
	overcommit := s.spec.Overhead.MemoryOvercommit
	n := (fixed*pageTableShare*overcommit + size[ledger.Memory]/mebibyte*100) * s.ratio
	d := pageTableShare * overcommit * 1000
	return (n + d - 1) / d * mebibyte
}

// source of a size: where it was written and what.
type source struct {
	path     *field.Path
	quantity v1alpha1.Quantity
}

// parseSize reads the size of one node in the whole units of Harvester.
func parseSize(cpu, memory, disk source) (size ledger.Resources, errs field.ErrorList) {
	size[ledger.Nodes] = 1
	for d, s := range []source{ledger.CPU: cpu, ledger.Memory: memory, ledger.Disk: disk} {
		v, err := whole(ledger.Dimension(d), s)
		if err != nil {
			errs = append(errs, err)
		}
		size[d] = v
	}
	return size, errs
}

// whole reads a positive number of vCPUs, in milli-cpus, or of GiB, in bytes.
func whole(d ledger.Dimension, s source) (int64, *field.Error) {
	parse, unit, name := ledger.ParseBytes, int64(gibibyte), "GiB"
	if d == ledger.CPU {
		parse, unit, name = ledger.ParseCPU, millicpus, "vCPUs"
	}
	v, err := parse(s.path, s.quantity)
	if err != nil {
		return 0, err
	}
	if next := ((v-1)/unit + 1) * unit; v != next {
		return 0, field.Invalid(s.path, string(s.quantity), fmt.Sprintf("Harvester builds whole %s, at least one: use %s", name, d.Format(next)))
	}
	if v > maxUnits*unit {
		return 0, field.Invalid(s.path, string(s.quantity), fmt.Sprintf("a node has at most %d %s", maxUnits, name))
	}
	return v, nil
}

// embeddedDefaults are the sizes behind those of the blueprint.
func embeddedDefaults() (v1alpha1.NodeDefaults, error) {
	var d v1alpha1.NodeDefaults
	if err := yaml.UnmarshalStrict(defaultSizes, &d); err != nil {
		return d, fmt.Errorf("cannot read the embedded defaults: %w", err)
	}
	return d, nil
}
