package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

func awsBlueprint(t testing.TB) object {
	t.Helper()
	return fromYAML(t, `
apiVersion: rig-gateway.io/v1alpha1
kind: AwsBlueprint
metadata: {name: fra1}
spec:
  region: eu-central-1
  vpcID: vpc-0a1b
  zones: [{name: a, subnetID: subnet-0a}, {name: b, subnetID: subnet-0b}, {name: c, subnetID: subnet-0c}]
  ami: ami-0c2d
  amiDisk: 20Gi
  sshUser: ubuntu
  instanceTypes: [{name: m6i.xlarge, cpu: "4", memory: 16Gi}]
  securityGroup: {name: rke2-nodes}
`)
}

func vsphereBlueprint(t testing.TB) object {
	t.Helper()
	return fromYAML(t, `
apiVersion: rig-gateway.io/v1alpha1
kind: VsphereBlueprint
metadata: {name: fra1}
spec:
  server: vcenter.example.org
  datacenter: /fra1
  datastore: /fra1/datastore/ds1
  networks: [/fra1/network/vlan-10]
  template: /fra1/vm/ubuntu
  templateDisk: 20Gi
  sshUser: rancher
  folder: {path: rig, manage: true, datacenterID: datacenter-2}
  resourcePool: {path: /fra1/host/c1/Resources/rig, manage: true, parentID: resgroup-8, mhzPerCPU: 2600}
`)
}

// infraOf another kind of provider.
func infraOf(t testing.TB, kind string) object {
	t.Helper()
	return put(infraBlueprint(t, 64), kind, "spec", "providerRef", "kind")
}

// quantities of the machine pools that a Release renders.
func (w *world) quantities(name string) map[string]any {
	out := map[string]any{}
	for pool, v := range at(w.objects[release(name)], "spec", "forProvider", "values", "pools").(object) {
		out[pool] = at(v, "quantity")
	}
	return out
}

// A pool that is built as several machine pools is one pool to the quota, and confirmed by the sum of its parts.
func TestDividedPools(t *testing.T) {
	w := newWorld(t, infraOf(t, "AwsBlueprint"), awsBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	running := func(cpu string, want map[string]any) {
		t.Helper()
		for range 20 {
			w.rounds(1)
			w.tick(time.Second)
		}
		w.settle()
		w.expect(xr("aa"), typeAdmitted, "True Admitted")
		w.expect(xr("aa"), typeProvisioned, "True Provisioned")
		w.expectKeeps("aa", cpu)
		if diff := cmp.Diff(want, w.quantities("aa")); diff != "" {
			t.Errorf("machine pools: -want, +got:\n%s", diff)
		}
	}
	running("12", map[string]any{"all-b": 1.0, "workers-b": 1.0, "workers-c": 1.0})
	w.edit("aa", pools(5))
	running("24", map[string]any{"all-b": 1.0, "workers-a": 1.0, "workers-b": 2.0, "workers-c": 2.0})
	w.edit("aa", pools(1))
	running("8", map[string]any{"all-b": 1.0, "workers-b": 1.0})

	// The pool keeps its type when the table changes.
	w.put(put(w.objects[id{"AwsBlueprint", "fra1"}], []any{object{"name": "m7i.2xlarge", "cpu": "8", "memory": "32Gi"}}, "spec", "instanceTypes"))
	running("8", map[string]any{"all-b": 1.0, "workers-b": 1.0})
	if got := at(w.objects[release("aa")], "spec", "forProvider", "values", "pools", "all-b", "machineConfig", "instanceType"); got != "m6i.xlarge" {
		t.Errorf("instance type is %v", got)
	}

	// Another zone than the rendered ones is not what was rendered.
	observer := id{"Object", "aa-observer"}
	w.put(put(w.objects[observer], []any{object{"name": "all-b", "quantity": 1.0}, object{"name": "workers-a", "quantity": 1.0}},
		"status", "atProvider", "manifest", "spec", "rkeConfig", "machinePools"))
	_, out := w.call(xr("aa"))
	if got, want := conditionsOf(out.rsp)[typeProvisioned], "False Provisioning: the cluster is being built"; got != want {
		t.Errorf("condition Provisioned is %q, want %q", got, want)
	}
}

// Machines are built only once the folder and the resource pool that they are put into exist.
func TestManagedResourcesComeFirst(t *testing.T) {
	w := newWorld(t, infraOf(t, "VsphereBlueprint"), vsphereBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	for range 20 {
		w.rounds(1)
		w.tick(time.Second)
	}
	paused := func() bool {
		return at(w.objects[release("aa")], "metadata", "annotations", v1alpha1.AnnotationPaused) == "true"
	}
	for _, k := range []id{{"VSphereFolder", "aa-folder"}, {"VSphereResourcePool", "aa-resourcepool"}} {
		if !paused() {
			t.Errorf("the Release is active before %v is ready", k)
		}
		w.put(put(w.objects[k], ready("Ready", "Synced"), "status", "conditions"))
		w.rounds(3)
	}
	if paused() {
		t.Error("the Release is paused though all is ready")
	}
	// A folder that is not ready later, as after a restart of its provider, does not stop a cluster that runs.
	w.tick(time.Second)
	w.put(put(w.objects[id{"VSphereFolder", "aa-folder"}], ready("Synced"), "status", "conditions"))
	w.rounds(3)
	if paused() {
		t.Error("a Release that was installed is paused again")
	}
}
