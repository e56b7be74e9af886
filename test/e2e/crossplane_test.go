package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/rig-gateway/function-rig/hack/controlplane/kube"
	"github.com/rig-gateway/function-rig/hack/controlplane/stack"
)

const events = "events"

// A script is how the function answers the runs of one composite, and what it has seen.
type script struct {
	mu     sync.Mutex
	answer answer
	// seen by the runs since the last step: what the API server had when they began, which is what the run before them
	// left. Crossplane never runs a composite twice at a time.
	seen []outcome
	err  error
	at   []time.Time
}

// An outcome of a run, as the API server has it.
type outcome struct {
	// version and step of the composite, how many resources it refers to, and the step of its composed resource.
	Version, Step string
	References    int
	Composed      string
}

// step to another way to answer. The runs from here on are counted anew.
func (s *script) step(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.seen, s.at = a, nil, nil
}

// run answers one run.
func (s *script) run(ctx context.Context, admin user, composites string, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := observedText(req.GetObserved().GetComposite(), "metadata", "name")
	xr, err := admin.client.Get(ctx, composites, "", name)
	if err != nil {
		s.err = err
		return nil, err
	}
	references, _ := xr.Object["spec"].(map[string]any)["resourceRefs"].([]any)
	o := outcome{Version: xr.GetResourceVersion(), Step: fieldOf(xr, "status.step"), References: len(references)}
	composed, err := admin.client.Get(ctx, mailboxes, "", name)
	if err != nil && !apierrors.IsNotFound(err) {
		s.err = err
		return nil, err
	}
	if err == nil {
		o.Composed = fieldOf(composed, "data.step")
	}
	s.seen, s.at = append(s.seen, o), append(s.at, time.Now())
	return s.answer(ctx, req)
}

// runs waits for so many of them and returns what they saw.
func (s *script) runs(t *testing.T, count int) []outcome {
	t.Helper()
	err := kube.Wait(t.Context(), long, func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.seen) < count {
			return errors.Join(fmt.Errorf("there were %d runs, want %d", len(s.seen), count), s.err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.at); i++ {
		t.Logf("run %d came %s after run %d", i+1, s.at[i].Sub(s.at[i-1]).Round(time.Millisecond), i)
	}
	return s.seen
}

// composed resource of an experiment: a mailbox with a step.
func composedStep(name, step, version string) map[string]any {
	metadata := map[string]any{"name": name}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	return map[string]any{
		"apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "EnvironmentConfig", "metadata": metadata, "data": map[string]any{"step": step},
	}
}

func versionOf(r *fnv1.Resource) string { return observedText(r, "metadata", "resourceVersion") }

// TestCrossplane keeps the experiments behind what the ledger takes for granted about Crossplane: an object that carries a
// resourceVersion is written by compare-and-swap, and a conflict is retried, silently, without losing anything.
func TestCrossplane(t *testing.T) {
	t.Parallel()
	admin := as(t, stack.Admin)
	scripts, xrs := sync.Map{}, ""
	kind := serve(t, "Experiment", func(ctx context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		found, ok := scripts.Load(observedText(req.GetObserved().GetComposite(), "metadata", "name"))
		if !ok {
			return nil, errors.New("there is no script")
		}
		return found.(*script).run(ctx, admin, xrs, req)
	})
	xrs = kind.composites()

	// begin an experiment: its composite and its composed resource are at the first step, and nothing moves.
	begin := func(t *testing.T, name string) *script {
		t.Helper()
		s := &script{}
		s.step(func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return respond(req, versionOf(req.GetObserved().GetComposite()), map[string]any{"step": "first"}, map[string]map[string]any{"one": composedStep(name, "first", "")})
		})
		scripts.Store(name, s)
		admin.apply("{apiVersion: example.org/v1, kind: XExperiment, metadata: {name: " + name + "}, spec: {}}")
		t.Cleanup(func() {
			if err := admin.client.Delete(context.Background(), xrs, "", name); err != nil {
				t.Error(err)
			}
			as(t, stack.Admin).gone(soon, xrs, "", name)
		})
		admin.eventually(soon, xrs, "", name, field("status.step", "first"), condition("Ready", "True", ""), condition("Synced", "True", ""))
		admin.eventually(soon, mailboxes, "", name, field("data.step", "first"))
		time.Sleep(time.Second)
		return s
	}
	// poke a composite, so that it runs.
	poke := func(t *testing.T, name string) {
		t.Helper()
		if err := admin.client.Patch(t.Context(), xrs, "", name, fmt.Sprintf(`{"metadata":{"annotations":{"example.org/poke":"%d"}}}`, time.Now().UnixNano())); err != nil {
			t.Fatal(err)
		}
	}
	conditions := func(t *testing.T, name string) any {
		t.Helper()
		return admin.get(xrs, "", name).Object["status"].(map[string]any)["conditions"]
	}
	quiet := func(t *testing.T, name string) {
		t.Helper()
		for _, e := range admin.list(events, "", "") {
			if fieldOf(&e, "involvedObject.name") == name && fieldOf(&e, "type") != "Normal" {
				t.Errorf("a conflict is not silent: event:\n%s", show(&e))
			}
		}
	}
	// silent also means that no condition was ever another one: their times are those of before.
	silent := func(t *testing.T, name string, before any) {
		t.Helper()
		if diff := cmp.Diff(before, conditions(t, name)); diff != "" {
			t.Errorf("a conflict is not silent: conditions: -before, +after:\n%s", diff)
		}
		quiet(t, name)
	}

	t.Run("StaleComposite", func(t *testing.T) {
		t.Parallel()
		const name = "stale-composite"
		s := begin(t, name)
		before, stale := conditions(t, name), admin.get(xrs, "", name).GetResourceVersion()
		s.step(func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return respond(req, stale, map[string]any{"step": "second"}, map[string]map[string]any{"one": composedStep(name, "second", "")})
		})
		poke(t, name)
		for i, o := range s.runs(t, 4)[1:] {
			if o.Step != "first" {
				t.Errorf("run %d wrote the status from a stale version: step is %q", i+1, o.Step)
			}
			if o.Composed != "second" {
				t.Errorf("run %d: the composed resource was not applied before the status was refused: step is %q", i+1, o.Composed)
			}
		}
		silent(t, name, before)

		s.step(func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return respond(req, versionOf(req.GetObserved().GetComposite()), map[string]any{"step": "second"}, map[string]map[string]any{"one": composedStep(name, "second", "")})
		})
		admin.eventually(soon, xrs, "", name, field("status.step", "second"))
		silent(t, name, before)
	})

	t.Run("StaleComposed", func(t *testing.T) {
		t.Parallel()
		const name, absent = "stale-composed", "stale-composed-absent"
		s := begin(t, name)
		before, stale := conditions(t, name), admin.get(mailboxes, "", name).GetResourceVersion()
		if err := admin.client.Patch(t.Context(), mailboxes, "", name, `{"metadata":{"annotations":{"example.org/newer":"true"}}}`); err != nil {
			t.Fatal(err)
		}
		newer := admin.get(mailboxes, "", name).GetResourceVersion()
		s.step(func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return respond(req, "", map[string]any{"step": "second"}, map[string]map[string]any{"one": composedStep(name, "second", stale)})
		})
		poke(t, name)
		for i, o := range s.runs(t, 4)[1:] {
			if o.Composed != "first" || o.Step != "first" {
				t.Errorf("run %d applied a stale version: the step of the composed resource is %q, that of the status %q", i+1, o.Composed, o.Step)
			}
		}
		if got := admin.get(mailboxes, "", name).GetResourceVersion(); got != newer {
			t.Errorf("the object was written: its version is %s, want %s", got, newer)
		}
		silent(t, name, before)

		s.step(func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return respond(req, "", map[string]any{"step": "second"}, map[string]map[string]any{
				"one": composedStep(name, "second", versionOf(req.GetObserved().GetResources()["one"])),
				// Of an object that does not exist, any version is taken.
				"absent": composedStep(absent, "second", stale),
			})
		})
		admin.eventually(soon, mailboxes, "", absent, field("data.step", "second"))
		admin.eventually(soon, mailboxes, "", name, field("data.step", "second"))
		// From here on the version of the second one is stale.
		s.step(func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return respond(req, "", map[string]any{"step": "second"}, map[string]map[string]any{
				"one": composedStep(name, "second", ""), "absent": composedStep(absent, "second", ""),
			})
		})
		admin.eventually(soon, xrs, "", name, field("status.step", "second"))
	})

	t.Run("ReferencesChange", func(t *testing.T) {
		t.Parallel()
		const name = "references-change"
		s := begin(t, name)
		s.step(func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
			return respond(req, versionOf(req.GetObserved().GetComposite()), map[string]any{"step": "second"}, map[string]map[string]any{
				"one": composedStep(name, "second", ""), "two": composedStep(name+"-two", "second", ""),
			})
		})
		poke(t, name)
		first := s.runs(t, 2)[1]
		if want := (outcome{Version: first.Version, Step: "first", References: 2, Composed: "second"}); first != want {
			t.Errorf("a run that changed the references left %+v, want %+v", first, want)
		}
		admin.eventually(soon, xrs, "", name, field("status.step", "second"), condition("Synced", "True", ""), condition("Ready", "True", ""))
		quiet(t, name)
	})

	t.Run("PausedRelease", func(t *testing.T) {
		t.Parallel()
		const name = "paused-release"
		s := begin(t, name)
		release := func(annotations map[string]any) answer {
			return func(_ context.Context, req *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
				return respond(req, "", map[string]any{"step": "second"}, map[string]map[string]any{
					"one": composedStep(name, "second", ""),
					"release": {
						"apiVersion": "helm.crossplane.io/v1beta1", "kind": "Release", "metadata": map[string]any{"name": name, "annotations": annotations},
						"spec": map[string]any{
							"providerConfigRef": map[string]any{"name": "rancher"},
							"forProvider": map[string]any{
								"namespace": rancherNamespace, "skipCreateNamespace": true,
								// It need not be installed: that the provider tries is enough.
								"chart": map[string]any{"name": "rke2-cluster", "repository": plane.ChartRepository(), "version": "0.0.0-none"},
							},
						},
					},
				})
			}
		}
		s.step(release(map[string]any{"crossplane.io/paused": "true"}))
		poke(t, name)
		admin.eventually(soon, releases, "", name)
		time.Sleep(3 * time.Second)
		if r := admin.get(releases, "", name); len(r.GetFinalizers()) > 0 || fieldOf(r, "status.atProvider.state") != "" {
			t.Errorf("the provider acts on a paused Release:\n%s", show(r))
		}
		s.step(release(map[string]any{}))
		poke(t, name)
		admin.eventually(soon, releases, "", name, condition("Synced", "False", "ReconcileError"))
		if r := admin.get(releases, "", name); len(r.GetFinalizers()) == 0 {
			t.Errorf("the provider acts on a Release without a finalizer:\n%s", show(r))
		}
	})
}
