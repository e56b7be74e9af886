package strategies

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies/size"
)

// BackstopPrefix begins the composed name of every resource of a backstop.
const BackstopPrefix = "backstop-"

// Backstop is a Strategy whose provider can hold a limit of its own, above what is handed out here.
type Backstop interface {
	// Headroom is what may exist beyond what is reserved: milli-cpus, bytes of memory, bytes of disk. A dimension that the
	// provider does not limit is ledger.Unlimited.
	Headroom(demand Demand) ledger.Resources
	// Backstop returns the managed resources that make the provider hold the limit, or give it up where the scope has none.
	// Those that exist and are left out are deleted. An error names the field that is wrong; all stays as it is then.
	Backstop(scope BackstopScope) (BackstopOutput, error)
}

// Demand is what the headroom of a backstop is computed of.
type Demand struct {
	// Quota is the most that is handed out, and Reserved what is now.
	Quota, Reserved ledger.Resources
	// Largest machine that is admitted, in each dimension.
	Largest ledger.Resources
	// Migrations and Surge are numbers of machines, Volumes is a number of volumes of workloads.
	Migrations, Surge, Volumes int64
	// Disk says whether disk is to be limited, and VolumesDisk what volumes of workloads take of it, in bytes.
	Disk        bool
	VolumesDisk int64
	// Limit that the spec wants; ledger.Unlimited where it wants none.
	Limit ledger.Resources
}

// BackstopScope is everything that a strategy may know of a backstop.
type BackstopScope struct {
	// Name of the InfraBlueprint, and labels of every managed resource.
	Name   string
	Labels map[string]string
	// Infra is the InfraBlueprint.
	Infra v1alpha1.InfraBlueprintSpec
	// Limit to hold, nil to give it up: milli-cpus, bytes; ledger.Unlimited where the provider limits nothing.
	Limit *ledger.Resources
	// Observed resources of the backstop, by their composed name.
	Observed map[string]Resource
}

// ComposedName of a resource of the backstop that limits a place; another place is another resource.
func (s BackstopScope) ComposedName(kind string, place ...string) string {
	return NameAbout(BackstopPrefix, kind, place...)
}

// Resource of the backstop by its composed name, without what it manages.
func (s BackstopScope) Resource(apiVersion, kind, composed string, annotations map[string]string, spec map[string]any) Resource {
	return Resource{
		"apiVersion": apiVersion, "kind": kind, "metadata": Metadata("rig-"+s.Name+"-"+composed, s.Labels, annotations), "spec": spec,
	}
}

// BackstopOutput of a strategy.
type BackstopOutput struct {
	// Resources by their ComposedName.
	Resources map[string]Resource
	// Pending says what is being done until the provider holds the limit, and Missing why it does not: something that
	// somebody must look at. It does where both are empty.
	Pending, Missing string
}

// ParseDemand reads what a backstop is computed of. Errors name the field below at, the spec.
func ParseDemand(at *field.Path, b v1alpha1.Backstop) (Demand, field.ErrorList) {
	d := Demand{Limit: ledger.NoLimits()}
	var errs field.ErrorList
	count := func(path *field.Path, n *int64) int64 {
		if n == nil {
			return 0
		}
		if *n < 0 {
			errs = append(errs, field.Invalid(path, *n, "must not be negative"))
		}
		return *n
	}
	amount := func(path *field.Path, q v1alpha1.Quantity, parse func(*field.Path, v1alpha1.Quantity) (int64, *field.Error)) int64 {
		v, err := parse(path, q)
		if err != nil {
			errs = append(errs, err)
		}
		return v
	}
	d.Migrations, d.Surge = count(at.Child("parallelMigrations"), b.ParallelMigrations), count(at.Child("surgeMachines"), b.SurgeMachines)
	if v := b.Volumes; v != nil {
		d.Disk, d.Volumes = true, count(at.Child("volumes", "count"), &v.Count)
		d.VolumesDisk = amount(at.Child("volumes", "disk"), v.Disk, ledger.ParseBytes)
	}
	if l, path := b.Limit, at.Child("limit"); l != nil {
		if l.CPU != "" {
			d.Limit[ledger.CPU] = amount(path.Child("cpu"), l.CPU, ledger.ParseCPU)
		}
		if l.Memory != "" {
			d.Limit[ledger.Memory] = amount(path.Child("memory"), l.Memory, ledger.ParseBytes)
		}
		if l.Disk != "" {
			d.Disk, d.Limit[ledger.Disk] = true, amount(path.Child("disk"), l.Disk, ledger.ParseBytes)
		}
	}
	return d, errs
}

// Limits of a backstop with a headroom: what the spec wants, or the quota and the headroom, where more is reserved than the
// quota allows that and the headroom. Memory and disk are rounded up to whole MiB. Errors name the fields below at, the
// spec, that want less than what is reserved and the headroom.
func (d Demand) Limits(at *field.Path, headroom ledger.Resources) (limits ledger.Resources, low field.ErrorList) {
	limits = ledger.NoLimits()
	for _, dimension := range []ledger.Dimension{ledger.CPU, ledger.Memory, ledger.Disk} {
		limits[dimension] = roundUp(dimension, d.Quota.Max(d.Reserved).Plus(headroom)[dimension])
		wanted, least := d.Limit[dimension], roundUp(dimension, d.Reserved.Plus(headroom)[dimension])
		if wanted == ledger.Unlimited || headroom[dimension] == ledger.Unlimited {
			continue
		}
		if wanted < least {
			low = append(low, field.Invalid(at.Child("limit", dimension.String()), dimension.Format(wanted), fmt.Sprintf(
				"%s is reserved, and machines need %s of headroom: use at least %s", dimension.Show(d.Reserved[dimension]),
				dimension.Show(headroom[dimension]), dimension.Format(least))))
		}
		limits[dimension] = wanted
	}
	return limits, low
}

// roundUp to whole MiB what is counted in bytes.
func roundUp(d ledger.Dimension, v int64) int64 {
	if d == ledger.CPU || v == ledger.Unlimited {
		return v
	}
	return size.InUnits(v, size.Mebibyte) * size.Mebibyte
}

// Limited dimensions of a backstop, as a status shows them.
func Limited(r ledger.Resources) v1alpha1.BackstopResources {
	show := func(d ledger.Dimension) v1alpha1.Quantity {
		if r[d] == ledger.Unlimited {
			return ""
		}
		return v1alpha1.Quantity(d.Format(roundUp(d, r[d])))
	}
	return v1alpha1.BackstopResources{CPU: show(ledger.CPU), Memory: show(ledger.Memory), Disk: show(ledger.Disk)}
}

// Text of a managed resource at a path, empty where there is none.
func (r Resource) Text(path ...string) string {
	text, _, _ := unstructured.NestedString(r, path...)
	return text
}

// Map of a managed resource at a path, nil where there is none.
func (r Resource) Map(path ...string) Resource {
	m, _, _ := unstructured.NestedMap(r, path...)
	return m
}

// Failure is what its provider says is wrong with a managed resource, empty where nothing is.
func (r Resource) Failure() string {
	conditions, _, _ := unstructured.NestedSlice(r, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Synced" && c["status"] == "False" {
			return Resource(c).Text("message")
		}
	}
	return ""
}
