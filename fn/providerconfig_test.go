package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// secretInfra reaches Rancher and Harvester with kubeconfigs in Secrets.
func secretInfra(t testing.TB) object {
	t.Helper()
	return put(infraBlueprint(t, 64), object{
		"rancherKubeconfigSecretRef":        object{"namespace": "crossplane-system", "name": "rancher"},
		"infrastructureKubeconfigSecretRef": object{"namespace": "crossplane-system", "name": "harvester", "key": "config"},
		"cloudCredentialSecretName":         "cattle-global-data:cc-abcde",
	}, "spec", "credentials")
}

// providerConfigs of the world by apiVersion and name, without what is the same for all.
func (w *world) providerConfigs() map[string]any {
	out := map[string]any{}
	for _, k := range w.owned(prod) {
		if strings.HasPrefix(k.kind, "ProviderConfig") {
			o := w.objects[k]
			out[at(o, "metadata", "annotations", v1alpha1.AnnotationComposedName).(string)] = []any{o["apiVersion"], k.name, at(o, "spec", "credentials", "secretRef")}
		}
	}
	return out
}

func TestNameProviderConfigs(t *testing.T) {
	secret := func() object { return object{"namespace": "crossplane-system", "name": "a"} }
	ref := object{"name": "a"}
	cases := map[string]struct {
		reason      string
		credentials object
		want        string
	}{
		"NoWay":       {reason: "Rancher must be reached.", credentials: object{}, want: "spec.credentials.rancherProviderConfigRef.name: Required value"},
		"BothWays":    {reason: "One way only.", credentials: object{"rancherProviderConfigRef": ref, "rancherKubeconfigSecretRef": secret()}, want: "spec.credentials.rancherKubeconfigSecretRef: Forbidden"},
		"NoName":      {reason: "A Secret has a name.", credentials: object{"rancherKubeconfigSecretRef": object{"namespace": "a"}}, want: "spec.credentials.rancherKubeconfigSecretRef.name: Required value"},
		"NoNamespace": {reason: "A Secret has a namespace.", credentials: object{"rancherKubeconfigSecretRef": object{"name": "a"}}, want: "spec.credentials.rancherKubeconfigSecretRef.namespace: Required value"},
		"BothInfrastructures": {
			reason:      "One way only.",
			credentials: object{"rancherProviderConfigRef": ref, "infrastructureProviderConfigRef": ref, "infrastructureKubeconfigSecretRef": secret()},
			want:        "spec.credentials.infrastructureKubeconfigSecretRef: Forbidden",
		},
		"InfrastructureNoName": {
			reason:      "A Secret has a name.",
			credentials: object{"rancherProviderConfigRef": ref, "infrastructureKubeconfigSecretRef": object{"namespace": "a"}},
			want:        "spec.credentials.infrastructureKubeconfigSecretRef.name: Required value",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, put(infraBlueprint(t, 64), tc.credentials, "spec", "credentials"), harvesterBlueprint(t))
			req, out := w.call(prod)
			checkDecided(t, req, out.rsp)
			if got := conditionsOf(out.rsp)[typeWithinQuota]; !strings.HasPrefix(got, "Unknown InvalidSpec") || !strings.Contains(got, tc.want) {
				t.Errorf("%s\ncondition WithinQuota: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// An InfraBlueprint makes the ProviderConfigs of its secret references, and its clusters use them.
func TestProviderConfigs(t *testing.T) {
	w := newWorld(t, secretInfra(t), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.settle()
	w.expect(xr("aa"), typeProvisioned, "True Provisioned")
	rancher := object{"namespace": "crossplane-system", "name": "rancher", "key": "kubeconfig"}
	made := map[string]any{
		composedRancherHelm:       []any{"helm.crossplane.io/v1beta1", "rig-prod-rancher", rancher},
		composedRancherKubernetes: []any{"kubernetes.crossplane.io/v1alpha1", "rig-prod-rancher", rancher},
		composedInfrastructure: []any{
			"kubernetes.crossplane.io/v1alpha1", "rig-prod-infrastructure", object{"namespace": "crossplane-system", "name": "harvester", "key": "config"},
		},
	}
	if diff := cmp.Diff(made, w.providerConfigs()); diff != "" {
		t.Errorf("ProviderConfigs: -want, +got:\n%s", diff)
	}
	for k, want := range map[id]string{release("aa"): "rig-prod-rancher", barrier("aa"): "rig-prod-rancher", {"Object", "aa-token"}: "rig-prod-infrastructure"} {
		if got := at(w.objects[k], "spec", "providerConfigRef", "name"); got != want {
			t.Errorf("%v uses ProviderConfig %v, want %s", k, got, want)
		}
	}
	terms := at(w.objects[id{environmentConfig.kind, "rig-terms-prod"}], "data", "spec", "credentials")
	want := object{
		"rancherProviderConfigRef": object{"name": "rig-prod-rancher"}, "infrastructureProviderConfigRef": object{"name": "rig-prod-infrastructure"},
		"cloudCredentialSecretName": "cattle-global-data:cc-abcde",
	}
	if diff := cmp.Diff(want, terms); diff != "" {
		t.Errorf("credentials in the terms: -want, +got:\n%s", diff)
	}

	// Another way to reach Rancher: the ProviderConfigs stay while a cluster may still be reached through them.
	w.put(put(w.objects[prod], at(infraBlueprint(t, 64), "spec", "credentials"), "spec", "credentials"))
	w.settle()
	if diff := cmp.Diff(made, w.providerConfigs()); diff != "" {
		t.Errorf("ProviderConfigs with a cluster: -want, +got:\n%s", diff)
	}
	if got := at(w.objects[release("aa")], "spec", "providerConfigRef", "name"); got != "rancher" {
		t.Errorf("the Release uses ProviderConfig %v, want rancher", got)
	}
	w.delete(xr("aa"), true)
	for range 40 {
		w.rounds(1)
	}
	if diff := cmp.Diff(map[string]any{}, w.providerConfigs()); diff != "" {
		t.Errorf("ProviderConfigs without clusters: -want, +got:\n%s", diff)
	}
}

// Before an InfraBlueprint that lost its status knows its clusters again, it gives up nothing.
func TestProviderConfigsOfARestoredInfraBlueprint(t *testing.T) {
	w := newWorld(t, secretInfra(t), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.settle()
	made := w.providerConfigs()
	w.put(put(without(w.objects[prod], "status"), at(infraBlueprint(t, 64), "spec", "credentials"), "spec", "credentials"))
	for range 5 {
		w.rounds(1)
		if diff := cmp.Diff(made, w.providerConfigs()); diff != "" {
			t.Fatalf("ProviderConfigs: -want, +got:\n%s", diff)
		}
	}
}
