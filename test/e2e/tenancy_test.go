package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// TestAppTeamRights has an app team try what is not its business.
func TestAppTeamRights(t *testing.T) {
	t.Parallel()
	offer(t, infra{name: "rights", cpu: 16})
	c := claim{team: "team-b", name: "rights", infra: "rights", nodes: 2}
	_, name := ready(t, c)
	team := as(t, "team-a")
	for what, try := range map[string]func() error{
		"read an InfraBlueprint": func() error { _, err := team.client.Get(t.Context(), infras, "", "rights"); return err },
		"list InfraBlueprints":   func() error { _, err := team.client.List(t.Context(), infras, "", ""); return err },
		"raise a quota": func() error {
			return team.client.Patch(t.Context(), infras, "", "rights", `{"spec":{"quota":{"cpu":"999"}}}`)
		},
		"delete an InfraBlueprint":    func() error { return team.client.Delete(t.Context(), infras, "", "rights") },
		"read another team's claim":   func() error { _, err := team.client.Get(t.Context(), claims, c.team, c.name); return err },
		"delete another team's claim": func() error { return team.client.Delete(t.Context(), claims, c.team, c.name) },
		"read another team's kubeconfig": func() error {
			_, err := team.client.Get(t.Context(), secrets, c.team, c.name+"-kubeconfig")
			return err
		},
		"read the provider's credentials": func() error {
			_, err := team.client.Get(t.Context(), secrets, stack.Namespace, name+"-token")
			return err
		},
		"read a composite": func() error { _, err := team.client.Get(t.Context(), composites, "", name); return err },
		"write a quota record": func() error {
			return team.client.Patch(t.Context(), composites, "", name, `{"status":{"quota":{"fence":1}}}`)
		},
		"read a mailbox":   func() error { _, err := team.client.Get(t.Context(), mailboxes, "", "rig-terms-rights"); return err },
		"delete a Release": func() error { return team.client.Delete(t.Context(), releases, "", name) },
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("an app team may %s: %v", what, err)
		}
	}
}

// TestCompositionIsEnforced has an app team choose another Composition, and an older revision.
func TestCompositionIsEnforced(t *testing.T) {
	t.Parallel()
	offer(t, infra{name: "enforced", cpu: 16})
	as(t, stack.Admin).apply(`
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: unaccounted}
spec:
  compositeTypeRef: {apiVersion: rig-gateway.io/v1alpha1, kind: XClusterBlueprint}
  mode: Pipeline
  pipeline:
  - step: rig
    functionRef: {name: rig-gateway-function-rig}
`)
	cleanup(t, func(admin user) {
		if err := admin.client.Delete(context.Background(), "compositions.apiextensions.crossplane.io", "", "unaccounted"); err != nil {
			t.Error(err)
		}
	})
	c := claim{team: "team-a", name: "enforced", infra: "enforced", nodes: 2}
	team := as(t, c.team)
	for what, line := range map[string]string{
		"hold on to an old revision":     "compositionUpdatePolicy: Manual",
		"select a revision by its label": "compositionRevisionSelector: {matchLabels: {channel: old}}",
	} {
		err := team.client.Apply(t.Context(), c.yaml()+"  "+line+"\n")
		if !apierrors.IsInvalid(err) {
			t.Errorf("an app team may %s: %v", what, err)
		}
	}
	other := c.yaml() + "  compositionRef: {name: unaccounted}\n"
	team = submitAs(t, c, other)
	team.eventually(long, claims, c.team, c.name, condition("Ready", "True", ""))
	if got := fieldOf(as(t, stack.Admin).get(composites, "", composite(t, c)), "spec.compositionRef.name"); !strings.HasPrefix(got, "xclusterblueprints") {
		t.Errorf("the composite uses Composition %q", got)
	}
}

// TestAccess has teams claim what they may not, more than they may, and before others.
func TestAccess(t *testing.T) {
	t.Parallel()
	offer(t, infra{name: "access", cpu: 24, access: `
  access:
    namespaces:
    - {name: team-a, maxPriority: 10}
    - {name: "team-b*", quota: {cpu: "8"}}
`})
	stranger := claim{team: "team-payments", name: "access-stranger", infra: "access", nodes: 2}
	submit(t, stranger).eventually(soon, claims, stranger.team, stranger.name, condition("Admitted", "False", "NamespaceNotAllowed"))

	within := claim{team: "team-b", name: "access-within", infra: "access", nodes: 2}
	beyond := claim{team: "team-b", name: "access-beyond", infra: "access", nodes: 2}
	first := claim{team: "team-a", name: "access-first", infra: "access", nodes: 4}
	submit(t, within).eventually(long, claims, within.team, within.name, condition("Admitted", "True", "Admitted"))
	submit(t, beyond).eventually(soon, claims, beyond.team, beyond.name, condition("Admitted", "False", "QuotaExceeded"),
		said("Admitted", `needs 8 cpu, short 8 of 8; it is admitted as soon as the other clusters of namespace "team-b" leave that free`))
	teamA := submit(t, first)
	teamA.eventually(long, claims, first.team, first.name, condition("Admitted", "True", "Admitted"), condition("Ready", "True", ""))

	low := claim{team: "team-a", name: "access-low", infra: "access", nodes: 2}
	high := claim{team: "team-a", name: "access-high", infra: "access", nodes: 2, priority: 10}
	submit(t, low).eventually(soon, claims, low.team, low.name, condition("Admitted", "False", "QuotaExceeded"))
	submit(t, high).eventually(soon, claims, high.team, high.name, condition("Admitted", "False", "QuotaExceeded"))
	as(t, stack.Platform).eventually(soon, infras, "", "access", expectation{"high before beyond before low", func(o *unstructured.Unstructured) bool {
		queue, _, _ := unstructured.NestedSlice(o.Object, "status", "ledger", "queue")
		var order []string
		for _, q := range queue {
			entry, _ := q.(map[string]any)
			order = append(order, fmt.Sprint(entry["claim"], " ", entry["reason"]))
		}
		return slices.Equal(order, []string{
			"team-a/access-high QuotaExceeded", "team-payments/access-stranger NamespaceNotAllowed", "team-b/access-beyond QuotaExceeded", "team-a/access-low QuotaExceeded",
		})
	}})

	first.nodes = 2
	teamA.apply(first.yaml())
	teamA.eventually(long, claims, high.team, high.name, condition("Admitted", "True", "Admitted"))
	teamA.eventually(soon, claims, low.team, low.name, condition("Admitted", "False", "QuotaExceeded"))
	// A cluster that is removed while it is made takes minutes longer to go.
	teamA.eventually(long, claims, high.team, high.name, condition("Ready", "True", ""))
}
