// Package vsphere builds clusters of virtual machines on vSphere, through Rancher's vSphere node driver.
package vsphere

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

var (
	//go:embed defaults.yaml
	defaultSizes []byte
	//go:embed user-data.yaml
	defaultUserData string
)

// units that vSphere builds nodes in. It refuses memory that is no multiple of 4 MiB.
func units() size.Units {
	const memoryStep = 4
	return size.Units{
		Provider: "vSphere",
		Memory:   size.Unit{Name: "multiples of 4 MiB", Bytes: memoryStep * size.Mebibyte},
		Disk:     size.Unit{Name: "whole MiB", Bytes: size.Mebibyte},
	}
}

// strategy is bound to one valid blueprint.
type strategy struct {
	// spec has every default applied.
	spec     v1alpha1.VsphereBlueprintSpec
	userData string
	// templateDisk in bytes.
	templateDisk int64
}

// Open a VsphereBlueprint, a whole object as JSON. Every field that vSphere would refuse is named in the error.
func Open(blueprint json.RawMessage) (strategies.Strategy, error) {
	var b v1alpha1.VsphereBlueprint
	if err := strategies.Decode("VsphereBlueprint", blueprint, &b); err != nil {
		return nil, err
	}
	s := &strategy{spec: b.Spec}
	if err := s.complete(); err != nil {
		return nil, fmt.Errorf("cannot use the VsphereBlueprint %s: %w", b.Name, err)
	}
	return s, nil
}

// Node sizes of the pool, of the blueprint or of the embedded defaults: whole vCPUs, memory in multiples of 4 MiB, disk in
// whole MiB. A disk that is smaller than the template's is refused: the driver only grows it, and leaves it as it is with
// no more than a line in a log (rancher/machine, drivers/vmwarevsphere, resizeDisk).
//
// The footprint is the size. Not counted: what the hypervisor needs for a virtual machine, and its swap file on the
// datastore.
func (s *strategy) Node(path *field.Path, pool v1alpha1.Pool) (strategies.Node, field.ErrorList) {
	built, errs := units().Pool(path, pool, s.spec.NodeDefaults)
	if len(errs) == 0 && built[ledger.Disk] < s.templateDisk {
		errs = append(errs, field.Invalid(size.At(path, "disk", pool.Disk), ledger.Disk.Format(built[ledger.Disk]),
			"the template's disk is larger, and vSphere only grows it: use at least "+ledger.Disk.Format(s.templateDisk)))
	}
	if len(errs) > 0 {
		return strategies.Node{}, errs
	}
	return strategies.Node{Size: built, Footprint: built}, nil
}
