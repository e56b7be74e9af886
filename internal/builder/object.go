package builder

import (
	"maps"
	"slices"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
)

// readyQuery is true only when a Rancher cluster really is ready. Rancher never takes status.ready back, and sets
// Updated to True while a cluster is being deleted, so neither is enough alone.
const readyQuery = `!has(object.metadata.deletionTimestamp) && ` +
	`has(object.status) && has(object.status.observedGeneration) && ` +
	`object.status.observedGeneration == object.metadata.generation && ` +
	`has(object.status.ready) && object.status.ready == true && ` +
	`has(object.status.conditions) && ` +
	`object.status.conditions.exists(c, c.type == "Ready" && c.status == "True") && ` +
	`object.status.conditions.exists(c, c.type == "Updated" && c.status == "True")`

// BarrierName is the name of a cluster's barrier.
func BarrierName(cluster string) string { return strategies.ObjectName(cluster, "barrier") }

// Barrier returns the Object that stays until Rancher has removed every machine of the cluster. It never creates the
// Rancher cluster and deletes it when it is deleted itself. Like the Release it says what it was rendered with, for when
// both Release and record are lost.
//
// Once the cluster is finished it also reads the kubeconfig that Rancher has made by then: its connection secret has it
// under the key kubeconfig. The observer could not do this, since provider-kubernetes does not show an Object as synced
// while connection details are missing. When it deletes an Object it does not look for them.
//
// The provider's resources of the cluster outlive its machines: provider-kubernetes puts a finalizer on what an Object
// depends on, and providers leave alone what has a finalizer of somebody else (crossplane-runtime since v2).
func Barrier(c Cluster) (map[string]any, error) {
	annotations, err := evidence(c.Record)
	if err != nil {
		return nil, err
	}
	labels := maps.Clone(c.Labels)
	labels[v1alpha1.LabelBarrier] = "true"
	if c.BarrierPaused {
		annotations[v1alpha1.AnnotationPaused] = "true"
	}
	spec := map[string]any{"managementPolicies": []any{"Observe", "Delete"}, "watch": true}
	if c.Finished {
		spec["connectionDetails"] = []any{map[string]any{
			"apiVersion": "v1", "kind": "Secret", "name": c.Name + "-kubeconfig", "namespace": c.Infra.Rancher.Namespace,
			"fieldPath": "data.value", "toConnectionSecretKey": "kubeconfig",
		}}
		spec["writeConnectionSecretToRef"] = map[string]any{
			"name": strategies.ObjectName(c.Name, "kubeconfig"), "namespace": c.SecretNamespace,
		}
	}
	var references []any
	for _, name := range slices.Sorted(maps.Keys(c.Provider.Resources)) {
		resource := c.Provider.Resources[name]
		metadata, _ := resource["metadata"].(map[string]any)
		references = append(references, map[string]any{"dependsOn": map[string]any{
			"apiVersion": resource["apiVersion"], "kind": resource["kind"], "name": metadata["name"],
		}})
	}
	if len(references) > 0 {
		spec["references"] = references
	}
	return object(c, BarrierName(c.Name), labels, annotations, spec, rancherCluster(c)), nil
}

// Observer returns the Object that watches the Rancher cluster: whether it is ready, and which machines it has.
func Observer(c Cluster) map[string]any {
	return object(c, strategies.ObjectName(c.Name, "observer"), c.Labels, nil, map[string]any{
		"managementPolicies": []any{"Observe"},
		"readiness":          map[string]any{"policy": "DeriveFromCelQuery", "celQuery": readyQuery},
		"watch":              true,
	}, rancherCluster(c))
}

func rancherCluster(c Cluster) map[string]any {
	return map[string]any{
		"apiVersion": "provisioning.cattle.io/v1",
		"kind":       "Cluster",
		"metadata":   map[string]any{"name": c.Name, "namespace": c.Infra.Rancher.Namespace},
	}
}

// object on the Rancher management cluster.
func object(c Cluster, name string, labels, annotations map[string]string, spec, manifest map[string]any) map[string]any {
	spec["providerConfigRef"] = map[string]any{"name": c.Infra.Credentials.RancherProviderConfigRef.Name}
	spec["forProvider"] = map[string]any{"manifest": manifest}
	return map[string]any{
		"apiVersion": "kubernetes.crossplane.io/v1alpha2",
		"kind":       "Object",
		"metadata":   strategies.Metadata(name, labels, annotations),
		"spec":       spec,
	}
}
