// Package aws builds clusters of EC2 instances, through Rancher's amazonec2 node driver.
package aws

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/size"
)

//go:embed defaults.yaml
var defaultSizes []byte

// units of EC2. A volume has whole GiB (Amazon EBS, CreateVolume).
func units() size.Units {
	return size.Units{
		Provider: "EC2",
		Memory:   size.Unit{Name: "whole MiB", Bytes: size.Mebibyte},
		Disk:     size.Unit{Name: "whole GiB", Bytes: size.Gibibyte},
	}
}

// strategy is bound to one valid blueprint.
type strategy struct {
	// spec has every default applied, and its zones are sorted by name.
	spec v1alpha1.AwsBlueprintSpec
	// types sorted by milli-cpus, bytes of memory and name.
	types    []instanceType
	userData string
	// amiDisk in bytes.
	amiDisk int64
}

// instanceType is an instance type and its milli-cpus and bytes of memory.
type instanceType struct {
	name        string
	cpu, memory int64
}

// Open an AwsBlueprint, a whole object as JSON. Every field that AWS would refuse is named in the error.
func Open(blueprint json.RawMessage) (strategies.Strategy, error) {
	var b v1alpha1.AwsBlueprint
	if err := strategies.Decode("AwsBlueprint", blueprint, &b); err != nil {
		return nil, err
	}
	s := &strategy{spec: b.Spec}
	if err := s.complete(); err != nil {
		return nil, fmt.Errorf("cannot use the AwsBlueprint %s: %w", b.Name, err)
	}
	return s, nil
}

// Node is of the smallest instance type that has at least the cpus and the memory of the pool, of the blueprint or of the
// embedded defaults: the first by cpus, then memory, then name. Its size, and its footprint, are what the type has. The
// disk is what was asked for, in whole GiB, and at least the image's.
func (s *strategy) Node(path *field.Path, pool v1alpha1.Pool) (strategies.Node, field.ErrorList) {
	built, errs := units().Pool(path, pool, s.spec.NodeDefaults)
	if len(errs) > 0 {
		return strategies.Node{}, errs
	}
	if built[ledger.Disk] < s.amiDisk {
		errs = append(errs, field.Invalid(size.At(path, "disk", pool.Disk), ledger.Disk.Format(built[ledger.Disk]),
			"the image's disk is larger, and EC2 refuses it: use at least "+ledger.Disk.Format(s.amiDisk)))
	}
	for _, t := range s.types {
		if built[ledger.CPU] <= t.cpu && built[ledger.Memory] <= t.memory && len(errs) == 0 {
			built[ledger.CPU], built[ledger.Memory] = t.cpu, t.memory
			return strategies.Node{Size: built, Footprint: built, Type: t.name}, nil
		}
	}
	return strategies.Node{}, append(errs, s.tooLarge(path, pool, built)...)
}

// Divide a pool over the zones: a machine config has one zone.
func (s *strategy) Divide(cluster string, pool v1alpha1.AdmittedPool) []strategies.Part {
	var parts []strategies.Part
	for _, share := range s.shares(cluster, pool) {
		parts = append(parts, share.Part)
	}
	return parts
}

// tooLarge says which part of a size no instance type has.
func (s *strategy) tooLarge(path *field.Path, pool v1alpha1.Pool, wanted ledger.Resources) field.ErrorList {
	var most ledger.Resources
	for _, t := range s.types {
		if wanted[ledger.CPU] <= t.cpu && wanted[ledger.Memory] <= t.memory {
			return nil
		}
		most = most.Max(ledger.Resources{ledger.CPU: t.cpu, ledger.Memory: t.memory})
	}
	var errs field.ErrorList
	for d, own := range []v1alpha1.Quantity{ledger.CPU: pool.CPU, ledger.Memory: pool.Memory} {
		d := ledger.Dimension(d)
		if wanted[d] > most[d] {
			errs = append(errs, field.Invalid(size.At(path, d.String(), own), d.Format(wanted[d]),
				"no instance type of the AwsBlueprint has as much: use at most "+d.Format(most[d])))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, field.Invalid(size.At(path, "memory", pool.Memory), ledger.Memory.Format(wanted[ledger.Memory]),
			fmt.Sprintf("no instance type of the AwsBlueprint has as much with %s cpus", ledger.CPU.Format(wanted[ledger.CPU]))))
	}
	return errs
}

// share of a pool that is in one zone.
type share struct {
	strategies.Part
	zone v1alpha1.AwsZone
}

// shares gives the nodes of a pool to the zones in turns. Where it begins depends on the names of cluster and pool, so that
// small pools do not all begin in the same zone; one more or one less node changes one zone only.
func (s *strategy) shares(cluster string, pool v1alpha1.AdmittedPool) []share {
	hash := fnv.New32a()
	hash.Write([]byte(cluster + "/" + pool.Name))
	zones := int64(len(s.spec.Zones))
	first := int64(hash.Sum32()) % zones
	var shares []share
	for i, zone := range s.spec.Zones {
		turn := (int64(i) - first + zones) % zones
		if count := (pool.Count - turn + zones - 1) / zones; count > 0 {
			shares = append(shares, share{strategies.Part{Name: pool.Name + "-" + zone.Name, Count: count}, zone})
		}
	}
	return shares
}
