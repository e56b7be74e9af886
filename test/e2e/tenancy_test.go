package e2e

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
