package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// TestDrift lets somebody edit and delete what a cluster composed: it comes back.
func TestDrift(t *testing.T) {
	t.Parallel()
	offer(t, infra{name: "drift", cpu: 16})
	c := claim{team: "team-a", name: "drift", infra: "drift", nodes: 2}
	team, name := ready(t, c)
	admin := as(t, stack.Admin)

	err := admin.client.Patch(t.Context(), releases, "", name, `{"spec":{"forProvider":{"values":{"pools":{"workers":{"quantity":9}}}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	admin.eventually(soon, releases, "", name, field("spec.forProvider.values.pools.workers.quantity", "1"))

	err = admin.client.Patch(t.Context(), objects, "", name+"-rolebinding", `{"spec":{"providerConfigRef":{"name":"another"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	admin.eventually(soon, objects, "", name+"-rolebinding", field("spec.providerConfigRef.name", "harvester-fra"))

	watched := admin.get(objects, "", name+"-observer").GetUID()
	admin.remove(objects, "", name+"-observer")
	admin.eventually(long, objects, "", name+"-observer", condition("Ready", "True", ""), another(watched))

	// The barrier holds what the machines need: nothing is taken from them before they are gone.
	harvester := infrastructure(t)
	identity := []struct{ suffix, resource, namespace, name string }{
		{"-csi", "clusterrolebindings.rbac.authorization.k8s.io", "", "rig-prod:" + name},
		{"-rolebinding", "rolebindings.rbac.authorization.k8s.io", "rig-prod", "rig-prod-" + name},
		{"-serviceaccount", "serviceaccounts", "rig-prod", name},
		{"-token", secrets, "rig-prod", name + "-token"},
	}
	for _, of := range identity {
		admin.remove(objects, "", name+of.suffix)
	}
	time.Sleep(5 * time.Second)
	for _, of := range identity {
		harvester.get(of.resource, of.namespace, of.name)
		admin.get(objects, "", name+of.suffix)
	}

	before := admin.get(releases, "", name).GetUID()
	admin.remove(releases, "", name)
	admin.eventually(long, releases, "", name, another(before), condition("Ready", "True", ""), field("status.atProvider.state", "deployed"))
	usage(t, "drift", "8/16")
	team.eventually(long, claims, c.team, c.name, condition("Ready", "True", ""))
	if n := len(built(t, name)); n != 2 {
		t.Errorf("there are %d machines, want 2", n)
	}
}

// TestClusterLost lets somebody delete the Rancher cluster: the claim says so, and deleting the Release brings it back.
func TestClusterLost(t *testing.T) {
	t.Parallel()
	offer(t, infra{name: "lost", cpu: 16})
	c := claim{team: "team-a", name: "lost", infra: "lost", nodes: 2}
	team, name := ready(t, c)
	rancher := infrastructure(t)

	rancher.remove(clusters, rancherNamespace, name)
	team.eventually(long, claims, c.team, c.name, condition("Provisioned", "False", "ClusterLost"), condition("Ready", "False", ""))
	usage(t, "lost", "8/16")

	as(t, stack.Admin).remove(releases, "", name)
	team.eventually(long, claims, c.team, c.name, condition("Provisioned", "True", "Provisioned"), condition("Ready", "True", ""))
}

// TestBlueprintsDeleted takes away what a running cluster needs. That is refused; where it happens all the same, nothing is
// destroyed, the claim says what is missing, and all is well when it comes back.
func TestBlueprintsDeleted(t *testing.T) {
	t.Parallel()
	i := infra{name: "gone", cpu: 16}
	offer(t, i)
	c := claim{team: "team-a", name: "gone", infra: "gone", nodes: 2}
	team, name := ready(t, c)
	admin, platform := as(t, stack.Admin), as(t, stack.Platform)
	release := admin.get(releases, "", name).GetUID()
	untouched := func() {
		t.Helper()
		if got := admin.get(releases, "", name); got.GetUID() != release || got.GetDeletionTimestamp() != nil {
			t.Errorf("the Release was deleted")
		}
		if n := len(built(t, name)); n != 2 {
			t.Errorf("there are %d machines, want 2", n)
		}
	}

	for _, used := range []struct{ resource, name string }{
		{blueprints, "gone"}, {infras, "gone"}, {"providerconfigs.helm.crossplane.io", "rancher"}, {"providerconfigs.kubernetes.crossplane.io", "rancher"},
	} {
		protected(t, used.resource, used.name)
	}
	unprotect(t, blueprints, "gone")
	platform.remove(blueprints, "", "gone")
	team.eventually(long, claims, c.team, c.name, condition("Provisioned", "False", "ProviderNotReady"))
	untouched()
	platform.apply(i.yaml(t))
	team.eventually(long, claims, c.team, c.name, condition("Admitted", "True", "Admitted"), condition("Ready", "True", ""))

	unprotect(t, infras, "gone")
	platform.remove(infras, "", "gone")
	platform.gone(soon, infras, "", "gone")
	team.eventually(long, claims, c.team, c.name, condition("Admitted", "False", "InfraBlueprintNotFound"))
	untouched()
	platform.apply(i.yaml(t))
	team.eventually(long, claims, c.team, c.name, condition("Admitted", "True", "Admitted"), condition("Ready", "True", ""))
	usage(t, "gone", "8/16")
	untouched()
}

// protected objects cannot be deleted by accident: within a moment of the first cluster, the API server refuses.
func protected(t *testing.T, resource, name string) {
	t.Helper()
	admin := as(t, stack.Admin)
	admin.eventually(soon, resource, "", name, expectation{"in use", func(o *unstructured.Unstructured) bool {
		return o.GetLabels()["crossplane.io/in-use"] == "true"
	}})
	if err := as(t, stack.Platform).client.Delete(t.Context(), resource, "", name); err == nil || !strings.Contains(err.Error(), "delete them first") {
		t.Errorf("deleting %s %s, which clusters need: %v", resource, name, err)
	}
}

// unprotect an object as somebody would who insists on deleting it.
func unprotect(t *testing.T, resource, name string) {
	t.Helper()
	if err := as(t, stack.Admin).client.Patch(t.Context(), resource, "", name, noUsage); err != nil {
		t.Fatal(err)
	}
}

// TestOutages changes a claim while the function is down for a minute, and after restarts of Crossplane and of the API server:
// nothing is destroyed, and all catch up. It is not parallel, since the other tests need them.
func TestOutages(t *testing.T) {
	offer(t, infra{name: "outage", cpu: 20})
	c := claim{team: "team-a", name: "outage", infra: "outage", nodes: 2}
	team, name := ready(t, c)
	release := as(t, stack.Admin).get(releases, "", name).GetUID()
	grown := func(after string) {
		t.Helper()
		usage(t, "outage", fmt.Sprintf("%d/20", 4*c.nodes))
		becomes(t, name, c.nodes)
		team.eventually(long, claims, c.team, c.name, condition("Synced", "True", ""), condition("Ready", "True", ""),
			field("status.quota.keeps.nodes", strconv.Itoa(c.nodes)))
		if got := as(t, stack.Admin).get(releases, "", name).GetUID(); got != release {
			t.Errorf("the Release was made again after %s", after)
		}
	}

	down := time.Now()
	if err := plane.Stop("function"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Others need it, also when this test failed.
		if err := plane.Start(context.Background(), "function"); err != nil {
			t.Error(err)
		}
	})
	c.nodes++
	team.apply(c.yaml())
	time.Sleep(time.Until(down.Add(time.Minute)))
	if n := len(built(t, name)); n != 2 {
		t.Errorf("there are %d machines while the function is down, want 2", n)
	}
	if err := plane.Start(t.Context(), "function"); err != nil {
		t.Fatal(err)
	}
	grown("the function was down")

	for _, component := range []string{"crossplane", "kube-apiserver"} {
		if err := plane.Restart(t.Context(), component); err != nil {
			t.Fatal(err)
		}
		c.nodes++
		team.apply(c.yaml())
		grown("a restart of " + component)
	}
}
