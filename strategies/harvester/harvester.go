// Package harvester builds clusters of virtual machines on Harvester, through Rancher's Harvester node driver.
package harvester

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/size"
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

var (
	//go:embed defaults.yaml
	defaultSizes []byte
	//go:embed user-data.yaml
	defaultUserData string
)

// units that Harvester builds nodes in.
func units() size.Units {
	gib := size.Unit{Name: "whole GiB", Bytes: size.Gibibyte}
	return size.Units{Provider: "Harvester", Memory: gib, Disk: gib}
}

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
	if err := strategies.Decode("HarvesterBlueprint", blueprint, &b); err != nil {
		return nil, err
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
	built, errs := units().Pool(path, pool, s.spec.NodeDefaults)
	if len(errs) > 0 {
		return strategies.Node{}, errs
	}
	footprint := built
	footprint[ledger.Memory] += s.overhead(built)
	return strategies.Node{Size: built, Footprint: footprint}, nil
}

// overhead of a node of this size, in bytes of memory. Everything is brought over one denominator, so that nothing but
// the result is rounded.
func (s *strategy) overhead(node ledger.Resources) int64 {
	fixed := overheadFixed + overheadCPU*(node[ledger.CPU]/size.Millicpus)
	if s.spec.Overhead.Architecture == arm64 {
		fixed += overheadARM64
	}
	overcommit := s.spec.Overhead.MemoryOvercommit
	n := (fixed*pageTableShare*overcommit + node[ledger.Memory]/size.Mebibyte*100) * s.ratio
	d := pageTableShare * overcommit * 1000
	return (n + d - 1) / d * size.Mebibyte
}
