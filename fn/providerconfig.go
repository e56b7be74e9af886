package main

import (
	"cmp"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
)

// ProviderConfigs that an InfraBlueprint composes of its secret references, by composed name.
const (
	composedRancherHelm       = "providerconfig-rancher-helm"
	composedRancherKubernetes = "providerconfig-rancher-kubernetes"
	composedInfrastructure    = "providerconfig-infrastructure"
)

var (
	helmConfig       = resourceKind{"helm.crossplane.io/v1beta1", "ProviderConfig"}        //nolint:gochecknoglobals // A constant that Go cannot express as one.
	kubernetesConfig = resourceKind{"kubernetes.crossplane.io/v1alpha1", "ProviderConfig"} //nolint:gochecknoglobals // A constant that Go cannot express as one.
)

// nameProviderConfigs fills in the names of the ProviderConfigs that are made of secret references.
func nameProviderConfigs(path *field.Path, infra string, c *v1alpha1.Credentials) (errs field.ErrorList) {
	const hint = "say either this, or name existing ProviderConfigs"
	switch rancher := c.RancherKubeconfigSecretRef; {
	case rancher == nil && c.RancherProviderConfigRef.Name == "":
		errs = append(errs, field.Required(path.Child("rancherProviderConfigRef", "name"), "names the ProviderConfigs that reach Rancher"))
	case rancher != nil && c.RancherProviderConfigRef.Name != "":
		errs = append(errs, field.Forbidden(path.Child("rancherKubeconfigSecretRef"), hint))
	case rancher != nil:
		errs = append(errs, completeSecret(path.Child("rancherKubeconfigSecretRef"), rancher)...)
		c.RancherProviderConfigRef.Name = "rig-" + infra + "-rancher"
	}
	switch infrastructure := c.InfrastructureKubeconfigSecretRef; {
	case infrastructure != nil && c.InfrastructureProviderConfigRef != nil:
		errs = append(errs, field.Forbidden(path.Child("infrastructureKubeconfigSecretRef"), hint))
	case infrastructure != nil:
		errs = append(errs, completeSecret(path.Child("infrastructureKubeconfigSecretRef"), infrastructure)...)
		c.InfrastructureProviderConfigRef = &v1alpha1.ProviderConfigReference{Name: "rig-" + infra + "-infrastructure"}
	}
	return errs
}

func completeSecret(path *field.Path, s *v1alpha1.SecretKeyReference) (errs field.ErrorList) {
	s.Key = cmp.Or(s.Key, "kubeconfig")
	if s.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "names a Secret on the control plane"))
	}
	if s.Namespace == "" {
		errs = append(errs, field.Required(path.Child("namespace"), "is the namespace of the Secret on the control plane"))
	}
	return errs
}

// providerConfigs of the secret references.
func (r *run) providerConfigs(c v1alpha1.Credentials) error {
	if secret := c.RancherKubeconfigSecretRef; secret != nil {
		name := c.RancherProviderConfigRef.Name
		if err := r.compose(composedRancherHelm, r.providerConfig(helmConfig, name, secret)); err != nil {
			return err
		}
		if err := r.compose(composedRancherKubernetes, r.providerConfig(kubernetesConfig, name, secret)); err != nil {
			return err
		}
	}
	if secret := c.InfrastructureKubeconfigSecretRef; secret != nil {
		return r.compose(composedInfrastructure, r.providerConfig(kubernetesConfig, c.InfrastructureProviderConfigRef.Name, secret))
	}
	return nil
}

func (r *run) providerConfig(kind resourceKind, name string, secret *v1alpha1.SecretKeyReference) map[string]any {
	return map[string]any{
		"apiVersion": kind.apiVersion,
		"kind":       kind.kind,
		"metadata":   map[string]any{"name": name, "labels": map[string]any{v1alpha1.LabelInfraBlueprint: r.name()}},
		"spec": map[string]any{"credentials": map[string]any{
			"source":    "Secret",
			"secretRef": map[string]any{"namespace": secret.Namespace, "name": secret.Name, "key": secret.Key},
		}},
	}
}

// retire the ProviderConfigs that the spec no longer asks for. While anything is reserved, something may still be reached
// through them, so they stay as they are.
func (r *run) retire(b ledger.Books, s ledger.Settlement) error {
	free := b.Ledger != nil && len(b.Ledger.Grants) == 0 && len(s.Ledger.Grants) == 0
	for _, name := range []string{composedRancherHelm, composedRancherKubernetes, composedInfrastructure} {
		observed := r.observed(name)
		if _, wanted := r.resources[name]; wanted || observed == nil {
			continue
		}
		if free {
			r.retired[name] = true
			continue
		}
		if err := r.compose(name, r.asObserved(observed.AsMap())); err != nil {
			return err
		}
	}
	return nil
}
