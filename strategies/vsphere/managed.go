package vsphere

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/size"
)

// Kind of provider-vsphere.
const (
	poolAPIVersion = "hostandclustermanagement.crossplane.io/v1alpha1"
	poolKind       = "VSphereResourcePool"
)

// managed returns the folder and the resource pool of a cluster, as far as the blueprint wants them managed: kinds of
// provider-vsphere, whose external names are ids that vSphere gives.
func (s *strategy) managed(scope strategies.Scope) (map[string]strategies.Resource, error) {
	resources := map[string]strategies.Resource{}
	folder, pool := s.spec.Folder, s.spec.ResourcePool
	if !folder.Manage && !pool.Manage {
		return resources, nil
	}
	config, missing := strategies.InfrastructureProviderConfig(scope.Infra, "provider-vsphere that makes folders and resource pools")
	if missing != nil {
		return nil, missing
	}
	resource := func(suffix, apiVersion, kind string, parameters map[string]any) strategies.Resource {
		return strategies.Resource{
			"apiVersion": apiVersion,
			"kind":       kind,
			"metadata":   strategies.UnnamedMetadata(strategies.ObjectName(scope.Cluster, suffix), scope.Labels),
			"spec":       map[string]any{"providerConfigRef": map[string]any{"name": config}, "forProvider": parameters},
		}
	}
	if folder.Manage {
		resources["folder"] = resource("folder", "inventory.crossplane.io/v1alpha1", "VSphereFolder", map[string]any{
			"path": s.folder(scope.Cluster), "type": "vm", "datacenterId": folder.DatacenterID,
		})
	}
	if pool.Manage {
		limits, err := s.limits(scope.Pools)
		if err != nil {
			return nil, err
		}
		limits["name"], limits["parentResourcePoolId"] = scope.Cluster, pool.ParentID
		resources["resourcepool"] = resource("resourcepool", poolAPIVersion, poolKind, limits)
	}
	return resources, nil
}

// limits of a cluster's resource pool, in MHz and MB: what the rendered pools take, and one more node of each, since
// Rancher rolls every pool at once with one machine too many. A limit throttles virtual machines; it refuses none.
func (s *strategy) limits(pools []v1alpha1.AdmittedPool) (map[string]any, error) {
	var sum ledger.Resources
	for _, pool := range pools {
		node, errs := ledger.ParseNode(field.NewPath("status", "quota", "pools").Key(pool.Name).Child("node"), pool.Node)
		if len(errs) > 0 {
			return nil, fmt.Errorf("cannot limit the resource pool: %w", errs.ToAggregate())
		}
		sum = sum.Plus(node.Times(pool.Count + 1))
	}
	return map[string]any{
		"cpuLimit":    size.InUnits(sum[ledger.CPU]*s.spec.ResourcePool.MHzPerCPU, size.Millicpus),
		"memoryLimit": size.InUnits(sum[ledger.Memory], size.Mebibyte),
	}, nil
}
