package builder

import (
	"maps"

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
// Rancher cluster and deletes it when it is deleted itself.
func Barrier(c Cluster) (map[string]any, error) {
	annotations, err := evidence(c.Record)
	if err != nil {
		return nil, err
	}
	delete(annotations, v1alpha1.AnnotationQuota)
	labels := maps.Clone(c.Labels)
	labels[v1alpha1.LabelBarrier] = "true"
	return object(c, BarrierName(c.Name), labels, annotations, map[string]any{"managementPolicies": []any{"Observe", "Delete"}}), nil
}

// Observer returns the Object that watches the Rancher cluster: whether it is ready, which machines it has, and how to
// reach it. The kubeconfig is written to a connection secret under the key kubeconfig.
func Observer(c Cluster) map[string]any {
	return object(c, strategies.ObjectName(c.Name, "observer"), c.Labels, nil, map[string]any{
		"managementPolicies": []any{"Observe"},
		"readiness":          map[string]any{"policy": "DeriveFromCelQuery", "celQuery": readyQuery},
		"connectionDetails": []any{map[string]any{
			"apiVersion":            "v1",
			"kind":                  "Secret",
			"name":                  c.Name + "-kubeconfig",
			"namespace":             c.Infra.Rancher.Namespace,
			"fieldPath":             "data.value",
			"toConnectionSecretKey": "kubeconfig",
		}},
		"writeConnectionSecretToRef": map[string]any{
			"name": strategies.ObjectName(c.Name, "kubeconfig"), "namespace": c.SecretNamespace,
		},
	})
}

// object on the Rancher cluster.
func object(c Cluster, name string, labels, annotations map[string]string, spec map[string]any) map[string]any {
	spec["providerConfigRef"] = map[string]any{"name": c.Infra.Credentials.RancherProviderConfigRef.Name}
	spec["watch"] = true
	spec["forProvider"] = map[string]any{"manifest": map[string]any{
		"apiVersion": "provisioning.cattle.io/v1",
		"kind":       "Cluster",
		"metadata":   map[string]any{"name": c.Name, "namespace": c.Infra.Rancher.Namespace},
	}}
	return map[string]any{
		"apiVersion": "kubernetes.crossplane.io/v1alpha2",
		"kind":       "Object",
		"metadata":   metadata(name, labels, annotations),
		"spec":       spec,
	}
}
