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

// TestOverhead compares a storm that there is room for with the same storm of composites whose function composes a Release
// of the same chart, with the same values, at once and nothing else.
func TestOverhead(t *testing.T) {
	if !*scale.full {
		t.Skip("only measured with -storm.full")
	}
	admin := as(t, stack.Admin)
	count := *scale.claims
	offer(t, infra{name: "overhead", cpu: (count + 1) * base * nodeCPU, annotations: quick()})
	// The trivial function copies the Release of this one.
	_, donor := ready(t, claim{team: "team-a", name: "donor", infra: "overhead", nodes: base})
	release := admin.get(releases, "", donor)

	trivialRuns := atomic.Int64{}
	trivial := serve(t, "Trivial", func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		trivialRuns.Add(1)
		copied, err := copyRelease(release, observedText(req.GetObserved().GetComposite(), "metadata", "name"))
		if err != nil {
			return nil, err
		}
		return respond(req, "", map[string]any{}, map[string]map[string]any{"release": copied})
	})
	crowdOf := func(prefix string) (all []claim) {
		for i := range count {
			all = append(all, claim{team: "team-a", name: fmt.Sprintf("%s%03d", prefix, i), infra: "overhead", nodes: base})
		}
		return all
	}
	deployed := func(c *crowd) {
		t.Helper()
		err := kube.Wait(t.Context(), 15*time.Minute, func(context.Context) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.deployed) < count {
				return fmt.Errorf("%d of %d Releases are deployed", len(c.deployed), count)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}

	loads := []string{loadAverage(t)}
	floor := watchCrowd(t, "trivial-", 0, trivial.claims(), trivial.composites())
	all := crowdOf("trivial-")
	floor.submit(all, func(c claim) (*kube.Client, string) {
		return admin.client, fmt.Sprintf("{apiVersion: example.org/v1, kind: Trivial, metadata: {name: %s, namespace: %s}, spec: {}}", c.name, c.team)
	})
	deployed(floor)
	floorRuns := trivialRuns.Load()
	floorReleased, floorDeployed, floorDelays := floor.took(floor.released), floor.took(floor.deployed), floor.afterOf(floor.released).String()
	removeAll(t, admin, trivial.claims(), all)
	err := kube.Wait(t.Context(), 15*time.Minute, func(context.Context) error {
		floor.mu.Lock()
		defer floor.mu.Unlock()
		left := 0
		for _, machines := range floor.machines {
			left += len(machines)
		}
		if left += len(floor.claims) + len(floor.composites) + len(floor.releases); left > 0 {
			return fmt.Errorf("%d objects of the trivial function are left", left)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	loads = append(loads, loadAverage(t))
	ours := watchCrowd(t, "ours-", int64(count*base*nodeCPU), claims, composites)
	all = crowdOf("ours-")
	cleanup(t, func(admin user) { removeAll(t, admin, claims, all) })
	runs := countRuns(t)
	ours.submit(all, func(c claim) (*kube.Client, string) { return admin.client, c.yaml() })
	deployed(ours)
	total := runs.total()
	loads = append(loads, loadAverage(t))
	released, installed := ours.took(ours.released), ours.took(ours.deployed)

	row := func(what string, a, b float64) [2]string {
		return [2]string{what, fmt.Sprintf("%7.1f  %7.1f  %5.2f", a, b, b/a)}
	}
	printTable(t, [][2]string{
		{fmt.Sprintf("%d claims", count), "trivial     ours  ratio"},
		row("all Releases exist, s", floorReleased.Seconds(), released.Seconds()),
		row("all are installed, s", floorDeployed.Seconds(), installed.Seconds()),
		row("function runs", float64(floorRuns), float64(total)),
		{"claim to Release, trivial", floorDelays},
		{"claim to Release, ours", ours.afterOf(ours.released).String()},
		{"claim to decision, ours", ours.after(ours.decided).String()},
		{"load average", strings.Join(loads, ", then ")},
	})
	const most = 1.5
	if ratio := installed.Seconds() / floorDeployed.Seconds(); ratio > most {
		t.Errorf("until everything is installed it takes %.2f times as long as with a trivial function, want at most %.1f", ratio, most)
	}
}

// copyRelease of a cluster for another one. It takes the same secrets.
func copyRelease(release *unstructured.Unstructured, name string) (map[string]any, error) {
	values, _, err := unstructured.NestedMap(release.Object, "spec", "forProvider", "values")
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(raw), release.GetName(), name)), &values); err != nil {
		return nil, err
	}
	spec, err := json.Marshal(release.Object["spec"])
	if err != nil {
		return nil, err
	}
	var copied map[string]any
	if err := json.Unmarshal(spec, &copied); err != nil {
		return nil, err
	}
	copied["forProvider"].(map[string]any)["values"] = values
	return map[string]any{
		"apiVersion": release.GetAPIVersion(), "kind": release.GetKind(),
		"metadata": map[string]any{"name": name, "annotations": map[string]any{"crossplane.io/external-name": name}},
		"spec":     copied,
	}, nil
}
