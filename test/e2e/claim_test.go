package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/hack/controlplane/provisioner"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// TestClaimBecomesReady follows one claim all the way: admitted, installed by provider-helm from the registry, built,
// observed, and handed over with its kubeconfig.
func TestClaimBecomesReady(t *testing.T) {
	t.Parallel()
	offer(t, infra{name: "ready", cpu: 16})
	dev := claim{team: "team-a", name: "dev", infra: "ready", nodes: 3}
	if err := plane.AllowKubeconfigs(t.Context(), dev.team, "dev-kubeconfig"); err != nil {
		t.Fatal(err)
	}
	team := submit(t, dev)
	team.eventually(long, claims, dev.team, dev.name,
		condition("Admitted", "True", "Admitted"), condition("Provisioned", "True", "Provisioned"),
		condition("Ready", "True", ""), condition("Synced", "True", ""))

	name := composite(t, dev)
	admin, rancher := as(t, stack.Admin), infrastructure(t)
	kubeconfig := fieldOf(rancher.get(secrets, rancherNamespace, name+"-kubeconfig"), "data.value")
	if got := fieldOf(team.get(secrets, dev.team, "dev-kubeconfig"), "data.kubeconfig"); got != kubeconfig || kubeconfig == "" {
		t.Errorf("the connection secret of a claim that is ready does not hold the kubeconfig that Rancher made")
	}
	admin.eventually(soon, releases, "", name, field("status.atProvider.state", "deployed"), field("status.atProvider.version", "0.1.0"))
	admin.eventually(soon, objects, "", name+"-barrier", condition("Ready", "True", ""))

	live := rancher.get(clusters, rancherNamespace, name)
	pools, _, _ := unstructured.NestedSlice(live.Object, "spec", "rkeConfig", "machinePools")
	got := map[string]string{}
	for _, p := range pools {
		pool, _ := p.(map[string]any)
		got[fmt.Sprint(pool["name"])] = fmt.Sprint(pool["quantity"])
	}
	if diff := cmp.Diff(map[string]string{"control": "1", "workers": "2"}, got); diff != "" {
		t.Errorf("machine pools of the Rancher cluster: -want, +got:\n%s", diff)
	}
	if built := rancher.list(machines, rancherNamespace, provisioner.LabelCluster+"="+name); len(built) != 3 {
		t.Errorf("there are %d machines, want 3", len(built))
	}

	as(t, stack.Platform).eventually(soon, infras, "", "ready",
		condition("Ready", "True", ""), condition("WithinQuota", "True", "WithinQuota"),
		field("status.usage.cpu", "12/16"))
}

// TestQuotaIsWaitedFor has two teams share a quota that is too small for both, until one gives some of it back.
func TestQuotaIsWaitedFor(t *testing.T) {
	offer(t, infra{name: "shared", cpu: 16})
	first := claim{team: "team-a", name: "first", infra: "shared", nodes: 3}
	submit(t, first)
	// This test takes long. Its cluster is built while those that are not parallel run.
	t.Parallel()
	teamA, shrinking := becomesReady(t, first)

	second := claim{team: "team-b", name: "second", infra: "shared", nodes: 2}
	teamB := submit(t, second)
	teamB.eventually(soon, claims, second.team, second.name, condition("Admitted", "False", "QuotaExceeded"), condition("Ready", "False", ""))
	name := composite(t, second)
	as(t, stack.Admin).none(2*time.Second, releases, "", "rig-gateway.io/cluster="+name)
	infrastructure(t).none(time.Second, machines, rancherNamespace, provisioner.LabelCluster+"="+name)

	first.nodes = 2
	teamA.apply(first.yaml())
	teamB.eventually(long, claims, second.team, second.name, condition("Admitted", "True", "Admitted"))
	if left := infrastructure(t).list(machines, rancherNamespace, provisioner.LabelCluster+"="+shrinking); len(left) > first.nodes {
		t.Errorf("the second claim was admitted while the first still had %d machines", len(left))
	}
	teamB.eventually(long, claims, second.team, second.name, condition("Ready", "True", ""))
}
