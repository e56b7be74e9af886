package vsphere

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/size"
)

// unlimited is a limit of vSphere that is none.
const unlimited = -1

// Headroom is room for the largest machine, once for each machine of a surge. A machine that migrates takes nothing twice,
// and a resource pool limits no disk.
func (s *strategy) Headroom(d strategies.Demand) ledger.Resources {
	headroom, surge := ledger.NoLimits(), d.Largest.Times(d.Surge)
	headroom[ledger.CPU], headroom[ledger.Memory] = surge[ledger.CPU], surge[ledger.Memory]
	return headroom
}

// Backstop is the limits of the resource pool at the blueprint's path, in MHz and MB: every machine is in it, directly or in
// the pool of its cluster. The pool exists, and stays when the backstop goes. Pools that are not the blueprint's any more
// lose their limits.
func (s *strategy) Backstop(scope strategies.BackstopScope) (strategies.BackstopOutput, error) {
	out := strategies.BackstopOutput{Resources: map[string]strategies.Resource{}}
	wanted := ""
	if scope.Limit != nil {
		config, pool, err := s.limitable(scope)
		if err != nil {
			return out, err
		}
		cpu := inUnits(scope.Limit.Times(pool.MHzPerCPU)[ledger.CPU], size.Millicpus)
		memory := inUnits(scope.Limit[ledger.Memory], size.Mebibyte)
		wanted = scope.ComposedName("ResourcePool", pool.ParentID)
		out.Resources[wanted] = limited(scope, wanted, pool.ParentID, map[string]any{"name": config}, map[string]any{
			"name": path.Base(pool.Path), "parentResourcePoolId": pool.GrandparentID, "cpuLimit": cpu, "memoryLimit": memory,
		})
		switch observed := scope.Observed[wanted]; {
		case observed.Failure() != "":
			out.Missing = "resource pool " + pool.Path + ": " + observed.Failure()
		case !has(observed, cpu, memory):
			out.Pending = "limiting resource pool " + pool.Path
		}
	}
	for composed, observed := range scope.Observed {
		if composed == wanted || has(observed, unlimited, unlimited) {
			continue
		}
		parameters := observed.Map("spec", "forProvider")
		parameters["cpuLimit"], parameters["memoryLimit"] = int64(unlimited), int64(unlimited)
		id := observed.Text("metadata", "annotations", v1alpha1.AnnotationExternalName)
		out.Resources[composed] = limited(scope, composed, id, observed.Map("spec", "providerConfigRef"), parameters)
	}
	return out, nil
}

// limitable says whether the blueprint's pool can be limited, and through which ProviderConfig.
func (s *strategy) limitable(scope strategies.BackstopScope) (config string, pool v1alpha1.VsphereResourcePool, err error) {
	var errs field.ErrorList
	config, missing := strategies.InfrastructureProviderConfig(scope.Infra, "provider-vsphere that limits the resource pool")
	if missing != nil {
		errs = append(errs, missing)
	}
	if limit := scope.Infra.Backstop.Limit; limit != nil && limit.Disk != "" {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "backstop", "limit", "disk"), "a resource pool of vSphere limits no disk"))
	}
	pool = s.spec.ResourcePool
	at := field.NewPath("VsphereBlueprint", "spec", "resourcePool")
	if pool.GrandparentID == "" {
		errs = append(errs, field.Required(at.Child("grandparentID"), "a backstop needs it, parentID and mhzPerCPU"))
	}
	if strings.EqualFold(path.Base(pool.Path), "Resources") {
		errs = append(errs, field.Invalid(at.Child("path"), pool.Path, "is the root of a host or cluster, which cannot be limited: use a resource pool below it"))
	}
	return config, pool, errs.ToAggregate()
}

// inUnits of vSphere, rounded up. What is more than can be counted is no limit.
func inUnits(amount, unit int64) int64 {
	if amount == ledger.Unlimited {
		return unlimited
	}
	return size.InUnits(amount, unit)
}

// limited resource pool, which provider-vsphere finds by its id, and leaves when it is told to no more.
func limited(scope strategies.BackstopScope, composed, id string, config, parameters map[string]any) strategies.Resource {
	return scope.Resource(poolAPIVersion, poolKind, composed, map[string]string{v1alpha1.AnnotationExternalName: id}, map[string]any{
		"deletionPolicy": "Orphan", "providerConfigRef": config, "forProvider": parameters,
	})
}

// has says whether a resource pool is seen with the limits.
func has(observed strategies.Resource, cpu, memory int64) bool {
	for name, want := range map[string]int64{"cpuLimit": cpu, "memoryLimit": memory} {
		got, found, err := unstructured.NestedFieldNoCopy(observed, "status", "atProvider", name)
		if number, ok := got.(float64); !found || err != nil || !ok || int64(number) != want {
			return false
		}
	}
	return true
}
