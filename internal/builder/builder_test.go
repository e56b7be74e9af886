package builder

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/charts"
	"github.com/rig-gateway/function-rig/strategies"
)

type values = map[string]any

func newBuilder(t testing.TB) *Builder {
	t.Helper()
	chart, err := charts.RKE2Cluster()
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(chart)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func defaults(raw string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(raw)} }

// machineConfig with all that a HarvesterConfig needs.
func machineConfig() values {
	return values{
		"vmNamespace": "rig", "cpuCount": "4", "memorySize": "8", "sshUser": "ubuntu",
		"diskInfo": `{"disks":[]}`, "networkInfo": `{"interfaces":[]}`,
	}
}

// cluster of one pool on Harvester.
func cluster() Cluster {
	return Cluster{
		Name:   "payments-dev-x7k2p",
		Labels: map[string]string{v1alpha1.LabelInfraBlueprint: "prod", v1alpha1.LabelCluster: "payments-dev-x7k2p"},
		Spec:   v1alpha1.ClusterBlueprintSpec{KubernetesVersion: "v1.31.7+rke2r1"},
		Infra: v1alpha1.InfraBlueprintSpec{
			Rancher: v1alpha1.Rancher{Namespace: "fleet-default"},
			Credentials: v1alpha1.Credentials{
				RancherProviderConfigRef:  v1alpha1.ProviderConfigReference{Name: "rancher"},
				CloudCredentialSecretName: "cattle-global-data:cc-abcde",
			},
		},
		Chart: v1alpha1.ChartSource{Repository: "oci://registry.example.org/charts", Version: "1.2.3"},
		Record: v1alpha1.QuotaRecord{
			Keeps: v1alpha1.ClusterResources{CPU: "12", Memory: "24Gi", Disk: "120Gi", Nodes: 3}, Fence: 7, Generation: 2,
			Pools: []v1alpha1.AdmittedPool{{Pool: v1alpha1.Pool{
				Name: "all", Count: 3, Roles: []v1alpha1.Role{"control-plane", "etcd", "worker"},
			}}},
		},
		Provider: strategies.Output{
			Values: values{
				"machineConfigKind": "HarvesterConfig",
				"pools":             values{"all": values{"machineConfig": machineConfig()}},
				"cloudProvider":     values{"harvester": values{"server": "https://10.0.0.10:6443", "namespace": "rig"}},
			},
			SecretValues: []strategies.SecretValue{
				{Path: "cloudProvider.harvester.token", Secret: v1alpha1.SecretReference{Name: "some-token", Namespace: "crossplane-system"}, Key: "token"},
				{Path: "cloudProvider.harvester.caCertificate", Secret: v1alpha1.SecretReference{Name: "some-token", Namespace: "crossplane-system"}, Key: "ca.crt"},
			},
		},
		SecretNamespace: "crossplane-system",
	}
}

func lookup(in any, path string) any {
	for key := range strings.SplitSeq(path, "/") {
		m, ok := in.(values)
		if !ok {
			return nil
		}
		in = m[key]
	}
	return in
}

func TestValues(t *testing.T) {
	want := values{
		"cluster": values{
			"name": "payments-dev-x7k2p", "kubernetesVersion": "v1.31.7+rke2r1", "cloudCredentialSecretName": "cattle-global-data:cc-abcde",
			"labels":              values{v1alpha1.LabelInfraBlueprint: "prod", v1alpha1.LabelCluster: "payments-dev-x7k2p"},
			"annotations":         values{v1alpha1.AnnotationGeneration: "2"},
			"machineGlobalConfig": values{"cni": "canal"},
		},
		"poolDefaults":      values{"drainBeforeDelete": true},
		"machineConfigKind": "HarvesterConfig",
		"cloudProvider":     values{"harvester": values{"server": "https://10.0.0.10:6443", "namespace": "rig"}},
		"pools": values{"all": values{
			"quantity": int64(3), "roles": []any{"control-plane", "etcd", "worker"},
			"machineConfig": machineConfig(),
		}},
	}
	got, err := newBuilder(t).Values(cluster())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Values(...): -want, +got:\n%s", diff)
	}
}

func TestValuesPrecedence(t *testing.T) {
	cases := map[string]struct {
		reason   string
		defaults string
		provider values
		path     string
		want     any
	}{
		"Base":              {reason: "What nobody says comes from the base.", path: "cluster/machineGlobalConfig/cni", want: "canal"},
		"OverBase":          {reason: "An InfraBlueprint wins over the base.", defaults: `{"cluster":{"machineGlobalConfig":{"cni":"calico"}}}`, path: "cluster/machineGlobalConfig/cni", want: "calico"},
		"BesideBase":        {reason: "Maps merge.", defaults: `{"cluster":{"machineGlobalConfig":{"profile":"cis"}}}`, path: "cluster/machineGlobalConfig", want: values{"cni": "canal", "profile": "cis"}},
		"FalseOverBase":     {reason: "False is said, not left out.", defaults: `{"poolDefaults":{"drainBeforeDelete":false}}`, path: "poolDefaults/drainBeforeDelete", want: false},
		"NullRemovesBase":   {reason: "Null takes a base value away, as in Helm.", defaults: `{"cluster":{"machineGlobalConfig":{"cni":null}}}`, path: "cluster/machineGlobalConfig/cni", want: nil},
		"ProviderOverInfra": {reason: "A provider wins over an InfraBlueprint.", defaults: `{"cluster":{"chartValues":{"x":{"a":1,"b":1}}}}`, provider: values{"cluster": values{"chartValues": values{"x": values{"a": 2}}}}, path: "cluster/chartValues/x", want: values{"a": int64(2), "b": int64(1)}},
		"ClaimOverProvider": {reason: "The claim wins over all.", provider: values{"cluster": values{"kubernetesVersion": "v1.1.1+rke2r1"}}, path: "cluster/kubernetesVersion", want: "v1.31.7+rke2r1"},
		"QuantityOfTheRecord": {
			reason: "Only the record says how many machines there are.", provider: values{"pools": values{"all": values{"quantity": 9, "machineConfig": machineConfig()}}},
			path: "pools/all/quantity", want: int64(3),
		},
		"OwnLabels":    {reason: "Labels of an InfraBlueprint are added; ours stay.", defaults: `{"cluster":{"labels":{"team":"x","rig-gateway.io/cluster":"y"}}}`, path: "cluster/labels", want: values{"team": "x", v1alpha1.LabelInfraBlueprint: "prod", v1alpha1.LabelCluster: "payments-dev-x7k2p"}},
		"Generation":   {reason: "The generation is ours.", defaults: `{"cluster":{"annotations":{"rig-gateway.io/quota-generation":"9"}}}`, path: "cluster/annotations", want: values{v1alpha1.AnnotationGeneration: "2"}},
		"WholeNumbers": {reason: "Whole numbers stay whole.", defaults: `{"cluster":{"etcd":{"snapshotRetention":12}}}`, path: "cluster/etcd/snapshotRetention", want: int64(12)},
		"LargeNumbers": {reason: "A number that a float would write with an exponent stays whole.", defaults: `{"cluster":{"machineGlobalConfig":{"max":1e7}}}`, path: "cluster/machineGlobalConfig/max", want: int64(10000000)},
		"Fractions":    {reason: "Fractions stay fractions.", defaults: `{"cluster":{"machineGlobalConfig":{"ratio":0.5}}}`, path: "cluster/machineGlobalConfig/ratio", want: 0.5},
		"Lists":        {reason: "Lists replace.", defaults: `{"cluster":{"agentEnvVars":[{"name":"A","value":"1"}]}}`, path: "cluster/agentEnvVars", want: []any{values{"name": "A", "value": "1"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			if tc.defaults != "" {
				c.Infra.ClusterDefaults = defaults(tc.defaults)
			}
			maps.Copy(c.Provider.Values, tc.provider)
			raw, _ := json.Marshal(c.Provider.Values)
			got, err := newBuilder(t).Values(c)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, lookup(got, tc.path)); diff != "" {
				t.Errorf("%s\n%s: -want, +got:\n%s", tc.reason, tc.path, diff)
			}
			if after, _ := json.Marshal(c.Provider.Values); string(raw) != string(after) {
				t.Errorf("%s\nthe strategy's values were changed from %s to %s", tc.reason, raw, after)
			}
		})
	}
}

// divided builds every pool as two machine pools.
type divided struct{ strategies.Strategy }

func (divided) Divide(cluster string, pool v1alpha1.AdmittedPool) []strategies.Part {
	return []strategies.Part{{Name: pool.Name + "-" + cluster[:1], Count: pool.Count - 1}, {Name: pool.Name + "-z", Count: 1}}
}

func TestValuesOfDividedPools(t *testing.T) {
	c := cluster()
	c.Strategy = divided{}
	c.Provider.Values["pools"] = values{"all-p": values{"machineConfig": machineConfig()}, "all-z": values{"machineConfig": machineConfig()}}
	c.Record.Pools[0].Labels = map[string]string{"a": "b"}
	got, err := newBuilder(t).Values(c)
	if err != nil {
		t.Fatal(err)
	}
	part := func(quantity int64) values {
		return values{
			"quantity": quantity, "roles": []any{"control-plane", "etcd", "worker"}, "labels": values{"a": "b"}, "machineConfig": machineConfig(),
		}
	}
	if diff := cmp.Diff(values{"all-p": part(2), "all-z": part(1)}, got["pools"]); diff != "" {
		t.Errorf("Values(...): pools: -want, +got:\n%s", diff)
	}
}

func TestValuesRefused(t *testing.T) {
	cases := map[string]struct {
		reason   string
		defaults string
		change   func(*Cluster)
		want     string
	}{
		"Pools":           {reason: "They would be machines that nobody accounts for.", defaults: `{"pools":{"more":{"quantity":5}}}`, want: "spec.clusterDefaults.pools"},
		"PoolsNull":       {reason: "Not even nothing.", defaults: `{"pools":null}`, want: "spec.clusterDefaults.pools"},
		"Kind":            {reason: "The provider says how machines are made.", defaults: `{"machineConfigKind":"VmwarevsphereConfig"}`, want: "spec.clusterDefaults.machineConfigKind"},
		"CloudProvider":   {reason: "The provider says how the cluster reaches it.", defaults: `{"cloudProvider":{"harvester":{"token":"x"}}}`, want: "spec.clusterDefaults.cloudProvider"},
		"Name":            {reason: "Names are unique.", defaults: `{"cluster":{"name":"mine"}}`, want: "spec.clusterDefaults.cluster.name"},
		"Version":         {reason: "The claim says it.", defaults: `{"cluster":{"kubernetesVersion":"v1.30.1+rke2r1"}}`, want: "spec.clusterDefaults.cluster.kubernetesVersion"},
		"CloudCredential": {reason: "The InfraBlueprint says it elsewhere.", defaults: `{"cluster":{"cloudCredentialSecretName":"x"}}`, want: "spec.clusterDefaults.cluster.cloudCredentialSecretName"},
		"List":            {reason: "It must be a map.", defaults: `[1]`, want: "spec.clusterDefaults"},
		"Broken":          {reason: "It must be JSON.", defaults: `{`, want: "spec.clusterDefaults"},
		"UnknownKey":      {reason: "A typing error is found.", defaults: `{"cluster":{"regstries":{}}}`, want: "regstries"},
		"UnknownTopKey":   {reason: "A typing error is found.", defaults: `{"clusters":{}}`, want: "clusters"},
		"WrongType":       {reason: "The path is named.", defaults: `{"cluster":{"etcd":{"snapshotRetention":"five"}}}`, want: "/cluster/etcd/snapshotRetention"},
		"MapReplaced":     {reason: "A map is not replaced by text.", defaults: `{"cluster":"x"}`, want: "spec.clusterDefaults.cluster"},
		"LabelsReplaced":  {reason: "A map is not replaced by text.", defaults: `{"cluster":{"labels":"x"}}`, want: "spec.clusterDefaults.cluster.labels"},
		"Role":            {reason: "A role that does not exist is named with its pool.", change: func(c *Cluster) { c.Record.Pools[0].Roles[0] = "database" }, want: "/pools/all/roles/0"},
		"SecretPath": {
			reason: "A secret needs a map to be put into.",
			change: func(c *Cluster) { c.Provider.Values["cloudProvider"] = "none" }, want: "cloudProvider",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := cluster()
			if tc.defaults != "" {
				c.Infra.ClusterDefaults = defaults(tc.defaults)
			}
			if tc.change != nil {
				tc.change(&c)
			}
			got, err := newBuilder(t).Values(c)
			if err == nil {
				t.Fatalf("%s\nValues(...) = %v, want an error", tc.reason, got)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s\nValues(...): %v, want %s in it", tc.reason, err, tc.want)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	c := cluster()
	c.Chart.PullSecretRef = &v1alpha1.SecretReference{Name: "pull", Namespace: "crossplane-system"}
	c.Chart.PlainHTTP = true
	c.Paused = true
	b := newBuilder(t)
	got, err := b.Release(c)
	if err != nil {
		t.Fatal(err)
	}
	chartValues, err := b.Values(c)
	if err != nil {
		t.Fatal(err)
	}
	secret := func(path, key string) values {
		return values{"name": path, "valueFrom": values{"secretKeyRef": values{"name": "some-token", "namespace": "crossplane-system", "key": key}}}
	}
	want := values{
		"apiVersion": "helm.crossplane.io/v1beta1",
		"kind":       "Release",
		"metadata": values{
			"name":   "payments-dev-x7k2p",
			"labels": values{v1alpha1.LabelInfraBlueprint: "prod", v1alpha1.LabelCluster: "payments-dev-x7k2p"},
			"annotations": values{
				v1alpha1.AnnotationExternalName: "payments-dev-x7k2p",
				v1alpha1.AnnotationPaused:       "true",
				v1alpha1.AnnotationHolds:        `{"cpu":"12","memory":"24Gi","disk":"120Gi","nodes":3}`,
				v1alpha1.AnnotationQuota:        wantRecord,
			},
		},
		"spec": values{
			"forProvider": values{
				"chart":     values{"name": "rke2-cluster", "repository": "oci://registry.example.org/charts", "version": "1.2.3", "pullSecretRef": values{"name": "pull", "namespace": "crossplane-system"}},
				"namespace": "fleet-default", "skipCreateNamespace": true, "plainHTTP": true,
				"values": chartValues,
				"set":    []any{secret("cloudProvider.harvester.caCertificate", "ca.crt"), secret("cloudProvider.harvester.token", "token")},
			},
			"providerConfigRef": values{"name": "rancher"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Release(...): -want, +got:\n%s", diff)
	}

	c.Paused = false
	got, err = b.Release(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, paused := got["metadata"].(values)["annotations"].(values)[v1alpha1.AnnotationPaused]; paused {
		t.Error("a Release that may be installed is paused")
	}
}

// A Secret that holds chart values as YAML is merged as such; a path in it would be none.
func TestReleaseValuesFrom(t *testing.T) {
	c := cluster()
	c.Provider.SecretValues = []strategies.SecretValue{
		{Secret: v1alpha1.SecretReference{Name: "account", Namespace: "crossplane-system"}, Key: "values.yaml"},
	}
	got, err := newBuilder(t).Release(c)
	if err != nil {
		t.Fatal(err)
	}
	parameters := got["spec"].(values)["forProvider"].(values)
	want := []any{values{"secretKeyRef": values{"name": "account", "namespace": "crossplane-system", "key": "values.yaml"}}}
	if diff := cmp.Diff(want, parameters["valuesFrom"]); diff != "" {
		t.Errorf("Release(...): valuesFrom: -want, +got:\n%s", diff)
	}
	if set, exists := parameters["set"]; exists {
		t.Errorf("Release(...): want nothing set, got %v", set)
	}
}

// Helm takes 53 characters; two names that differ after them stay apart.
func TestReleaseName(t *testing.T) {
	b := newBuilder(t)
	seen := map[string]string{}
	for _, name := range []string{
		"a1", strings.Repeat("a", 52), strings.Repeat("a", 53), strings.Repeat("a", 54), strings.Repeat("a", 63), strings.Repeat("a", 62) + "b",
		strings.Repeat("a", 43) + "----" + strings.Repeat("b", 10), strings.Repeat("a", 44) + "-" + strings.Repeat("c", 18),
	} {
		c := cluster()
		c.Name = name
		r, err := b.Release(c)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := r["metadata"].(values)["annotations"].(values)[v1alpha1.AnnotationExternalName].(string)
		if len(got) > maxReleaseName || strings.Contains(got, "--") && !strings.Contains(name, "--") || strings.HasSuffix(got, "-") {
			t.Errorf("Helm release of %s is named %s", name, got)
		}
		if len(name) <= maxReleaseName && got != name {
			t.Errorf("Helm release of %s is named %s: it fits as it is", name, got)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%s and %s are both named %s", name, other, got)
		}
		seen[got] = name
		if r["metadata"].(values)["name"] != name {
			t.Errorf("the Release of %s is named %v", name, r["metadata"].(values)["name"])
		}
	}
}

// wantRecord is the annotation of the record of cluster().
const wantRecord = `{"keeps":{"cpu":"12","memory":"24Gi","disk":"120Gi","nodes":3},"fence":7,"generation":2,"pools":[{"name":"all","count":3,"roles":["control-plane","etcd","worker"],"size":{"cpu":"","memory":"","disk":""},"node":{"cpu":"","memory":"","disk":""}}]}`

func TestObjects(t *testing.T) {
	manifest := values{"manifest": values{
		"apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": values{"name": "payments-dev-x7k2p", "namespace": "fleet-default"},
	}}
	built := cluster()
	resource := func(apiVersion, kind, name string) strategies.Resource {
		return strategies.Resource{"apiVersion": apiVersion, "kind": kind, "metadata": strategies.Metadata(name, nil, nil)}
	}
	built.Provider.Resources = map[string]strategies.Resource{
		"token":  resource("kubernetes.crossplane.io/v1alpha2", "Object", "payments-dev-x7k2p-token"),
		"folder": resource("inventory.crossplane.io/v1alpha1", "VSphereFolder", "payments-dev-x7k2p-folder"),
	}
	barrier, err := Barrier(built)
	if err != nil {
		t.Fatal(err)
	}
	want := values{
		"apiVersion": "kubernetes.crossplane.io/v1alpha2", "kind": "Object",
		"metadata": values{
			"name":   "payments-dev-x7k2p-barrier",
			"labels": values{v1alpha1.LabelInfraBlueprint: "prod", v1alpha1.LabelCluster: "payments-dev-x7k2p", v1alpha1.LabelBarrier: "true"},
			"annotations": values{
				v1alpha1.AnnotationHolds:        `{"cpu":"12","memory":"24Gi","disk":"120Gi","nodes":3}`,
				v1alpha1.AnnotationQuota:        wantRecord,
				v1alpha1.AnnotationExternalName: "payments-dev-x7k2p-barrier",
			},
		},
		"spec": values{
			"managementPolicies": []any{"Observe", "Delete"}, "watch": true, "forProvider": manifest, "providerConfigRef": values{"name": "rancher"},
			"references": []any{
				values{"dependsOn": values{"apiVersion": "inventory.crossplane.io/v1alpha1", "kind": "VSphereFolder", "name": "payments-dev-x7k2p-folder"}},
				values{"dependsOn": values{"apiVersion": "kubernetes.crossplane.io/v1alpha2", "kind": "Object", "name": "payments-dev-x7k2p-token"}},
			},
		},
	}
	if diff := cmp.Diff(want, barrier); diff != "" {
		t.Errorf("Barrier(...): -want, +got:\n%s", diff)
	}
	built.Provider.Resources = nil
	barrier, err = Barrier(built)
	if err != nil {
		t.Fatal(err)
	}
	delete(want["spec"].(values), "references")
	if diff := cmp.Diff(want, barrier); diff != "" {
		t.Errorf("Barrier(...): of a cluster without resources: -want, +got:\n%s", diff)
	}
	built.BarrierPaused, built.Finished = true, true
	barrier, err = Barrier(built)
	if err != nil {
		t.Fatal(err)
	}
	want["metadata"].(values)["annotations"].(values)[v1alpha1.AnnotationPaused] = "true"
	maps.Copy(want["spec"].(values), values{
		"connectionDetails": []any{values{
			"apiVersion": "v1", "kind": "Secret", "name": "payments-dev-x7k2p-kubeconfig", "namespace": "fleet-default",
			"fieldPath": "data.value", "toConnectionSecretKey": "kubeconfig",
		}},
		"writeConnectionSecretToRef": values{"name": "payments-dev-x7k2p-kubeconfig", "namespace": "crossplane-system"},
	})
	if diff := cmp.Diff(want, barrier); diff != "" {
		t.Errorf("Barrier(...): of a finished cluster: -want, +got:\n%s", diff)
	}
	c := cluster()
	want = values{
		"apiVersion": "kubernetes.crossplane.io/v1alpha2", "kind": "Object",
		"metadata": values{
			"name":        "payments-dev-x7k2p-observer",
			"labels":      values{v1alpha1.LabelInfraBlueprint: "prod", v1alpha1.LabelCluster: "payments-dev-x7k2p"},
			"annotations": values{v1alpha1.AnnotationExternalName: "payments-dev-x7k2p-observer"},
		},
		"spec": values{
			"managementPolicies": []any{"Observe"}, "watch": true, "forProvider": manifest, "providerConfigRef": values{"name": "rancher"},
			"readiness": values{"policy": "DeriveFromCelQuery", "celQuery": readyQuery},
		},
	}
	if diff := cmp.Diff(want, Observer(c)); diff != "" {
		t.Errorf("Observer(...): -want, +got:\n%s", diff)
	}
	if len(c.Labels) != 2 {
		t.Errorf("the labels were changed: %v", c.Labels)
	}
}
