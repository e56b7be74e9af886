package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/hack/controlplane/provisioner"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// ready submits a claim and waits until it is. It returns the team and the cluster's name.
func ready(t *testing.T, c claim) (user, string) {
	t.Helper()
	submit(t, c)
	return becomesReady(t, c)
}

// becomesReady waits until a claim that was submitted is ready.
func becomesReady(t *testing.T, c claim) (user, string) {
	t.Helper()
	team := as(t, c.team)
	team.eventually(long, claims, c.team, c.name, condition("Ready", "True", ""), condition("Synced", "True", ""))
	return team, composite(t, c)
}

// usage of an InfraBlueprint's cpus.
func usage(t *testing.T, infra, cpu string) {
	t.Helper()
	as(t, stack.Platform).eventually(long, infras, "", infra, field("status.usage.cpu", cpu))
}

// built machines of a cluster.
func built(t *testing.T, cluster string) []unstructured.Unstructured {
	t.Helper()
	return infrastructure(t).list(machines, rancherNamespace, provisioner.LabelCluster+"="+cluster)
}

// becomes waits until a cluster has so many machines.
func becomes(t *testing.T, cluster string, count int) {
	t.Helper()
	for end := time.Now().Add(long); len(built(t, cluster)) != count; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there are %d machines, want %d", len(built(t, cluster)), count)
		}
	}
}

// TestScale grows a cluster within the quota and beyond it, upgrades it while it is refused, and shrinks it.
func TestScale(t *testing.T) {
	t.Parallel()
	offer(t, infra{name: "scale", cpu: 16})
	c := claim{team: "team-a", name: "scale", infra: "scale", nodes: 2}
	team, name := ready(t, c)

	c.nodes = 3
	team.apply(c.yaml())
	usage(t, "scale", "12/16")
	becomes(t, name, 3)
	team.eventually(long, claims, c.team, c.name, condition("Admitted", "True", "Admitted"), condition("Ready", "True", ""))

	c.nodes, c.version = 5, "v1.32.3+rke2r1"
	team.apply(c.yaml())
	infrastructure(t).eventually(long, clusters, rancherNamespace, name, field("spec.kubernetesVersion", c.version))
	team.eventually(long, claims, c.team, c.name, condition("Admitted", "False", "NeverFits"), condition("Provisioned", "True", "Provisioned"))
	if n := len(built(t, name)); n != 3 {
		t.Errorf("there are %d machines of a cluster whose growth was refused, want 3", n)
	}

	c.nodes = 2
	team.apply(c.yaml())
	usage(t, "scale", "8/16")
	if n := len(built(t, name)); n != 2 {
		t.Errorf("quota was let go of while there were %d machines, want 2", n)
	}
	team.eventually(long, claims, c.team, c.name, condition("Admitted", "True", "Admitted"), condition("Ready", "True", ""))
}

// TestDeletionHoldsQuota deletes a cluster whose machines go slowly: its quota is handed on only after the last one.
func TestDeletionHoldsQuota(t *testing.T) {
	offer(t, infra{name: "slow", cpu: 12, annotations: map[string]string{"provisioner.rig-gateway.io/delete-delay": "8s"}})
	first := claim{team: "team-a", name: "leaving", infra: "slow", nodes: 2}
	submit(t, first)
	// This test takes long. Its cluster is built while those that are not parallel run.
	t.Parallel()
	teamA, name := becomesReady(t, first)
	second := claim{team: "team-b", name: "waiting", infra: "slow", nodes: 2}
	teamB := submit(t, second)
	teamB.eventually(soon, claims, second.team, second.name, condition("Admitted", "False", "QuotaExceeded"))

	teamA.remove(claims, first.team, first.name)
	as(t, stack.Platform).eventually(soon, infras, "", "slow", field("status.buckets.releasing.cpu", "8"))
	for end := time.Now().Add(long); ; time.Sleep(200 * time.Millisecond) {
		left := len(built(t, name))
		if condition("Admitted", "True", "Admitted").met(teamB.get(claims, second.team, second.name)) {
			if left > 0 {
				t.Errorf("the quota was handed on while %d machines were left", left)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the quota was not handed on; %d machines are left:\n%s", left, show(as(t, stack.Platform).get(infras, "", "slow")))
		}
	}
	teamB.eventually(long, claims, second.team, second.name, condition("Ready", "True", ""))
}

// TestNothingMoves applies a claim a second time: nothing that it composed is written again.
func TestNothingMoves(t *testing.T) {
	t.Parallel()
	offer(t, infra{name: "still", cpu: 16})
	c := claim{team: "team-a", name: "still", infra: "still", nodes: 2}
	team, name := ready(t, c)
	admin := as(t, stack.Admin)

	versions := func() map[string]string {
		out := map[string]string{}
		for _, resource := range []string{releases, objects, mailboxes} {
			for _, o := range admin.list(resource, "", "rig-gateway.io/cluster="+name) {
				out[resource+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
		for _, o := range admin.list(mailboxes, "", "rig-gateway.io/infra-blueprint=still") {
			out[o.GetName()] = o.GetResourceVersion()
		}
		out["composite"] = admin.get(composites, "", name).GetResourceVersion()
		out["claim"] = team.get(claims, c.team, c.name).GetResourceVersion()
		return out
	}
	// Whatever still follows from becoming ready comes first.
	before := versions()
	for settled := 0; settled < 5; time.Sleep(time.Second) {
		now := versions()
		if fmt.Sprint(now) == fmt.Sprint(before) {
			settled++
			continue
		}
		before, settled = now, 0
	}
	// Three runs, beside those that Crossplane makes by itself.
	for i := range 3 {
		team.apply(c.yaml())
		err := admin.client.Patch(t.Context(), composites, "", name, fmt.Sprintf(`{"metadata":{"annotations":{"example.org/run":"%d"}}}`, i))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
	}
	after := versions()
	delete(before, "composite")
	delete(after, "composite")
	for what, version := range after {
		// Crossplane copies the composite's annotations to its claim.
		if what != "claim" && before[what] != version {
			t.Errorf("%s was written without need", what)
		}
	}
	if len(before) != len(after) {
		t.Errorf("what is composed changed:\nbefore %v\nafter  %v", before, after)
	}
}

// TestTokenStaysSecret looks for a cluster's token on Harvester wherever it must not be.
func TestTokenStaysSecret(t *testing.T) {
	t.Parallel()
	offer(t, infra{name: "canary", cpu: 16})
	c := claim{team: "team-a", name: "canary", infra: "canary", nodes: 2}
	_, name := ready(t, c)
	admin, rancher := as(t, stack.Admin), infrastructure(t)

	token := fieldOf(admin.get(secrets, stack.Namespace, name+"-token"), "data.token")
	plain := decoded(t, token)
	cloudConfig := fieldOf(rancher.get(secrets, rancherNamespace, name+"-cloud-config"), "data.credential")
	if !strings.Contains(decoded(t, cloudConfig), plain) {
		t.Fatal("the cloud provider's credential does not hold the token")
	}
	for _, look := range []struct {
		user      user
		resources []string
	}{
		{admin, []string{releases, objects, mailboxes, composites, claims, infras, "events"}},
		{rancher, []string{clusters, machines, "harvesterconfigs.rke-machine-config.cattle.io", "events"}},
	} {
		for _, resource := range look.resources {
			for _, o := range look.user.list(resource, "", "") {
				if text := show(&o); strings.Contains(text, plain) || strings.Contains(text, token) {
					t.Errorf("%s %s shows the token", resource, o.GetName())
				}
			}
		}
	}
	for _, component := range components(t) {
		if strings.Contains(logOf(t, component), plain) {
			t.Errorf("the log of %s shows the token", component)
		}
	}
}
