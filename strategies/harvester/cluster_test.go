package harvester

import (
	"encoding/base64"
	"encoding/pem"
	"maps"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/strvals"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
	"github.com/rig-gateway/function-rig/strategies/strategytest"
)

func scope(pools ...v1alpha1.AdmittedPool) strategies.Scope {
	return strategies.Scope{
		Cluster: "payments-x7k2p",
		Labels:  map[string]string{v1alpha1.LabelCluster: "payments-x7k2p", v1alpha1.LabelInfraBlueprint: "fra1"},
		Infra: v1alpha1.InfraBlueprintSpec{Credentials: v1alpha1.Credentials{
			InfrastructureProviderConfigRef: &v1alpha1.ProviderConfigReference{Name: "harvester-fra1"},
		}},
		Pools:           pools,
		SecretNamespace: "crossplane-system",
	}
}

func pool(name string, cpu, memory, disk v1alpha1.Quantity) v1alpha1.AdmittedPool {
	return v1alpha1.AdmittedPool{
		Pool: v1alpha1.Pool{Name: name, Count: 3, Roles: []v1alpha1.Role{v1alpha1.RoleWorker}},
		Size: v1alpha1.NodeResources{CPU: cpu, Memory: memory, Disk: disk},
	}
}

const wantUserData = `#cloud-config
package_update: true
packages:
- qemu-guest-agent
runcmd:
- - systemctl
  - enable
  - --now
  - qemu-guest-agent.service
`

// wantMachine is the machine config of a minimal blueprint, with changes.
func wantMachine(cpu, memory, disk string, changes map[string]any) map[string]any {
	config := map[string]any{
		"cpuCount":    cpu,
		"memorySize":  memory,
		"diskInfo":    `{"disks":[{"imageName":"rig-prod/image-x7k2p","size":` + disk + `,"bootOrder":1,"bus":"virtio","type":"disk"}]}`,
		"networkInfo": `{"interfaces":[{"networkName":"default/vlan-10","model":"virtio","type":"bridge"}]}`,
		"vmNamespace": "rig-prod",
		"sshUser":     "ubuntu",
		"userData":    wantUserData,
	}
	maps.Copy(config, changes)
	return map[string]any{"machineConfig": config}
}

func wantObject(suffix string, spec map[string]any) strategies.Resource {
	spec["providerConfigRef"] = map[string]any{"name": "harvester-fra1"}
	spec["watch"] = true
	return strategies.Resource{
		"apiVersion": "kubernetes.crossplane.io/v1alpha2",
		"kind":       "Object",
		"metadata": map[string]any{
			"name":        "payments-x7k2p-" + suffix,
			"labels":      map[string]any{"rig-gateway.io/cluster": "payments-x7k2p", "rig-gateway.io/infra-blueprint": "fra1"},
			"annotations": map[string]any{"crossplane.io/external-name": "payments-x7k2p-" + suffix},
		},
		"spec": spec,
	}
}

func wantManifest(manifest map[string]any) map[string]any {
	return map[string]any{"forProvider": map[string]any{"manifest": manifest}}
}

// want is the output for these pools.
func want(pools map[string]any) strategies.Output {
	subjects := []any{map[string]any{"kind": "ServiceAccount", "name": "payments-x7k2p", "namespace": "rig-prod"}}
	detail := func(path, key string) map[string]any {
		return map[string]any{
			"apiVersion": "v1", "kind": "Secret", "name": "payments-x7k2p-token", "namespace": "rig-prod",
			"fieldPath": path, "toConnectionSecretKey": key,
		}
	}
	secret := v1alpha1.SecretReference{Name: "payments-x7k2p-token", Namespace: "crossplane-system"}
	token := wantManifest(map[string]any{
		"apiVersion": "v1",
		"kind":       "Secret",
		"type":       "kubernetes.io/service-account-token",
		"metadata": map[string]any{
			"name": "payments-x7k2p-token", "namespace": "rig-prod",
			"annotations": map[string]any{"kubernetes.io/service-account.name": "payments-x7k2p"},
		},
	})
	token["readiness"] = map[string]any{"policy": "DeriveFromCelQuery", "celQuery": tokenIssued}
	token["connectionDetails"] = []any{detail("data[token]", "token"), detail("data[ca.crt]", "ca.crt")}
	token["writeConnectionSecretToRef"] = map[string]any{"name": "payments-x7k2p-token", "namespace": "crossplane-system"}

	return strategies.Output{
		Values: map[string]any{
			"machineConfigKind": "HarvesterConfig",
			"pools":             pools,
			"cloudProvider": map[string]any{
				"harvester": map[string]any{"server": "https://10.0.0.10:6443", "namespace": "rig-prod"},
			},
		},
		SecretValues: []strategies.SecretValue{
			{Path: "cloudProvider.harvester.token", Secret: secret, Key: "token", Resource: "token"},
			{Path: "cloudProvider.harvester.caCertificate", Secret: secret, Key: "ca.crt", Resource: "token"},
		},
		Resources: map[string]strategies.Resource{
			"serviceaccount": wantObject("serviceaccount", wantManifest(map[string]any{
				"apiVersion": "v1",
				"kind":       "ServiceAccount",
				"metadata":   map[string]any{"name": "payments-x7k2p", "namespace": "rig-prod"},
			})),
			"rolebinding": wantObject("rolebinding", wantManifest(map[string]any{
				"apiVersion": "rbac.authorization.k8s.io/v1",
				"kind":       "RoleBinding",
				"metadata":   map[string]any{"name": "rig-prod-payments-x7k2p", "namespace": "rig-prod"},
				"roleRef":    map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "harvesterhci.io:cloudprovider"},
				"subjects":   subjects,
			})),
			"csi": wantObject("csi", wantManifest(map[string]any{
				"apiVersion": "rbac.authorization.k8s.io/v1",
				"kind":       "ClusterRoleBinding",
				"metadata":   map[string]any{"name": "rig-prod:payments-x7k2p"},
				"roleRef":    map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "harvesterhci.io:csi-driver"},
				"subjects":   subjects,
			})),
			"token": wantObject("token", token),
		},
		After: map[string]string{"token": "serviceaccount"},
	}
}

func TestCluster(t *testing.T) {
	withStorage := want(map[string]any{"all": wantMachine("4", "8", "40", nil)})
	withStorage.Values["cluster"] = map[string]any{"chartValues": map[string]any{
		"harvester-csi-driver": map[string]any{"hostStorageClass": "fast-ssd"},
	}}
	all := pool("all", "4", "8Gi", "40Gi")
	cases := map[string]struct {
		reason string
		change func(*v1alpha1.HarvesterBlueprintSpec)
		pools  []v1alpha1.AdmittedPool
		want   strategies.Output
	}{
		"OnePool": {
			reason: "vCPUs and GiB, whole, as strings.",
			pools:  []v1alpha1.AdmittedPool{all},
			want:   want(map[string]any{"all": wantMachine("4", "8", "40", nil)}),
		},
		"ThreePools": {
			reason: "Each pool has its own sizes.",
			pools: []v1alpha1.AdmittedPool{
				pool("control-plane", "4", "8Gi", "60Gi"), pool("large", "16", "64Gi", "1Ti"), pool("small", "2000m", "4096Mi", "53687091200"),
			},
			want: want(map[string]any{
				"control-plane": wantMachine("4", "8", "60", nil),
				"large":         wantMachine("16", "64", "1024", nil),
				"small":         wantMachine("2", "4", "50", nil),
			}),
		},
		"Admitted": {
			reason: "Sizes are those of the admission, whatever the pool and the blueprint say today.",
			change: func(s *v1alpha1.HarvesterBlueprintSpec) {
				s.NodeDefaults = v1alpha1.NodeDefaults{CPU: "32", Memory: "256Gi", Disk: "1Ti"}
			},
			pools: []v1alpha1.AdmittedPool{all},
			want:  want(map[string]any{"all": wantMachine("4", "8", "40", nil)}),
		},
		"Options": {
			reason: "What is set is passed on.",
			change: func(s *v1alpha1.HarvesterBlueprintSpec) {
				s.EnableEFI, s.EnableSecureBoot, s.CPUModel = true, true, "host-passthrough"
			},
			pools: []v1alpha1.AdmittedPool{all},
			want: want(map[string]any{"all": wantMachine("4", "8", "40", map[string]any{
				"enableEfi": true, "enableSecureBoot": true, "cpuModel": "host-passthrough",
			})}),
		},
		"Names": {
			reason: "Bare names get the namespace, others keep theirs, and networks keep their order.",
			change: func(s *v1alpha1.HarvesterBlueprintSpec) {
				s.Image, s.Networks = "images/ubuntu-24.04", []string{"vlan-20", "default/vlan-10"}
			},
			pools: []v1alpha1.AdmittedPool{all},
			want: want(map[string]any{"all": wantMachine("4", "8", "40", map[string]any{
				"diskInfo":    `{"disks":[{"imageName":"images/ubuntu-24.04","size":40,"bootOrder":1,"bus":"virtio","type":"disk"}]}`,
				"networkInfo": `{"interfaces":[{"networkName":"rig-prod/vlan-20","model":"virtio","type":"bridge"},{"networkName":"default/vlan-10","model":"virtio","type":"bridge"}]}`,
			})}),
		},
		"StorageClass": {
			reason: "The CSI driver's own default class gets another class behind it; there is no second default.",
			change: func(s *v1alpha1.HarvesterBlueprintSpec) { s.StorageClassName = "fast-ssd" },
			pools:  []v1alpha1.AdmittedPool{all},
			want:   withStorage,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			changes := []func(*v1alpha1.HarvesterBlueprintSpec){}
			if tc.change != nil {
				changes = append(changes, tc.change)
			}
			got, err := open(t, spec(changes...)).Cluster(scope(tc.pools...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nCluster(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestClusterRefusals(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*strategies.Scope)
		want   string
	}{
		"NoProviderConfig": {
			"Nothing can be made on Harvester.",
			func(s *strategies.Scope) { s.Infra.Credentials.InfrastructureProviderConfigRef = nil },
			"spec.credentials.infrastructureProviderConfigRef: Required value: name the ProviderConfig of provider-kubernetes that reaches Harvester",
		},
		"EmptyProviderConfig": {
			"A reference to nothing is none.",
			func(s *strategies.Scope) { s.Infra.Credentials.InfrastructureProviderConfigRef.Name = "" },
			"spec.credentials.infrastructureProviderConfigRef: Required value: name the ProviderConfig of provider-kubernetes that reaches Harvester",
		},
		"LongName": {
			"A ServiceAccount's name is the cluster's, which labels carry, too.",
			func(s *strategies.Scope) { s.Cluster = strings.Repeat("a", 64) },
			"metadata.name: Invalid value: \"" + strings.Repeat("a", 64) + "\": must be no more than 63 characters",
		},
		"Dots": {
			"Rancher's clusters have no dots.",
			func(s *strategies.Scope) { s.Cluster = "a.b" },
			`metadata.name: Invalid value: "a.b": must not contain dots`,
		},
		"DefaultAccount": {
			"The namespace's own ServiceAccount must not get these rights.",
			func(s *strategies.Scope) { s.Cluster = "default" },
			`metadata.name: Invalid value: "default": is a ServiceAccount that every namespace has`,
		},
		"NotWhole": {
			"Pools admitted with another provider are not rounded.",
			func(s *strategies.Scope) { s.Pools = []v1alpha1.AdmittedPool{pool("a", "1", "4000M", "40Gi")} },
			`cannot build pool a: status.quota.pools[a].size.memory: Invalid value: "4000M": Harvester builds whole GiB, at least one: use 4Gi`,
		},
		"NoSize": {
			"A record without a size is not filled up with today's defaults.",
			func(s *strategies.Scope) { s.Pools = []v1alpha1.AdmittedPool{pool("a", "1", "4Gi", "")} },
			`cannot build pool a: status.quota.pools[a].size.disk: Required value: must be a Kubernetes quantity in whole bytes, such as 16Gi`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := scope(pool("all", "4", "8Gi", "40Gi"))
			tc.change(&s)
			got, err := open(t, spec()).Cluster(s)
			if err == nil || err.Error() != tc.want {
				t.Errorf("%s\nCluster(...): got error %v, want %s", tc.reason, err, tc.want)
			}
			if diff := cmp.Diff(strategies.Output{}, got); diff != "" {
				t.Errorf("%s\nCluster(...): an error beside an output:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestClusterPure(t *testing.T) {
	raw := blueprint(t, spec(func(s *v1alpha1.HarvesterBlueprintSpec) { s.StorageClassName = "fast-ssd" }))
	strategytest.Pure(t, Open, raw, scope(pool("a", "4", "8Gi", "40Gi"), pool("b", "8", "16Gi", "80Gi")))
}

func TestTokenIssued(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("object", cel.AnyType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(tokenIssued)
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	// provider-kubernetes refuses a query whose type is known only when it runs.
	if got := ast.OutputType(); got != cel.BoolType {
		t.Fatalf("the query has type %s, want bool", got)
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		object map[string]any
		want   bool
	}{
		"NoData":     {"The token controller has not been there.", map[string]any{"kind": "Secret"}, false},
		"EmptyData":  {"No keys, no token.", map[string]any{"data": map[string]any{}}, false},
		"TokenOnly":  {"The authority is missing.", map[string]any{"data": map[string]any{"token": "eA=="}}, false},
		"CAOnly":     {"The token is missing.", map[string]any{"data": map[string]any{"ca.crt": "eA=="}}, false},
		"EmptyToken": {"An empty token opens nothing.", map[string]any{"data": map[string]any{"token": "", "ca.crt": "eA=="}}, false},
		"Issued":     {"Both are there.", map[string]any{"data": map[string]any{"token": "eA==", "ca.crt": "eA=="}}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, _, err := program.Eval(map[string]any{"object": tc.object})
			if err != nil {
				t.Fatalf("%s\nEval(...): %v", tc.reason, err)
			}
			if got.Value() != tc.want {
				t.Errorf("%s\nEval(...): got %v, want %v", tc.reason, got.Value(), tc.want)
			}
		})
	}
}

// provider-helm hands a secret value to Helm's --set parser, where commas, braces and backslashes mean something. Tokens
// and certificates have none of them.
func TestSecretValuesSurviveHelm(t *testing.T) {
	everything := make([]byte, 3*256)
	for i := range everything {
		everything[i] = byte(i * 7)
	}
	segment := base64.RawURLEncoding.EncodeToString(everything)
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: everything}))
	secret := map[string]string{
		"token":  strings.Join([]string{segment, segment, segment}, "."),
		"ca.crt": certificate + certificate,
	}
	out, err := open(t, spec()).Cluster(scope(pool("all", "4", "8Gi", "40Gi")))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range out.SecretValues {
		if err := strvals.ParseInto(v.Path+"="+secret[v.Key], out.Values); err != nil {
			t.Fatalf("ParseInto(%s): %v", v.Path, err)
		}
	}
	want := map[string]any{"harvester": map[string]any{
		"server":        "https://10.0.0.10:6443",
		"namespace":     "rig-prod",
		"token":         secret["token"],
		"caCertificate": secret["ca.crt"],
	}}
	if diff := cmp.Diff(want, out.Values["cloudProvider"]); diff != "" {
		t.Errorf("cloudProvider: -want, +got:\n%s", diff)
	}
}
