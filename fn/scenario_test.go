package main

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/builder"
	"github.com/rig-gateway/function-rig/internal/ledger"
)

func xr(name string) id      { return id{v1alpha1.KindXClusterBlueprint, name} }
func release(name string) id { return id{"Release", name} }
func barrier(name string) id { return id{"Object", builder.BarrierName(name)} }

var prod = id{v1alpha1.KindInfraBlueprint, "prod"} //nolint:gochecknoglobals // A constant that Go cannot express as one.

// cpus that a cluster keeps, as its record says.
func (w *world) keeps(name string) any {
	return at(w.objects[xr(name)], "status", "quota", "keeps", "cpu")
}

// edit a composite's pools.
func (w *world) edit(name string, wanted []any) {
	w.put(put(w.objects[xr(name)], wanted, "spec", "pools"))
}

// expect a condition.
func (w *world) expect(k id, conditionType, want string) {
	w.t.Helper()
	if got := w.condition(k, conditionType); got != want {
		w.t.Errorf("%v: condition %s is %q (%s), want %q", k, conditionType, got, w.message(k, conditionType), want)
	}
}

func (w *world) expectKeeps(name string, want any) {
	w.t.Helper()
	if got := w.keeps(name); got != want {
		w.t.Errorf("%s keeps %v cpu, want %v", name, got, want)
	}
}

// grants of the ledger as cluster: cpu.
func (w *world) grants() map[string]any {
	out := map[string]any{}
	list, _ := at(w.objects[prod], "status", "ledger", "grants").([]any)
	for _, g := range list {
		out[at(g, "cluster").(string)] = at(g, "amount", "cpu")
	}
	return out
}

func (w *world) expectGrants(want map[string]any) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.grants()); diff != "" {
		w.t.Errorf("grants: -want, +got:\n%s", diff)
	}
}

func TestClusterLife(t *testing.T) {
	for name, legacy := range map[string]bool{"RequiredResources": false, "ExtraResources": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, infraBlueprint(t, 64), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
			w.legacy = legacy

			// Nothing is built before it is admitted, and the first Release waits for record and barrier.
			sawPaused := false
			for range 20 {
				for _, k := range w.composites() {
					w.reconcile(k)
					r, exists := w.objects[release("aa")]
					if !exists {
						continue
					}
					if at(r, "metadata", "annotations", v1alpha1.AnnotationPaused) == "true" {
						sawPaused = true
						continue
					}
					if w.keeps("aa") == nil {
						t.Fatal("the Release is active before the record is written")
					}
					if _, exists := w.objects[barrier("aa")]; !exists {
						t.Fatal("the Release is active before the barrier exists")
					}
				}
				w.tick(time.Second)
			}
			if !sawPaused {
				t.Error("the first Release was never composed paused")
			}
			w.settle()
			w.expect(xr("aa"), typeAdmitted, "True Admitted")
			w.expect(xr("aa"), typeProvisioned, "True Provisioned")
			w.expect(xr("aa"), "Ready", "True Available")
			w.expect(prod, typeWithinQuota, "True WithinQuota")
			w.expectKeeps("aa", "12")
			w.expectGrants(map[string]any{"aa": "12"})
			if got := string(w.secrets[xr("aa")]["kubeconfig"]); got != "kubeconfig of aa" {
				t.Errorf("connection secret of the composite: %q", got)
			}

			// Feeding desired back as observed changes nothing more.
			before := maps.Clone(w.objects)
			w.rounds(3)
			if diff := cmp.Diff(before, w.objects); diff != "" {
				t.Errorf("a settled world changes: -before, +after:\n%s", diff)
			}

			// A change that raises no dimension is not blocked, and changes nothing else.
			w.put(put(w.objects[xr("aa")], "v1.32.1+rke2r1", "spec", "kubernetesVersion"))
			w.reconcile(xr("aa"))
			if got := at(w.objects[release("aa")], "spec", "forProvider", "values", "cluster", "kubernetesVersion"); got != "v1.32.1+rke2r1" {
				t.Errorf("Kubernetes version is %v", got)
			}
			w.settle()
			w.expectKeeps("aa", "12")
		})
	}
}

func TestWaitsForShrink(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(3)))
	w.settle()
	w.expectKeeps("aa", "16")

	w.put(clusterBlueprint("bb", "team", "bb", pools(2)))
	w.settle()
	w.expect(xr("bb"), typeAdmitted, "False QuotaExceeded")
	if got, want := w.message(xr("bb"), typeAdmitted), "needs 12 cpu, short 8 of 20"; !strings.Contains(got, want) {
		t.Errorf("the refusal does no arithmetic: %q, want %q", got, want)
	}
	w.expect(xr("bb"), typeProvisioned, "False Provisioning")
	if _, exists := w.objects[release("bb")]; exists {
		t.Error("a waiting cluster has a Release")
	}
	if got := at(w.objects[prod], "status", "waiting"); got != 1.0 {
		t.Errorf("status.waiting is %v", got)
	}

	// The quota returns only after Rancher has shown the smaller cluster for the settle delay.
	w.edit("aa", pools(1))
	w.rolling = 6
	settled := time.Time{}
	w.until(func() bool {
		if settled.IsZero() && at(w.objects[xr("aa")], "status", "quota", "settledSince") != nil {
			settled = w.now
		}
		return w.keeps("aa") == "8" || w.keeps("bb") != nil
	})
	if held := w.now.Sub(settled); settled.IsZero() || held < 10*time.Second {
		t.Errorf("aa lets go %s after it was seen as finished, want the settle delay of 10s", held)
	}
	if w.keeps("bb") != nil {
		t.Fatal("b is admitted before a has let go")
	}
	if c := w.rancher["aa"]; c.takes()[ledger.CPU] != 8000 {
		t.Errorf("a lets go while Rancher may still have %s", c.takes())
	}
	w.settle()
	w.expect(xr("bb"), typeAdmitted, "True Admitted")
	w.expect(xr("bb"), "Ready", "True Available")
	w.expectKeeps("bb", "12")
	w.expectGrants(map[string]any{"aa": "8", "bb": "12"})
}

func TestGrowth(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.settle()
	w.edit("aa", pools(4))
	w.settle()
	w.expect(xr("aa"), "Ready", "True Available")
	w.expectKeeps("aa", "20")

	// One node too many: what exists stays as it is.
	before := w.objects[release("aa")]
	w.edit("aa", pools(5))
	w.settle()
	w.expect(xr("aa"), typeAdmitted, "False NeverFits")
	w.expect(xr("aa"), typeProvisioned, "True Provisioned")
	w.expectKeeps("aa", "20")
	if diff := cmp.Diff(before, w.objects[release("aa")]); diff != "" {
		t.Errorf("the Release of a cluster that waits changes: -before, +after:\n%s", diff)
	}

	w.put(put(w.objects[prod], "24", "spec", "quota", "cpu"))
	w.settle()
	w.expect(xr("aa"), typeAdmitted, "True Admitted")
	w.expectKeeps("aa", "24")
}

func TestRenamedPool(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.settle()
	renamed := []any{pool("all", 1, "control-plane", "etcd", "worker"), pool("batch", 2, "worker")}
	w.edit("aa", renamed)
	w.rolling = 3
	most := int64(0)
	for range 20 {
		w.rounds(1)
		most = max(most, w.committed()[ledger.CPU])
	}
	if most != 20000 {
		t.Errorf("while it rolls the cluster takes %d milli-cpus, want 20000: both pools exist", most)
	}
	w.settle()
	w.expectKeeps("aa", "12")
	w.expect(xr("aa"), "Ready", "True Available")
}

func TestDeletion(t *testing.T) {
	for name, foreground := range map[string]bool{"Foreground": true, "Background": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
			w.settle()
			w.rolling = 12
			w.delete(xr("aa"), foreground)
			w.put(clusterBlueprint("bb", "team", "bb", pools(2)))
			gone := time.Time{}
			for range 60 {
				w.rounds(1)
				_, there := w.objects[barrier("aa")]
				if !there && gone.IsZero() {
					gone = w.now
				}
				if granted := w.grants()["aa"]; there && granted != "12" {
					t.Fatalf("the grant is %v while the barrier exists", granted)
				}
				if w.keeps("bb") != nil {
					break
				}
			}
			if gone.IsZero() {
				t.Fatal("the barrier never goes")
			}
			if held := w.now.Sub(gone); held < time.Minute || held > 2*time.Minute {
				t.Errorf("quota returned %s after the barrier was gone, want the quarantine of a minute", held)
			}
			w.settle()
			w.expectGrants(map[string]any{"bb": "12"})
		})
	}
}

// Nothing of this removes machines, and the world fails when a Release is deleted.
func TestInfraBlueprintReturns(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 40), harvesterBlueprint(t),
		clusterBlueprint("aa", "team", "aa", pools(2)), clusterBlueprint("bb", "team", "bb", pools(1)))
	w.settle()
	before := map[id]object{release("aa"): w.objects[release("aa")], barrier("bb"): w.objects[barrier("bb")]}
	revision := at(w.objects[prod], "status", "ledger", "revision").(float64)

	w.delete(prod, false)
	w.rounds(3)
	for k, o := range before {
		if diff := cmp.Diff(o, w.objects[k]); diff != "" {
			t.Errorf("%v changes while there is no InfraBlueprint: -before, +after:\n%s", k, diff)
		}
	}
	again := infraBlueprint(t, 40)
	w.put(put(again, "another", "metadata", "uid"))
	w.settle()
	w.expectGrants(map[string]any{"aa": "12", "bb": "8"})
	if got := at(w.objects[prod], "status", "ledger", "revision").(float64); got < revision {
		t.Errorf("the revision goes back from %v to %v: an old offer would be taken for a new one", revision, got)
	}
	w.edit("aa", pools(3))
	w.settle()
	w.expectKeeps("aa", "16")
	w.expect(xr("aa"), "Ready", "True Available")
}

func TestLostClusterStatus(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.settle()
	want := at(w.objects[xr("aa")], "status", "quota")
	w.put(without(w.objects[xr("aa")], "status"))
	w.reconcile(xr("aa"))
	if diff := cmp.Diff(want, at(w.objects[xr("aa")], "status", "quota")); diff != "" {
		t.Errorf("the rebuilt record: -lost, +rebuilt:\n%s", diff)
	}
	w.settle()
	w.expectGrants(map[string]any{"aa": "12"})
	w.expect(xr("aa"), "Ready", "True Available")
}

// A restore that finds neither record nor Release, because somebody had deleted that, still knows what may exist.
func TestLostClusterStatusAndRelease(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.settle()
	want := at(w.objects[xr("aa")], "status", "quota")
	w.put(without(w.objects[xr("aa")], "status"))
	w.drop(release("aa"))
	w.edit("aa", pools(4))
	w.reconcile(xr("aa"))
	if diff := cmp.Diff(want, at(w.objects[xr("aa")], "status", "quota")); diff != "" {
		t.Errorf("the rebuilt record: -lost, +rebuilt:\n%s", diff)
	}
	w.settle()
	w.expectKeeps("aa", "20")
	w.expect(xr("aa"), "Ready", "True Available")
}

func TestLostInfraBlueprintStatus(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t),
		clusterBlueprint("aa", "team", "aa", pools(2)), clusterBlueprint("bb", "team", "bb", pools(2)))
	w.settle()
	// A cluster that is being deleted has no request: only Release and barrier say what it holds.
	w.rolling = 20
	w.delete(xr("aa"), false)
	w.put(without(w.objects[prod], "status"))
	w.reconcile(prod)
	w.expectGrants(map[string]any{"aa": "12"})
	w.rounds(3)
	if w.keeps("bb") != nil {
		t.Error("b is admitted while a is still being removed")
	}
	// Whether the provider had it nobody knows any more, so the longer quarantine applies.
	w.rolling = 2
	w.until(func() bool { return w.objects[barrier("aa")] == nil })
	w.rounds(1)
	w.tick(15 * time.Minute)
	w.settle()
	w.expectGrants(map[string]any{"bb": "12"})
}

// A run that dies anywhere between two writes leaves nothing that the next one does not finish.
func TestCrash(t *testing.T) {
	const composed = 9
	for after := range composed {
		w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
		died := 0
		w.crash = func(resources int) int {
			if died++; died%3 == 0 {
				return -1
			}
			return min(after, resources)
		}
		for range 12 {
			w.rounds(1)
			if got := w.committed(); got[ledger.CPU] > 20000 {
				t.Fatalf("crash after %d resources: %s are taken", after, got)
			}
		}
		w.crash = func(int) int { return -1 }
		w.settle()
		w.expectKeeps("aa", "12")
		w.expect(xr("aa"), "Ready", "True Available")
	}
}

// A spec that cannot be built is refused, and takes no quota from others.
func TestInvalidChange(t *testing.T) {
	odd := pools(2)
	odd[1].(object)["memory"] = "1500Mi"

	t.Run("Running", func(t *testing.T) {
		w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
		w.settle()
		before := w.objects[release("aa")]
		w.edit("aa", odd)
		w.settle()
		w.expect(xr("aa"), typeAdmitted, "False InvalidSpec")
		w.expect(xr("aa"), typeProvisioned, "True Provisioned")
		if got, want := w.message(xr("aa"), typeAdmitted), "spec.pools[1].memory"; !strings.Contains(got, want) {
			t.Errorf("the message does not name %s: %q", want, got)
		}
		if diff := cmp.Diff(before, w.objects[release("aa")]); diff != "" {
			t.Errorf("the Release changes: -before, +after:\n%s", diff)
		}
	})
	t.Run("Offered", func(t *testing.T) {
		w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
		w.until(func() bool { return w.grants()["aa"] != nil })
		if w.keeps("aa") != nil {
			t.Fatal("the offer was answered already")
		}
		w.edit("aa", odd)
		w.settle()
		w.expect(xr("aa"), typeAdmitted, "False InvalidSpec")
		w.put(clusterBlueprint("bb", "team", "bb", pools(4)))
		w.settle()
		w.expect(xr("bb"), typeAdmitted, "True Admitted")
	})
	t.Run("Composed", func(t *testing.T) {
		// The record was not written: the Release is there, paused.
		w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
		w.crash = func(resources int) int {
			if resources == composedOnHarvester {
				return resources
			}
			return -1
		}
		w.until(func() bool { return w.objects[release("aa")] != nil })
		w.crash = func(int) int { return -1 }
		if w.keeps("aa") != nil {
			t.Fatal("the record was written")
		}
		w.edit("aa", odd)
		w.settle()
		w.expect(xr("aa"), typeAdmitted, "False InvalidSpec")
		w.edit("aa", pools(2))
		w.settle()
		w.expect(xr("aa"), "Ready", "True Available")
	})
}

// A first reconcile that died between the Objects and the Release leaves the claim free to change its mind.
func TestPartlyComposed(t *testing.T) {
	for name, wanted := range map[string][]any{"Larger": pools(3), "Smaller": pools(1), "Same": pools(2)} {
		for applied, last := range map[int]id{1: barrier("aa"), 2: {"Object", "aa-csi"}} {
			t.Run(name+"/"+last.name, func(t *testing.T) {
				w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
				w.crash = func(resources int) int {
					if resources == composedOnHarvester {
						return applied
					}
					return -1
				}
				w.until(func() bool { return w.objects[last] != nil })
				if w.objects[release("aa")] != nil || w.keeps("aa") != nil {
					t.Fatal("Release or record exist")
				}
				w.edit("aa", wanted)
				w.reconcile(xr("aa"))
				w.crash = func(int) int { return -1 }
				w.settle()
				w.expect(xr("aa"), typeAdmitted, "True Admitted")
				w.expect(xr("aa"), "Ready", "True Available")
			})
		}
	}
}

// What a cluster on Harvester composes as soon as it is admitted.
const composedOnHarvester = 8

func TestBlueprintReturns(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.settle()
	before := maps.Clone(w.objects)
	w.drop(id{v1alpha1.KindHarvesterBlueprint, "fra1"})
	out := w.reconcile(xr("aa"))
	if got, want := fatalOf(out.rsp), "spec.providerRef.name"; !strings.Contains(got, want) {
		t.Errorf("the failure does not name %s: %q", want, got)
	}
	w.reconcile(prod)
	w.expect(prod, typeProviderReady, "False BlueprintNotFound")
	w.put(harvesterBlueprint(t))
	w.settle()
	for _, k := range []id{release("aa"), barrier("aa"), xr("aa")} {
		if diff := cmp.Diff(at(before[k], "spec"), at(w.objects[k], "spec")); diff != "" {
			t.Errorf("%v: -before, +after:\n%s", k, diff)
		}
	}
	w.expect(xr("aa"), "Ready", "True Available")
	w.expect(prod, typeProviderReady, "Unknown PreflightPending")
}

// A cluster that somebody removed at Rancher keeps its quota.
func TestClusterLost(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 20), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.settle()
	w.rancher["aa"].deleting, w.rancher["aa"].left = true, 1
	stays := w.objects[release("aa")]
	for range 3 {
		w.tick(5 * time.Second)
		delete(w.rancher, "aa") // provider-helm does not compare live objects.
		w.provideObject(id{"Object", "aa-observer"})
		w.provideObject(barrier("aa"))
		w.reconcile(xr("aa"))
	}
	w.expect(xr("aa"), typeProvisioned, "False ClusterLost")
	w.expect(xr("aa"), "Ready", "False Available")
	w.expectKeeps("aa", "12")
	if diff := cmp.Diff(at(stays, "spec"), at(w.objects[release("aa")], "spec")); diff != "" {
		t.Errorf("the Release changes: -before, +after:\n%s", diff)
	}
}

// names on other systems, by what they name.
func (w *world) names(cluster string) map[string]bool {
	out := map[string]bool{}
	secret := func(kind string, ref any) {
		if ref != nil {
			out[strings.Join([]string{kind, at(ref, "namespace").(string), at(ref, "name").(string)}, "/")] = true
		}
	}
	for _, k := range w.owned(xr(cluster)) {
		o := w.objects[k]
		switch k.kind {
		case "Release":
			out["release/"+at(o, "metadata", "annotations", v1alpha1.AnnotationExternalName).(string)] = true
		case "Object":
			manifest := at(o, "spec", "forProvider", "manifest")
			namespace, _ := at(manifest, "metadata", "namespace").(string)
			out[strings.Join([]string{at(manifest, "kind").(string), namespace, at(manifest, "metadata", "name").(string)}, "/")] = true
			secret("connection secret", at(o, "spec", "writeConnectionSecretToRef"))
		}
		out[k.kind+"//"+k.name] = true
	}
	return out
}

// Crossplane names a composite after its claim and a random suffix, which may itself look like one of our suffixes.
func TestNamesAreUnique(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 64), harvesterBlueprint(t),
		clusterBlueprint("dev-x7k2p", "team-a", "dev", pools(1)), clusterBlueprint("dev-q9r4s", "team-b", "dev", pools(1)),
		clusterBlueprint("dev", "team-c", "dev", pools(1)), clusterBlueprint("dev-barrier", "team-c", "dev-barrier", pools(1)),
		clusterBlueprint("dev-token", "team-c", "dev-token", pools(1)))
	w.settle()
	taken := map[string]string{}
	for _, k := range w.composites() {
		if k.kind != v1alpha1.KindXClusterBlueprint {
			continue
		}
		w.expect(k, "Ready", "True Available")
		names := w.names(k.name)
		if len(names) < composedOnHarvester {
			t.Errorf("%v: only %v", k, slices.Sorted(maps.Keys(names)))
		}
		for name := range names {
			if other, ok := taken[name]; ok {
				t.Errorf("%v and %s both name %s", k, other, name)
			}
			taken[name] = k.name
		}
	}
}

// Schedules of stale caches, lost status writes, crashes, edits and deletions never take more than the quota, and end
// with everybody admitted who fits.
func TestSchedules(t *testing.T) {
	seeds, steps := uint64(5), 150
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t, infraBlueprint(t, 36), harvesterBlueprint(t))
		w.rolling = 1 + rnd.IntN(4)
		quota, created := 36, 0
		// Caches lag four ticks of two seconds at most: less than the settle delay.
		w.lag = func(string) int { return max(0, rnd.IntN(8)-3) }
		w.crash = func(resources int) int {
			if rnd.IntN(5) == 0 {
				return rnd.IntN(resources + 1)
			}
			return -1
		}
		wanted := func() []any {
			out := pools(1 + rnd.IntN(4))
			if rnd.IntN(3) == 0 {
				out[1].(object)["name"] = "batch"
			}
			if rnd.IntN(4) == 0 {
				out[1].(object)["cpu"] = "8"
			}
			return out
		}
		for step := range steps {
			all := w.composites()
			k := all[rnd.IntN(len(all))]
			switch n := rnd.IntN(40); {
			case n < 3 && created < 7:
				name := "c" + string(rune('a'+created))
				created++
				w.put(clusterBlueprint(name, "team", name, wanted()))
			case n < 6 && k.kind == v1alpha1.KindXClusterBlueprint && at(w.objects[k], "metadata", "deletionTimestamp") == nil:
				w.edit(k.name, wanted())
			case n == 6 && k.kind == v1alpha1.KindXClusterBlueprint && at(w.objects[k], "metadata", "deletionTimestamp") == nil:
				w.delete(k, rnd.IntN(2) == 0)
			case n == 7 && quota < 48:
				quota += 4
				w.put(put(w.objects[prod], quantity(quota), "spec", "quota", "cpu"))
			default:
				w.reconcile(k)
				if rnd.IntN(2) == 0 {
					w.tick(2 * time.Second)
				}
			}
			if got := w.committed(); got[ledger.CPU] > int64(quota)*1000 {
				t.Fatalf("seed %d, step %d: %s are taken of %d cpu", seed, step, got, quota)
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		// Without disturbances everything comes to rest, also what is held for clusters that are gone, and nobody waits
		// who fits into what is left.
		w.lag, w.crash = func(string) int { return 0 }, func(int) int { return -1 }
		w.settle()
		w.tick(15 * time.Minute)
		w.settle()
		taken := w.committed()[ledger.CPU]
		if taken > int64(quota)*1000 {
			t.Errorf("seed %d: %d milli-cpus are taken of %d cpu", seed, taken, quota)
		}
		for _, k := range w.composites() {
			if k.kind != v1alpha1.KindXClusterBlueprint {
				continue
			}
			asks := readRequest(structOfObject(t, w.objects[id{environmentConfig.kind, requestName(k.name)}]))
			switch more := asks.Need[ledger.CPU] - asks.Keeps[ledger.CPU]; w.condition(k, typeAdmitted) {
			case "True Admitted":
			case "False QuotaExceeded":
				if more <= int64(quota)*1000-taken {
					t.Errorf("seed %d: %v waits for %d milli-cpus, and %d are taken of %d cpu", seed, k, more, taken, quota)
				}
			default:
				t.Errorf("seed %d: %v is left %s: %s", seed, k, w.condition(k, typeAdmitted), w.message(k, typeAdmitted))
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func quantity(cpus int) string { return ledger.CPU.Format(int64(cpus) * 1000) }
