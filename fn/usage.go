package main

import (
	"fmt"
	"strings"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
)

// protects says whether anything is protected already.
func (r *run) protects() bool {
	for name := range r.req.GetObserved().GetResources() {
		if strings.HasPrefix(name, usagePrefix) {
			return true
		}
	}
	return false
}

// protect what clusters are built with from being deleted by accident: the InfraBlueprint, its provider blueprint, and
// the ProviderConfigs that reach Rancher. Crossplane's webhook refuses to delete what a ClusterUsage names, and says why.
func (r *run) protect(spec v1alpha1.InfraBlueprintSpec) error {
	rancher := spec.Credentials.RancherProviderConfigRef.Name
	for _, used := range []struct {
		resourceKind

		name string
	}{
		{resourceKind{v1alpha1.GroupVersion.String(), v1alpha1.KindInfraBlueprint}, r.name()},
		{resourceKind{v1alpha1.GroupVersion.String(), spec.ProviderRef.Kind}, spec.ProviderRef.Name},
		{helmConfig, rancher},
		{kubernetesConfig, rancher},
	} {
		key := strategies.NameAbout(usagePrefix, used.kind, used.apiVersion, used.kind, used.name)
		usage := map[string]any{
			"apiVersion": "protection.crossplane.io/v1beta1",
			"kind":       "ClusterUsage",
			"metadata": map[string]any{
				"name": fmt.Sprintf("rig-%s-%s", r.name(), key), "labels": map[string]any{v1alpha1.LabelInfraBlueprint: r.name()},
			},
			"spec": map[string]any{
				"of":     map[string]any{"apiVersion": used.apiVersion, "kind": used.kind, "resourceRef": map[string]any{"name": used.name}},
				"reason": fmt.Sprintf("clusters of InfraBlueprint %q need it; delete them first", r.name()),
			},
		}
		if err := r.compose(key, usage); err != nil {
			return err
		}
	}
	return nil
}
