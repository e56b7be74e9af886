package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

// quick machines, where they are not what is measured.
func quick() map[string]string {
	return map[string]string{"provisioner.rig-gateway.io/create-delay": "200ms", "provisioner.rig-gateway.io/delete-delay": "200ms"}
}

// TestLatency measures how long one claim after the other takes, with nothing else to do.
func TestLatency(t *testing.T) {
	if !*scale.full {
		t.Skip("only measured with -storm.full")
	}
	const count = 30
	offer(t, infra{name: "latency", cpu: count * base * nodeCPU, annotations: quick()})
	crowd := watchCrowd(t, "latency-", count*base*nodeCPU, claims, composites)
	runs, before := countRuns(t), loadAverage(t)
	for i := range count {
		c := claim{team: "team-a", name: fmt.Sprintf("latency-%02d", i), infra: "latency", nodes: base}
		cleanup(t, func(admin user) { removeAll(t, admin, claims, []claim{c}) })
		crowd.submit([]claim{c}, func(c claim) (*kube.Client, string) { return as(t, c.team).client, c.yaml() })
		as(t, c.team).eventually(long, claims, c.team, c.name, condition("Ready", "True", ""))
	}
	printTable(t, [][2]string{
		{"claim to decision", crowd.after(crowd.decided).String()},
		{"claim to Release", crowd.afterOf(crowd.released).String()},
		{"claim to Helm release", crowd.afterOf(crowd.deployed).String()},
		{"claim to Ready", crowd.after(crowd.ready).String()},
		{"function runs per claim", fmt.Sprintf("%.1f", float64(runs.total())/count)},
		{"load average", before + ", then " + loadAverage(t)},
	})
}

// TestOverhead compares a storm that there is room for with the same storm of composites of which a function composes all at
// once, and asks nobody: a Release of the same chart with the same values and nothing else, and everything that the product
// composes.
func TestOverhead(t *testing.T) {
	if !*scale.full {
		t.Skip("only measured with -storm.full")
	}
	admin := as(t, stack.Admin)
	count := *scale.claims
	offer(t, infra{name: "overhead", cpu: (count + 1) * base * nodeCPU, annotations: quick()})
	// The functions of the test copy what is composed for this one.
	_, donor := ready(t, claim{team: "team-a", name: "donor", infra: "overhead", nodes: base})
	release := admin.get(releases, "", donor)
	var everything []unstructured.Unstructured
	for _, resource := range []string{releases, objects, mailboxes} {
		everything = append(everything, admin.list(resource, "", "rig-gateway.io/cluster="+donor)...)
	}

	figures := []figure{
		withoutQuota(t, "Trivial", count, func(name string) (map[string]map[string]any, error) {
			copied, err := copyRelease(release, name)
			return map[string]map[string]any{"release": copied}, err
		}),
		withoutQuota(t, "Whole", count, func(name string) (map[string]map[string]any, error) {
			composed := map[string]map[string]any{}
			for _, o := range everything {
				var err error
				if composed[kube.Name(&o)], err = copyFor(name, &o, donor); err != nil {
					return nil, err
				}
			}
			return composed, nil
		}),
		withQuota(t, count),
	}
	row := func(what string, of func(figure) float64) [2]string {
		trivial, whole, ours := of(figures[0]), of(figures[1]), of(figures[2])
		return [2]string{what, fmt.Sprintf("%7.1f  %7.1f  %7.1f  %5.2f  %5.2f", trivial, whole, ours, ours/trivial, ours/whole)}
	}
	rows := [][2]string{
		{fmt.Sprintf("%d claims", count), "trivial    whole     ours  to trivial, to whole"},
		row("all Releases exist, s", func(f figure) float64 { return f.released.Seconds() }),
		row("all are installed, s", func(f figure) float64 { return f.deployed.Seconds() }),
		row("function runs", func(f figure) float64 { return float64(f.runs) }),
	}
	for i, of := range []string{"trivial", "whole", "ours"} {
		rows = append(rows, [2]string{"claim to Release, " + of, figures[i].delays}, [2]string{"load average, " + of, figures[i].load})
	}
	printTable(t, append(rows, [2]string{"claim to decision, ours", figures[2].decisions}))
	const most = 1.5
	if ratio := figures[2].deployed.Seconds() / figures[0].deployed.Seconds(); ratio > most {
		t.Errorf("until everything is installed it takes %.2f times as long as with a trivial function, want at most %.1f", ratio, most)
	}
}

// A figure is how a storm went.
type figure struct {
	// released and deployed are how long it took until all Releases existed, and were installed.
	released, deployed time.Duration
	// runs of the function.
	runs int64
	// delays of the claims until their Releases existed, and decisions until they were decided on.
	delays, decisions string
	load              string
}

// withoutQuota measures a storm of composites of a kind, of which a function composes all at once.
func withoutQuota(t *testing.T, kind string, count int, compose func(name string) (map[string]map[string]any, error)) figure {
	t.Helper()
	admin := as(t, stack.Admin)
	runs := atomic.Int64{}
	s := serve(t, kind, func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		runs.Add(1)
		composed, err := compose(observedText(req.GetObserved().GetComposite(), "metadata", "name"))
		if err != nil {
			return nil, err
		}
		return respond(req, "", map[string]any{}, composed)
	})
	prefix := strings.ToLower(kind) + "-"
	c, all := watchCrowd(t, prefix, 0, s.claims(), s.composites()), crowdOf(prefix, count)
	c.submit(all, func(c claim) (*kube.Client, string) {
		return admin.client, fmt.Sprintf("{apiVersion: example.org/v1, kind: %s, metadata: {name: %s, namespace: %s}, spec: {}}", kind, c.name, c.team)
	})
	out := c.figure(count)
	out.runs = runs.Load()
	removeAll(t, admin, s.claims(), all)
	err := kube.Wait(t.Context(), 15*time.Minute, func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		left := 0
		for _, machines := range c.machines {
			left += len(machines)
		}
		if left += len(c.claims) + len(c.composites) + len(c.releases); left > 0 {
			return fmt.Errorf("%d objects of the %s function are left", left, kind)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withQuota measures a storm of claims.
func withQuota(t *testing.T, count int) figure {
	t.Helper()
	admin := as(t, stack.Admin)
	c, all := watchCrowd(t, "ours-", int64(count*base*nodeCPU), claims, composites), crowdOf("ours-", count)
	cleanup(t, func(admin user) { removeAll(t, admin, claims, all) })
	runs := countRuns(t)
	c.submit(all, func(c claim) (*kube.Client, string) { return admin.client, c.yaml() })
	out := c.figure(count)
	out.runs = int64(runs.total())
	return out
}

// crowdOf claims with a common prefix.
func crowdOf(prefix string, count int) (all []claim) {
	for i := range count {
		all = append(all, claim{team: "team-a", name: fmt.Sprintf("%s%03d", prefix, i), infra: "overhead", nodes: base})
	}
	return all
}

// figure of a crowd, once all Releases are installed.
func (c *crowd) figure(count int) figure {
	c.t.Helper()
	err := kube.Wait(c.t.Context(), 15*time.Minute, func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.deployed) < count {
			return fmt.Errorf("%d of %d Releases are deployed", len(c.deployed), count)
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return figure{
		released: c.took(c.released), deployed: c.took(c.deployed), delays: c.afterOf(c.released).String(),
		decisions: c.after(c.decided).String(), load: loadAverage(c.t),
	}
}

// copyFor a cluster what is composed for another one. Without its labels nobody takes it into account.
func copyFor(name string, o *unstructured.Unstructured, donor string) (map[string]any, error) {
	copied := o.DeepCopy()
	for _, field := range []string{"status", "metadata"} {
		unstructured.RemoveNestedField(copied.Object, field)
	}
	copied.SetName(o.GetName())
	if external := o.GetAnnotations()["crossplane.io/external-name"]; external != "" {
		copied.SetAnnotations(map[string]string{"crossplane.io/external-name": external})
	}
	return renamed(copied.Object, donor, name)
}

// copyRelease of a cluster for another one. It takes the same secrets.
func copyRelease(release *unstructured.Unstructured, name string) (map[string]any, error) {
	values, _, err := unstructured.NestedMap(release.Object, "spec", "forProvider", "values")
	if err != nil {
		return nil, err
	}
	if values, err = renamed(values, release.GetName(), name); err != nil {
		return nil, err
	}
	copied := release.DeepCopy()
	if err := unstructured.SetNestedMap(copied.Object, values, "spec", "forProvider", "values"); err != nil {
		return nil, err
	}
	return map[string]any{
		"apiVersion": release.GetAPIVersion(), "kind": release.GetKind(),
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"crossplane.io/external-name": name}},
		"spec":     copied.Object["spec"],
	}, nil
}

// renamed copy of an object: a name in it is replaced wherever it is.
func renamed(object map[string]any, from, to string) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	err = json.Unmarshal([]byte(strings.ReplaceAll(string(raw), from, to)), &out)
	return out, err
}
