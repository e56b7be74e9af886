// Package size reads the sizes of nodes in the whole units that a provider builds.
package size

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
)

// Amounts of the units that a ledger counts in.
const (
	Millicpus = 1000
	Mebibyte  = 1 << 20
	Gibibyte  = 1 << 30

	// maxUnits is the most vCPUs, or GiB of memory or of disk, of one node. It keeps all arithmetic far from overflowing.
	maxUnits = 1 << 20
)

// InUnits is how many units hold an amount, which is not negative.
func InUnits(amount, unit int64) int64 { return (amount + unit - 1) / unit }

// Unit of memory or disk: its name in an error, such as "whole GiB", and its bytes.
type Unit struct {
	Name  string
	Bytes int64
}

// Units that a provider builds nodes in, beside whole vCPUs.
type Units struct {
	// Provider as an error names it.
	Provider     string
	Memory, Disk Unit
}

// Pool reads the size of a pool's nodes: milli-cpus, bytes of memory, bytes of disk, one machine. What the pool leaves
// out comes from the defaults of the blueprint. Errors name the field, below path or in the blueprint, and propose the
// next size that the provider builds.
func (u Units) Pool(path *field.Path, pool v1alpha1.Pool, defaults v1alpha1.NodeDefaults) (ledger.Resources, field.ErrorList) {
	either := func(name string, own, fallback v1alpha1.Quantity) source {
		return source{At(path, name, own), cmp.Or(own, fallback)}
	}
	return u.parse(
		either("cpu", pool.CPU, defaults.CPU),
		either("memory", pool.Memory, defaults.Memory),
		either("disk", pool.Disk, defaults.Disk),
	)
}

// At says where a size of a pool was written: in the pool at path, or in the blueprint where the pool leaves it out.
func At(path *field.Path, name string, own v1alpha1.Quantity) *field.Path {
	if own == "" {
		return field.NewPath("spec", "nodeDefaults", name)
	}
	return path.Child(name)
}

// Admitted reads the size that a pool was admitted with, like Pool.
func (u Units) Admitted(pool v1alpha1.AdmittedPool) (ledger.Resources, error) {
	path := field.NewPath("status", "quota", "pools").Key(pool.Name).Child("size")
	r, errs := u.parse(
		source{path.Child("cpu"), pool.Size.CPU},
		source{path.Child("memory"), pool.Size.Memory},
		source{path.Child("disk"), pool.Size.Disk},
	)
	if len(errs) > 0 {
		return r, fmt.Errorf("cannot build pool %s: %w", pool.Name, errs.ToAggregate())
	}
	return r, nil
}

// Default fills in the sizes that a blueprint leaves out from embedded YAML.
func Default(own *v1alpha1.NodeDefaults, embedded []byte) error {
	var d v1alpha1.NodeDefaults
	if err := yaml.UnmarshalStrict(embedded, &d); err != nil {
		return fmt.Errorf("cannot read the embedded defaults: %w", err)
	}
	own.CPU, own.Memory, own.Disk = cmp.Or(own.CPU, d.CPU), cmp.Or(own.Memory, d.Memory), cmp.Or(own.Disk, d.Disk)
	return nil
}

// source of a size: where it was written and what.
type source struct {
	path     *field.Path
	quantity v1alpha1.Quantity
}

// Quantity reads a positive number of whole units of one dimension.
func (u Units) Quantity(d ledger.Dimension, path *field.Path, q v1alpha1.Quantity) (int64, *field.Error) {
	parse, unit, most, name := ledger.ParseBytes, u.Memory, int64(maxUnits*Gibibyte), "GiB"
	if d == ledger.CPU {
		parse, unit, most, name = ledger.ParseCPU, Unit{"whole vCPUs", Millicpus}, maxUnits*Millicpus, "vCPUs"
	}
	if d == ledger.Disk {
		unit = u.Disk
	}
	v, err := parse(path, q)
	if err != nil {
		return 0, err
	}
	if next := ((v-1)/unit.Bytes + 1) * unit.Bytes; v != next {
		return 0, field.Invalid(path, string(q), fmt.Sprintf("%s builds %s, at least one: use %s", u.Provider, unit.Name, d.Format(next)))
	}
	if v > most {
		return 0, field.Invalid(path, string(q), fmt.Sprintf("a node has at most %d %s", maxUnits, name))
	}
	return v, nil
}

func (u Units) parse(cpu, memory, disk source) (size ledger.Resources, errs field.ErrorList) {
	size[ledger.Nodes] = 1
	for d, s := range []source{ledger.CPU: cpu, ledger.Memory: memory, ledger.Disk: disk} {
		v, err := u.Quantity(ledger.Dimension(d), s.path, s.quantity)
		if err != nil {
			errs = append(errs, err)
		}
		size[d] = v
	}
	return size, errs
}
