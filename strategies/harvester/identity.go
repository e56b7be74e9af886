package harvester

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
)

const (
	// ClusterRoles that Harvester brings along (harvester deploy/charts/harvester/templates/rbac.yaml).
	cloudProviderRole = "harvesterhci.io:cloudprovider"
	csiDriverRole     = "harvesterhci.io:csi-driver"

	objectAPIVersion = "kubernetes.crossplane.io/v1alpha2"
	rbacGroup        = "rbac.authorization.k8s.io"

	// Keys of a service account token.
	keyToken = "token"
	keyCA    = "ca.crt"

	// reachesHarvester is what a ProviderConfig is needed for.
	reachesHarvester = "provider-kubernetes that reaches Harvester"

	// tokenIssued asks for the keys that Harvester's token controller fills in. provider-kubernetes evaluates it on the
	// real Secret, also when it redacts the copy in the Object's status, and needs a query that is a bool by its types.
	tokenIssued = `has(object.data) && "token" in object.data && object.data["token"] != "" && "ca.crt" in object.data && object.data["ca.crt"] != ""`
)

// identity is what a cluster's cloud provider and CSI driver need to reach Harvester: a ServiceAccount of the cluster's
// name, its bindings, and a token. Token and CA leave through the connection Secret of the token's Object. The token comes
// after its ServiceAccount, because the token controller removes one without.
func (s *strategy) identity(scope strategies.Scope) (strategies.Output, error) {
	config, missing := strategies.InfrastructureProviderConfig(scope.Infra, reachesHarvester)
	if missing != nil {
		return strategies.Output{}, missing
	}
	name, namespace := scope.Cluster, s.spec.VMNamespace
	path := field.NewPath("metadata", "name")
	errs := strategies.Check(path, name, validation.IsDNS1123Label)
	if name == "default" {
		errs = append(errs, field.Invalid(path, name, "is a ServiceAccount that every namespace has"))
	}
	if len(errs) > 0 {
		return strategies.Output{}, errs.ToAggregate()
	}

	object := func(suffix string, manifest, more map[string]any) strategies.Resource {
		spec := map[string]any{
			"providerConfigRef": map[string]any{"name": config},
			"watch":             true,
			"forProvider":       map[string]any{"manifest": manifest},
		}
		maps.Copy(spec, more)
		return strategies.Resource{
			"apiVersion": objectAPIVersion,
			"kind":       "Object",
			"metadata":   strategies.Metadata(strategies.ObjectName(scope.Cluster, suffix), scope.Labels, nil),
			"spec":       spec,
		}
	}
	binding := func(kind string, metadata map[string]any, role string) map[string]any {
		return map[string]any{
			"apiVersion": rbacGroup + "/v1",
			"kind":       kind,
			"metadata":   metadata,
			"roleRef":    map[string]any{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": role},
			"subjects":   []any{map[string]any{"kind": "ServiceAccount", "name": name, "namespace": namespace}},
		}
	}
	secret := v1alpha1.SecretReference{Name: strategies.ObjectName(scope.Cluster, "token"), Namespace: scope.SecretNamespace}
	resources := map[string]strategies.Resource{
		"serviceaccount": object("serviceaccount", map[string]any{
			"apiVersion": "v1",
			"kind":       "ServiceAccount",
			"metadata":   map[string]any{"name": name, "namespace": namespace},
		}, nil),
		"rolebinding": object("rolebinding", binding("RoleBinding",
			map[string]any{"name": namespace + "-" + name, "namespace": namespace}, cloudProviderRole), nil),
		// The name is unique in all of Harvester: neither a namespace nor a cluster has a colon, but both have dashes.
		"csi": object("csi", binding("ClusterRoleBinding",
			map[string]any{"name": namespace + ":" + name}, csiDriverRole), nil),
		"token": object("token", tokenManifest(name, namespace), tokenSpec(name, namespace, secret)),
	}
	secrets := []strategies.SecretValue{
		{Path: "cloudProvider.harvester.token", Secret: secret, Key: keyToken, Resource: "token"},
		{Path: "cloudProvider.harvester.caCertificate", Secret: secret, Key: keyCA, Resource: "token"},
	}
	return strategies.Output{SecretValues: secrets, Resources: resources, After: map[string]string{"token": "serviceaccount"}}, nil
}

// tokenManifest has no data, which belongs to Harvester's token controller.
func tokenManifest(account, namespace string) map[string]any {
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "Secret",
		"type":       "kubernetes.io/service-account-token",
		"metadata": map[string]any{
			"name":        account + "-token",
			"namespace":   namespace,
			"annotations": map[string]any{"kubernetes.io/service-account.name": account},
		},
	}
}

// tokenSpec hands on what the token controller fills in.
func tokenSpec(account, namespace string, secret v1alpha1.SecretReference) map[string]any {
	detail := func(key string) map[string]any {
		return map[string]any{
			"apiVersion":            "v1",
			"kind":                  "Secret",
			"name":                  account + "-token",
			"namespace":             namespace,
			"fieldPath":             "data[" + key + "]",
			"toConnectionSecretKey": key,
		}
	}
	return map[string]any{
		"readiness":                  map[string]any{"policy": "DeriveFromCelQuery", "celQuery": tokenIssued},
		"connectionDetails":          []any{detail(keyToken), detail(keyCA)},
		"writeConnectionSecretToRef": map[string]any{"name": secret.Name, "namespace": secret.Namespace},
	}
}
