package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/provisioner"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

const (
	xrds           = "compositeresourcedefinitions.apiextensions.crossplane.io"
	configurations = "configurations.pkg.crossplane.io"
	functions      = "functions.pkg.crossplane.io"

	configuration = "configuration-rig"

	// templateLabel is what the next version's chart puts on Rancher clusters, and its Configuration on an XRD.
	templateLabel = "example.org/template"
)

// TestPackages looks at what Crossplane's package manager made of the Configuration that the control plane was started
// with: docs/install.md, on this machine.
func TestPackages(t *testing.T) {
	t.Parallel()
	admin := as(t, stack.Admin)
	version := productVersion(t)
	healthy := condition("Healthy", "True", "")
	installed := admin.eventually(soon, configurations, "", configuration, healthy)
	revision := admin.get("configurationrevisions.pkg.crossplane.io", "", fieldOf(installed, "status.currentRevision"))
	got := map[string]string{}
	for _, field := range []string{"foundDependencies", "installedDependencies", "invalidDependencies"} {
		got[field] = fieldOf(revision, "status."+field)
	}
	if diff := cmp.Diff(map[string]string{"foundDependencies": "3", "installedDependencies": "3", "invalidDependencies": ""}, got); diff != "" {
		t.Errorf("dependencies of the Configuration: -want, +got:\n%s", diff)
	}
	admin.eventually(soon, functions, "", stack.FunctionName, healthy, field("spec.package", plane.FunctionImage(version)))
	for _, provider := range []string{"provider-helm", "provider-kubernetes"} {
		admin.eventually(soon, "providers.pkg.crossplane.io", "", "crossplane-contrib-"+provider, healthy)
	}

	// Everything in the package belongs to the revision.
	for resource, names := range map[string][]string{
		xrds: {composites, infras, blueprints, "vsphereblueprints.rig-gateway.io", "awsblueprints.rig-gateway.io"},
		"compositions.apiextensions.crossplane.io":                      {composites, infras, blueprints, "vsphereblueprints.rig-gateway.io", "awsblueprints.rig-gateway.io"},
		"managedresourceactivationpolicies.apiextensions.crossplane.io": {"rig-gateway"},
	} {
		for _, name := range names {
			if owner := controllerOf(admin.get(resource, "", name)); owner != "ConfigurationRevision/"+revision.GetName() {
				t.Errorf("%s %s is controlled by %q", resource, name, owner)
			}
		}
	}
	for _, name := range []string{composites, infras, blueprints} {
		admin.eventually(soon, xrds, "", name, condition("Established", "True", ""))
	}

	// examples/install/runtime.yaml is in use: the provider runs with the flags, and as the ServiceAccount, that it says.
	provider := admin.get("providers.pkg.crossplane.io", "", "crossplane-contrib-provider-kubernetes")
	deployment := admin.get("deployments.apps", stack.Namespace, fieldOf(provider, "status.currentRevision"))
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	runs := fmt.Sprint(containers[0].(map[string]any)["args"], fieldOf(deployment, "spec.template.spec.serviceAccountName"))
	if want := "[--enable-watches --sanitize-secrets]provider-kubernetes"; runs != want {
		t.Errorf("provider-kubernetes runs with %s, want %s", runs, want)
	}
}

// TestUpgrade goes to the next version of the packages, whose chart has another template, and back, with clusters that run
// and one that waits. Nothing is deleted or made again, no machine is touched, and the ledger stays as it is, at any time.
// All tests share the function, so it is not parallel until its clusters are all that is left of it.
func TestUpgrade(t *testing.T) {
	version := productVersion(t)
	next := "v" + semver.MustParse(version).IncPatch().String()
	offer(t, infra{name: "upgrade", cpu: 20})
	running := []claim{
		{team: "team-a", name: "upgrade-a", infra: "upgrade", nodes: 2},
		{team: "team-b", name: "upgrade-b", infra: "upgrade", nodes: 2},
	}
	for _, c := range running {
		submit(t, c)
	}
	binary, err := plane.Publish(t.Context(), nextSources(t, next), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := plane.RunFunction(t.Context(), "function-next", next, binary); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop("function-next"); err != nil {
			t.Error(err)
		}
	})
	var names []string
	for _, c := range running {
		as(t, c.team).eventually(long, claims, c.team, c.name, condition("Ready", "True", ""), condition("Synced", "True", ""))
		names = append(names, composite(t, c))
	}
	// It would take the quota that a cluster gives back.
	waiting := claim{team: "team-a", name: "upgrade-waits", infra: "upgrade", nodes: 2}
	submit(t, waiting).eventually(soon, claims, waiting.team, waiting.name, condition("Admitted", "False", "QuotaExceeded"))

	usage(t, "upgrade", "16/20")
	before, err := inventory(t.Context(), t, names)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The other tests are of this version.
		if t.Failed() {
			if err := plane.Guide(context.Background(), "Roll back"); err != nil {
				t.Error(err)
			}
		}
	})
	for _, step := range []struct{ section, version, label string }{
		{"Upgrade", next, "next"},
		{"Roll back", version, ""},
	} {
		stop := watchInventory(t, names, before)
		if err := plane.Guide(t.Context(), step.section); err != nil {
			t.Fatal(err)
		}
		atVersion(t, step.version, step.label, names)
		for _, c := range running {
			as(t, c.team).eventually(long, claims, c.team, c.name, condition("Ready", "True", ""), condition("Synced", "True", ""))
		}
		as(t, waiting.team).eventually(soon, claims, waiting.team, waiting.name, condition("Admitted", "False", "QuotaExceeded"))
		if step.version == next {
			refusesNewerFunction(t, version, next)
		}
		stop()
	}
	t.Parallel()
}

// refusesNewerFunction says whether the Configuration does, when somebody rolls it back before the function; and whether it
// can be put right again.
func refusesNewerFunction(t *testing.T, version, next string) {
	t.Helper()
	admin := as(t, stack.Admin)
	goTo := func(version string, want ...expectation) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"package":%q}}`, plane.ConfigurationImage(version))
		if err := admin.client.Patch(t.Context(), configurations, "", configuration, patch); err != nil {
			t.Fatal(err)
		}
		admin.eventually(soon, configurations, "", configuration, append(want, field("status.currentIdentifier", plane.ConfigurationImage(version)))...)
	}
	incompatible := expectation{"it names the function and the range", func(o *unstructured.Unstructured) bool {
		message := kube.ConditionOf(o, "Healthy").Message
		return strings.Contains(message, "/function-rig") && strings.Contains(message, "<="+version)
	}}
	goTo(version, condition("Healthy", "False", ""), incompatible)
	goTo(next, condition("Healthy", "True", ""))
}

// productVersion that is under test.
func productVersion(t *testing.T) string {
	t.Helper()
	version, err := stack.Version()
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// nextSources are those of the product, with another version and template of the chart, and another XRD.
func nextSources(t *testing.T, version string) string {
	t.Helper()
	sources := t.TempDir()
	for _, part := range []string{"apis", "charts", "examples", "fn", "input", "internal", "package", "strategies"} {
		if err := os.CopyFS(filepath.Join(sources, part), os.DirFS(filepath.Join(plane.Root(), part))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		edit(t, filepath.Join(plane.Root(), file), filepath.Join(sources, file), "", "")
	}
	for _, change := range []struct{ file, old, changed string }{
		{"charts/rke2-cluster/Chart.yaml", "version: " + strings.TrimPrefix(productVersion(t), "v"), "version: " + strings.TrimPrefix(version, "v")},
		{"charts/rke2-cluster/templates/cluster.yaml", "with $cluster.labels", `with merge (dict "` + templateLabel + `" "next") ($cluster.labels | default dict)`},
		{"apis/infrablueprints/definition.yaml", "metadata:\n", "metadata:\n  labels: {" + templateLabel + ": next}\n"},
	} {
		file := filepath.Join(sources, change.file)
		edit(t, file, file, change.old, change.changed)
	}
	return sources
}

// edit a file: one place in it, unless that is empty.
func edit(t *testing.T, from, to, old, changed string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if old != "" && strings.Count(string(raw), old) != 1 {
		t.Fatalf("%s has %q %d times", from, old, strings.Count(string(raw), old))
	}
	if err := os.WriteFile(to, []byte(strings.Replace(string(raw), old, changed, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// atVersion waits until the packages, the Releases of some clusters and these clusters are of a version.
func atVersion(t *testing.T, version, label string, names []string) {
	t.Helper()
	admin, rancher := as(t, stack.Admin), infrastructure(t)
	labelled := expectation{fmt.Sprintf("label %s is %q", templateLabel, label), func(o *unstructured.Unstructured) bool {
		return o.GetLabels()[templateLabel] == label
	}}
	for _, name := range names {
		// Its condition Ready stays false until provider-helm polls it again.
		admin.eventually(long, releases, "", name, condition("Synced", "True", ""),
			field("status.atProvider.state", "deployed"), field("status.atProvider.version", strings.TrimPrefix(version, "v")))
		rancher.eventually(soon, clusters, rancherNamespace, name, labelled)
	}
	admin.eventually(soon, xrds, "", infras, condition("Established", "True", ""), labelled)
	for resource, name := range map[string]string{configurations: configuration, functions: stack.FunctionName} {
		o := admin.eventually(soon, resource, "", name, condition("Healthy", "True", ""))
		if is := fieldOf(o, "status.currentIdentifier"); !strings.HasSuffix(is, ":"+version) {
			t.Errorf("%s %s is %s, want version %s", resource, name, is, version)
		}
	}
}

// inventory of clusters and of the quota that they share: what an upgrade must leave alone.
func inventory(ctx context.Context, t *testing.T, names []string) (map[string]any, error) {
	t.Helper()
	admin, rancher := as(t, stack.Admin).client, infrastructure(t).client
	infra, err := admin.Get(ctx, infras, "", "upgrade")
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, part := range []string{"ledger", "usage"} {
		value, found, _ := unstructured.NestedFieldCopy(infra.Object, "status", part)
		if !found {
			return nil, fmt.Errorf("%s has no status.%s", kube.Name(infra), part)
		}
		out[part] = value
	}
	for _, name := range names {
		xr, err := admin.Get(ctx, composites, "", name)
		if err != nil {
			return nil, err
		}
		out[name+" quota"], _, _ = unstructured.NestedFieldCopy(xr.Object, "status", "quota")
		var made []unstructured.Unstructured
		for _, resource := range []string{releases, objects, mailboxes} {
			found, err := admin.List(ctx, resource, "", "rig-gateway.io/cluster="+name)
			if err != nil || len(found) == 0 {
				return nil, errors.Join(fmt.Errorf("%d %s of %s", len(found), resource, name), err)
			}
			made = append(made, found...)
		}
		cluster, err := rancher.Get(ctx, clusters, rancherNamespace, name)
		if err != nil {
			return nil, err
		}
		built, err := rancher.List(ctx, machines, rancherNamespace, provisioner.LabelCluster+"="+name)
		if err != nil {
			return nil, err
		}
		var uids []string
		for _, o := range append(append(made, *cluster), built...) {
			uids = append(uids, fmt.Sprintf("%s %s deleted:%t", kube.Name(&o), o.GetUID(), o.GetDeletionTimestamp() != nil))
		}
		slices.Sort(uids)
		out[name] = uids
	}
	return out, nil
}

// watchInventory until it is stopped: at no time is it another.
func watchInventory(t *testing.T, names []string, want map[string]any) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	look := func() bool {
		got, err := inventory(t.Context(), t, names)
		if err != nil {
			t.Errorf("cannot take the inventory: %v", err)
			return false
		}
		diff := cmp.Diff(want, got)
		if diff != "" {
			t.Errorf("clusters and ledger have changed: -before, +now:\n%s", diff)
		}
		return diff == ""
	}
	go func() {
		defer close(ended)
		for look() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		look()
	}
}

// controllerOf an object: Kind/name.
func controllerOf(o *unstructured.Unstructured) string {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Controller != nil && *owner.Controller {
			return owner.Kind + "/" + owner.Name
		}
	}
	return ""
}
