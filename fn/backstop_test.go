package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
)

const quotaAnnotation = "field.cattle.io/resourceQuota"

var ns = id{"Namespace", "rig"} //nolint:gochecknoglobals // A constant that Go cannot express as one.

// provideLimit is provider-kubernetes at Harvester: it applies on the server side, and only what its policies allow.
func (w *world) provideLimit(k id) {
	o := w.objects[k]
	manifest := at(o, "spec", "forProvider", "manifest").(object)
	policies, _ := at(o, "spec", "managementPolicies").([]any)
	may := func(policy string) bool { return slices.Contains(policies, any(policy)) }
	thing := id{manifest["kind"].(string), at(manifest, "metadata", "name").(string)}
	live, exists := w.limited[thing]
	if at(o, "metadata", "deletionTimestamp") != nil {
		if may("Delete") {
			delete(w.limited, thing)
		}
		w.drop(k)
		return
	}
	failure := ""
	switch uid := at(manifest, "metadata", "uid"); {
	case !exists && may("Create"):
		w.limited[thing] = manifest
	case !exists && may("Update") && uid == nil:
		w.t.Errorf("%v: the apply makes %v, which is not there", k, thing)
	case !exists && may("Update"):
		failure = "uid mismatch: the provided object specified uid, and no existing object was found"
	case !exists:
		failure = "observe failed: external resource does not exist"
	case may("Update"):
		live = without(live, "metadata", "annotations", v1alpha1.AnnotationBackstop) // What it applied before, and may no more.
		applied, _ := at(manifest, "metadata", "annotations").(object)
		for name, value := range applied {
			live = put(live, value, "metadata", "annotations", name)
		}
		if spec := manifest["spec"]; spec != nil {
			live = put(live, spec, "spec")
		}
		w.limited[thing] = live
	}
	o = put(o, []any{"finalizer.managedresource.crossplane.io"}, "metadata", "finalizers")
	status := object{"conditions": []any{object{"type": "Synced", "status": "False", "reason": "ReconcileError", "message": failure}}}
	if failure == "" {
		status = object{"conditions": ready("Ready", "Synced"), "atProvider": object{"manifest": w.limited[thing]}}
	} else if seen := at(o, "status", "atProvider"); seen != nil {
		status["atProvider"] = seen
	}
	w.put(put(o, status, "status"))
}

// backstops that an InfraBlueprint composes, without their status.
func (w *world) backstops() map[string]object {
	out := map[string]object{}
	for _, k := range w.owned(prod) {
		if name := at(w.objects[k], "metadata", "annotations", v1alpha1.AnnotationComposedName).(string); strings.HasPrefix(name, strategies.BackstopPrefix) {
			out[name] = without(without(w.objects[k], "status"), "metadata", "resourceVersion")
		}
	}
	return out
}

// namespace of Harvester, which holds other things as well.
func namespace(annotations object) object {
	all := object{"team": "platform"}
	maps.Copy(all, annotations)
	return object{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": object{"name": "rig", "uid": "uid-rig", "annotations": all, "labels": object{"keep": "me"}},
	}
}

// backstopped world with a cluster, whose InfraBlueprint wants a backstop.
func backstopped(t testing.TB, backstop object, annotations object) *world {
	t.Helper()
	w := newWorld(t, put(infraBlueprint(t, 64), backstop, "spec", "backstop"), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.limited[ns] = namespace(annotations)
	w.settle()
	w.expect(xr("aa"), typeProvisioned, "True Provisioned")
	return w
}

func (w *world) expectBackstop(want, message string) {
	w.t.Helper()
	if got := w.condition(prod, typeBackstop); got != want {
		w.t.Errorf("condition Backstop: got %s: %s, want %s", got, w.message(prod, typeBackstop), want)
	}
	if got := w.message(prod, typeBackstop); !strings.Contains(got, message) {
		w.t.Errorf("message of condition Backstop: got %q, want %q", got, message)
	}
}

// A backstop limits the namespace, follows the quota and not the use, and leaves no limit behind when it is turned off.
func TestBackstop(t *testing.T) {
	w := backstopped(t, object{}, nil)
	w.expectBackstop("True BackstopEnforced", "")
	// Three machines of a surge and one that migrates, of 4 cpus and 8646 MiB; the logs of 68 machines.
	want := object{
		"limit": object{"cpu": "81020m", "memory": "4232779Mi"}, "headroom": object{"cpu": "17020m", "memory": "38475Mi"},
	}
	if diff := cmp.Diff(want, at(w.objects[prod], "status", "backstop")); diff != "" {
		t.Errorf("status.backstop: -want, +got:\n%s", diff)
	}
	limited := namespace(object{
		quotaAnnotation:             `{"limit":{"limitsCpu":"81020m","limitsMemory":"4232779Mi"}}`,
		v1alpha1.AnnotationBackstop: `{"infraBlueprint":"prod","limit":{"limitsCpu":"81020m","limitsMemory":"4232779Mi"}}`,
	})
	if diff := cmp.Diff(limited, w.limited[ns]); diff != "" {
		t.Errorf("namespace: -want, +got:\n%s", diff)
	}
	quota := id{"ResourceQuota", "rig-prod"}
	if diff := cmp.Diff(object{"limits.cpu": "81020m", "limits.memory": "4232779Mi"}, at(w.limited[quota], "spec", "hard")); diff != "" {
		t.Errorf("ResourceQuota: -want, +got:\n%s", diff)
	}

	composed := w.backstops()
	w.put(clusterBlueprint("bb", "team", "bb", pools(2)))
	w.settle()
	w.expect(xr("bb"), typeAdmitted, "True Admitted")
	if diff := cmp.Diff(composed, w.backstops()); diff != "" {
		t.Errorf("backstop after another cluster was admitted: -before, +after:\n%s", diff)
	}

	w.put(without(w.objects[prod], "spec", "backstop"))
	w.settle()
	w.expectBackstop("False BackstopDisabled", "")
	if diff := cmp.Diff(namespace(object{quotaAnnotation: `{"limit":{}}`}), w.limited[ns]); diff != "" {
		t.Errorf("namespace without a backstop: -want, +got:\n%s", diff)
	}
	if _, exists := w.limited[quota]; exists {
		t.Error("the ResourceQuota is left behind")
	}
	if diff := cmp.Diff(map[string]object{}, w.backstops()); diff != "" {
		t.Errorf("what is composed without a backstop: -want, +got:\n%s", diff)
	}
	if got := at(w.objects[prod], "status", "backstop"); got != nil {
		t.Errorf("status.backstop without a backstop: %v", got)
	}
}

// A larger machine needs more headroom.
func TestBackstopFollowsTheLargestMachine(t *testing.T) {
	w := backstopped(t, object{}, nil)
	large := pools(1)
	large[1] = put(large[1].(object), "8", "cpu")
	w.put(clusterBlueprint("bb", "team", "bb", large))
	w.settle()
	w.expectBackstop("True BackstopEnforced", "")
	if got := at(w.objects[prod], "status", "backstop", "limit", "cpu"); got != "97020m" {
		t.Errorf("limit: got %v cpu, want 64 and four of 8 and the logs", got)
	}
}

// Whatever is wrong with a backstop, clusters are admitted, the InfraBlueprint is ready, and what limits already stays.
func TestBackstopRefusals(t *testing.T) {
	const low = `spec.backstop.limit.cpu: Invalid value: "20": 24 is reserved, and machines need 17020m of headroom: use at least 41020m`
	spec := func(backstop object) func(*world) {
		return func(w *world) { w.put(put(w.objects[prod], backstop, "spec", "backstop")) }
	}
	cases := map[string]struct {
		reason  string
		change  func(*world)
		waits   bool // New clusters wait, for what is wrong is not the backstop alone.
		want    string
		message string
	}{
		"TooLow": {
			reason: "A limit below what is reserved and the headroom would stop what was admitted.", change: spec(object{"limit": object{"cpu": "20"}}),
			want: "False BackstopTooLow", message: low,
		},
		"Wrong": {
			reason: "What cannot be read is named.", change: spec(object{"volumes": object{"count": 1.0, "disk": "many"}}),
			want: "False InvalidSpec", message: "spec.backstop.volumes.disk: Invalid value",
		},
		"NoProviderConfig": {
			reason: "Nobody reaches Harvester any more.", waits: true,
			change: func(w *world) {
				w.put(without(w.objects[prod], "spec", "credentials", "infrastructureProviderConfigRef"))
			},
			want: "False InvalidSpec", message: "spec.credentials.infrastructureProviderConfigRef: Required value",
		},
		"NoBlueprint": {
			reason: "What cannot be read says nothing of the namespace.", waits: true,
			change: func(w *world) { w.drop(id{v1alpha1.KindHarvesterBlueprint, "fra1"}) },
			want:   "False BlueprintNotFound", message: "see ProviderReady",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := backstopped(t, object{}, nil)
			composed, live, shown := w.backstops(), maps.Clone(w.limited), at(w.objects[prod], "status", "backstop")
			tc.change(w)
			w.put(clusterBlueprint("bb", "team", "bb", pools(2)))
			w.rounds(6)
			w.expectBackstop(tc.want, tc.message)
			if diff := cmp.Diff(composed, w.backstops()); diff != "" {
				t.Errorf("%s\nwhat is composed: -before, +after:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(live, w.limited); diff != "" {
				t.Errorf("%s\nwhat is limited: -before, +after:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(shown, at(w.objects[prod], "status", "backstop")); diff != "" {
				t.Errorf("%s\nstatus.backstop: -before, +after:\n%s", tc.reason, diff)
			}
			w.expect(prod, "Ready", "True Available")
			w.expect(prod, typeWithinQuota, "True WithinQuota")
			if grants, _ := at(w.objects[prod], "status", "ledger", "grants").([]any); len(grants) == 0 {
				t.Errorf("%s\nthe ledger lost its grants", tc.reason)
			}
			if !tc.waits {
				w.expect(xr("bb"), typeAdmitted, "True Admitted")
			}
		})
	}
}

// A backstop that was refused from the beginning makes nothing, and one that the provider does not hold says so.
func TestBackstopNotEnforced(t *testing.T) {
	rancher := `{"Conditions":[{"Type":"ResourceQuotaInit","Status":"True"}]}`
	cases := map[string]struct {
		reason  string
		world   func(testing.TB) *world
		want    string
		message string
	}{
		"TooLow": {
			reason: "Nothing is limited.", want: "False BackstopTooLow", message: "spec.backstop.limit.memory",
			world: func(t testing.TB) *world {
				t.Helper()
				return backstopped(t, object{"limit": object{"memory": "1Gi"}}, nil)
			},
		},
		"Rancher": {
			reason: "Rancher enforces an annotation in a project with a quota only.", want: "False BackstopNotEnforced", message: "put the namespace into a project of Rancher",
			world: func(t testing.TB) *world {
				t.Helper()
				return backstopped(t, object{}, object{"cattle.io/status": rancher})
			},
		},
		"Shared": {
			reason: "Another InfraBlueprint limits the namespace.", want: "False BackstopNotEnforced", message: `InfraBlueprint "test" limits it already`,
			world: func(t testing.TB) *world {
				t.Helper()
				return backstopped(t, object{}, object{v1alpha1.AnnotationBackstop: `{"infraBlueprint":"test","limit":{"limitsCpu":"4"}}`})
			},
		},
		"NoNamespace": {
			reason: "A namespace is never made.", want: "False BackstopNotEnforced", message: "external resource does not exist",
			world: func(t testing.TB) *world {
				t.Helper()
				w := newWorld(t, put(infraBlueprint(t, 64), object{}, "spec", "backstop"), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
				w.settle()
				return w
			},
		},
		"AWS": {
			reason: "Nothing limits an account of AWS.", want: "False BackstopUnsupported", message: "spec.backstop: Forbidden: the function limits nothing at a provider of kind AwsBlueprint",
			world: func(t testing.TB) *world {
				t.Helper()
				w := newWorld(t, put(infraOf(t, "AwsBlueprint"), object{}, "spec", "backstop"), awsBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
				w.rounds(6)
				return w
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := tc.world(t)
			w.expectBackstop(tc.want, tc.message)
			w.expect(prod, "Ready", "True Available")
			w.expect(xr("aa"), typeAdmitted, "True Admitted")
			if live, exists := w.limited[id{"ResourceQuota", "rig-prod"}]; exists && name != "Rancher" {
				t.Errorf("%s\nthere is a ResourceQuota: %v", tc.reason, live)
			}
		})
	}
}

// A namespace that is removed while it is limited is not made again, and what was limited in it can be given up.
func TestBackstopOfARemovedNamespace(t *testing.T) {
	w := backstopped(t, object{}, nil)
	w.limited = map[id]object{}
	w.rounds(3)
	w.expectBackstop("False BackstopNotEnforced", `namespace "rig": `)
	w.put(without(w.objects[prod], "spec", "backstop"))
	w.rounds(4)
	if _, made := w.limited[ns]; made || len(w.backstops()) > 0 {
		t.Errorf("namespaces %v, composed %v", w.limited, w.backstops())
	}
}

// The resource pool at the blueprint's path is limited, and let go without limits.
func TestBackstopOfVsphere(t *testing.T) {
	blueprint := put(vsphereBlueprint(t), "resgroup-2", "spec", "resourcePool", "grandparentID")
	w := newWorld(t, put(infraOf(t, "VsphereBlueprint"), object{"surgeMachines": 2.0}, "spec", "backstop"), blueprint, clusterBlueprint("aa", "team", "aa", pools(2)))
	w.rounds(6)
	w.expectBackstop("Unknown BackstopPending", "limiting resource pool /fra1/host/c1/Resources/rig")
	names := slices.Collect(maps.Keys(w.backstops()))
	if len(names) != 1 {
		t.Fatalf("composed: %v", names)
	}
	k := id{"VSphereResourcePool", "rig-prod-" + names[0]}
	limits := func(want object) {
		t.Helper()
		got := at(w.objects[k], "spec", "forProvider").(object)
		if diff := cmp.Diff(want, object{"cpuLimit": got["cpuLimit"], "memoryLimit": got["memoryLimit"]}); diff != "" {
			t.Errorf("limits: -want, +got:\n%s", diff)
		}
		w.put(put(w.objects[k], object{"conditions": ready("Ready", "Synced"), "atProvider": got}, "status"))
		w.rounds(2)
	}
	// 64 cpus and two of 4, each of 2600 MHz; 4 TiB and two of 8 GiB, in MB.
	limits(object{"cpuLimit": 187200.0, "memoryLimit": 4210688.0})
	w.expectBackstop("True BackstopEnforced", "")
	w.put(without(w.objects[prod], "spec", "backstop"))
	w.rounds(2)
	w.expectBackstop("False BackstopDisabled", "is being taken back")
	limits(object{"cpuLimit": -1.0, "memoryLimit": -1.0})
	w.expectBackstop("False BackstopDisabled", "")
	if got := w.backstops(); len(got) != 0 {
		t.Errorf("composed: %v", got)
	}
}
