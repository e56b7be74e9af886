package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
)

// typesOf the conditions of each kind.
func typesOf(kind string) []string {
	switch kind {
	case v1alpha1.KindXClusterBlueprint, v1alpha1.KindClusterBlueprint:
		return []string{typeAdmitted, typeProvisioned}
	case v1alpha1.KindInfraBlueprint:
		return []string{typeBackstop, typeProviderReady, typeReleaseStuck, typeWithinQuota}
	}
	return []string{typeProviderReady}
}

// checkDecided says what is wrong with the final response to a request, whatever it decided.
func checkDecided(t testing.TB, req *fnv1.RunFunctionRequest, rsp *fnv1.RunFunctionResponse) {
	t.Helper()
	seen := req.GetObserved().GetComposite().GetResource()
	var types []string
	for _, c := range rsp.GetConditions() {
		types = append(types, c.GetType())
		if c.GetTarget() != fnv1.Target_TARGET_COMPOSITE_AND_CLAIM {
			t.Errorf("condition %s is for %s only", c.GetType(), c.GetTarget())
		}
		if c.GetReason() == "" {
			t.Errorf("condition %s has no reason", c.GetType())
		}
	}
	slices.Sort(types)
	if diff := cmp.Diff(typesOf(text(seen, "kind")), types); diff != "" {
		t.Errorf("condition types of %s %s: -want, +got:\n%s", text(seen, "kind"), text(seen, "metadata", "name"), diff)
	}
	for _, r := range rsp.GetResults() {
		if r.GetSeverity() != fnv1.Severity_SEVERITY_FATAL {
			t.Errorf("a result makes an event of every run: %s", r.GetMessage())
		}
	}
	if fatalOf(rsp) != "" {
		if len(req.GetObserved().GetResources()) == 0 {
			t.Errorf("a fatal run is not woken by what it requires: %s", fatalOf(rsp))
		}
		return
	}
	for name := range req.GetObserved().GetResources() {
		if rsp.GetDesired().GetResources()[name] == nil && !mayGo(name, rsp) {
			t.Errorf("a successful response omits %q, so Crossplane deletes it", name)
		}
	}
	desired := rsp.GetDesired().GetComposite().GetResource()
	if got, want := text(desired, "metadata", "resourceVersion"), text(seen, "metadata", "resourceVersion"); got != want {
		t.Errorf("the status is not written by compare-and-swap: resourceVersion %q, want %q", got, want)
	}
	for _, record := range []string{"quota", "ledger"} {
		if value(seen, "status", record) != nil && value(desired, "status", record) == nil {
			t.Errorf("status.%s is dropped", record)
		}
	}
	if rsp.GetMeta().GetTtl().AsDuration() <= 0 {
		t.Error("no TTL: nothing runs the composite again")
	}
}

// stages of a world in which something goes wrong: nothing was composed yet; everything runs; and what was composed is
// gone while the status is still there.
func stages() map[string]func(t testing.TB) *world {
	start := func(t testing.TB) *world {
		t.Helper()
		return newWorld(t, infraBlueprint(t, 64), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	}
	return map[string]func(t testing.TB) *world{
		"Fresh": start,
		"Running": func(t testing.TB) *world {
			t.Helper()
			w := start(t)
			w.settle()
			return w
		},
		"Emptied": func(t testing.TB) *world {
			t.Helper()
			w := start(t)
			w.settle()
			for _, k := range w.composites() {
				for _, composed := range w.owned(k) {
					w.drop(composed)
				}
			}
			return w
		},
	}
}

// editing puts a value into an object.
func editing(k id, v any, path ...string) func(*world) {
	return func(w *world) { w.put(put(w.objects[k], v, path...)) }
}

// editingInfra changes the spec of the InfraBlueprint and, where there are some, its terms.
func editingInfra(v any, path ...string) func(*world) {
	return func(w *world) {
		w.put(put(w.objects[prod], v, append([]string{"spec"}, path...)...))
		terms := id{environmentConfig.kind, "rig-terms-prod"}
		if o, ok := w.objects[terms]; ok {
			w.put(put(o, v, append([]string{"data", "spec"}, path...)...))
		}
	}
}

// renamed lets the composite have another name.
func renamed(to string) func(*world) {
	return func(w *world) {
		o := w.objects[xr("aa")]
		w.drop(xr("aa"))
		w.put(put(o, to, "metadata", "name"))
		for k, owner := range w.owners {
			if owner == xr("aa") {
				w.owners[k] = xr(to)
			}
		}
	}
}

// mailboxed changes a mailbox, which is made where there is none.
func mailboxed(name string, v any, path ...string) func(*world) {
	return func(w *world) {
		k := id{environmentConfig.kind, name}
		if w.objects[k] == nil {
			w.put(object{
				"apiVersion": environmentConfig.apiVersion, "kind": environmentConfig.kind,
				"metadata": object{"name": name, "labels": object{v1alpha1.LabelInfraBlueprint: "prod", v1alpha1.LabelMailbox: v1alpha1.MailboxPage}},
				"data":     object{"infraBlueprint": "uid-prod"},
			})
		}
		editing(k, v, path...)(w)
	}
}

// both, or more, edits in their order.
func both(edits ...func(*world)) func(*world) {
	return func(w *world) {
		for _, edit := range edits {
			edit(w)
		}
	}
}

// TestRefusals: what cannot be decided is said with its field path. Where nothing is composed the run succeeds, so that
// Crossplane wakes it when what it requires changes; where something is, it is fatal and changes nothing.
func TestRefusals(t *testing.T) {
	blueprint := id{v1alpha1.KindHarvesterBlueprint, "fra1"}
	page := numberedPage("prod", pageOf("aa"))
	noTerms := func(w *world) { w.drop(id{environmentConfig.kind, "rig-terms-prod"}) }
	lost := func(w *world) { w.put(without(w.objects[xr("aa")], "status")) }

	cases := map[string]struct {
		reason string
		xr     id
		change func(*world)
		// only in these stages; in all when empty.
		only []string
		// path that the message names.
		path string
		want map[string]string
	}{
		"InfraBlueprintMissing": {
			reason: "The claim names an InfraBlueprint that does not exist.",
			xr:     xr("aa"), change: both(noTerms, func(w *world) { w.drop(prod) }), path: "spec.infraBlueprintRef.name",
			want: map[string]string{typeAdmitted: "False InfraBlueprintNotFound"},
		},
		"NoReference": {
			reason: "A claim without a reference was not checked by an API server.",
			xr:     xr("aa"), change: editing(xr("aa"), object{}, "spec", "infraBlueprintRef"), path: "spec.infraBlueprintRef.name",
			want: map[string]string{typeAdmitted: "False InvalidSpec"},
		},
		"UnreadableSpec": {
			reason: "A field of another type is named.",
			xr:     xr("aa"), change: editing(xr("aa"), "many", "spec", "pools"), path: "spec", want: map[string]string{typeAdmitted: "False InvalidSpec"},
		},
		"UnknownProvider": {
			reason: "No strategy builds this kind.",
			xr:     xr("aa"), change: editingInfra("NowhereBlueprint", "providerRef", "kind"), path: "spec.providerRef.kind",
			want: map[string]string{typeAdmitted: "False AwaitingAdmission", typeProvisioned: "False ProviderNotReady"},
		},
		"BlueprintMissing": {
			reason: "The InfraBlueprint names a blueprint that does not exist.",
			xr:     xr("aa"), change: func(w *world) { w.drop(blueprint) }, path: "spec.providerRef.name",
			want: map[string]string{typeProvisioned: "False ProviderNotReady"},
		},
		"BlueprintUnreadable": {
			reason: "A blueprint with a field of another type cannot be used.",
			xr:     xr("aa"), change: editing(blueprint, "vlan10", "spec", "networks"), path: "spec.networks",
			want: map[string]string{typeProvisioned: "False ProviderNotReady"},
		},
		"BlueprintQuantity": {
			reason: "A default size that is no quantity is the blueprint's fault.",
			xr:     xr("aa"), change: editing(blueprint, "8 GiB", "spec", "nodeDefaults", "memory"), path: "spec.nodeDefaults.memory",
			want: map[string]string{typeProvisioned: "False ProviderNotReady"},
		},
		"Quota": {
			reason: "A quota that cannot be read limits nothing, so nothing is decided.",
			xr:     xr("aa"), change: editingInfra("lots", "quota", "cpu"), path: "spec.quota.cpu",
			want: map[string]string{typeAdmitted: "False AwaitingAdmission"},
		},
		"Record": {
			reason: "A record that cannot be read is not overwritten.",
			xr:     xr("aa"), change: editing(xr("aa"), "twelve", "status", "quota", "keeps", "cpu"), path: "status.quota.keeps.cpu",
			want: map[string]string{typeAdmitted: "False InvalidSpec"},
		},
		"RecordType": {
			reason: "A record of another type is not overwritten.",
			xr:     xr("aa"), change: editing(xr("aa"), "twelve", "status", "quota"), path: "status.quota",
			want: map[string]string{typeAdmitted: "False InvalidSpec"},
		},
		"Terms": {
			reason: "Terms without a spec say nothing.",
			xr:     xr("aa"), change: mailboxed("rig-terms-prod", "text", "data", "spec"), path: "data.spec",
			want: map[string]string{typeAdmitted: "False AwaitingAdmission"},
		},
		"Page": {
			reason: "A page with an amount that is no quantity offers nothing.",
			xr:     xr("aa"), change: mailboxed(page, object{"aa": object{"amount": object{"cpu": "much"}, "revision": 1.0}}, "data", "offers"), only: []string{"Running"},
			path: "data.offers.aa.amount.cpu", want: map[string]string{typeAdmitted: "False AwaitingAdmission"},
		},
		"Ledger": {
			reason: "Without terms the ledger itself is read.",
			xr:     xr("aa"), change: both(noTerms, editing(prod, []any{object{"cluster": "aa", "amount": object{"cpu": "much"}}}, "status", "ledger", "grants")),
			path: "status.ledger.grants[0].amount.cpu", want: map[string]string{typeAdmitted: "False AwaitingAdmission"},
		},
		"LostRecordAndAnnotation": {
			reason: "Neither the record nor the Release says what is held.",
			xr:     xr("aa"), change: both(lost, func(w *world) {
				w.put(without(w.objects[release("aa")], "metadata", "annotations", v1alpha1.AnnotationQuota))
			}), only: []string{"Running"},
			path: "metadata.annotations[rig-gateway.io/quota]", want: map[string]string{typeAdmitted: "False AwaitingAdmission"},
		},
		"LongName": {
			reason: "Rancher takes 63 characters.",
			xr:     xr(strings.Repeat("a", 64)), change: renamed(strings.Repeat("a", 64)), path: "metadata.name",
			want: map[string]string{typeAdmitted: "False InvalidSpec"},
		},
		"DottedName": {
			reason: "Fleet takes no dots.",
			xr:     xr("aa.bb"), change: renamed("aa.bb"), path: "metadata.name", want: map[string]string{typeAdmitted: "False InvalidSpec"},
		},
		"LocalName": {
			reason: "local is Rancher's own cluster.",
			xr:     xr("local"), change: renamed("local"), path: "metadata.name", want: map[string]string{typeAdmitted: "False InvalidSpec"},
		},
		"ManagementName": {
			reason: "Rancher gives such names itself.",
			xr:     xr("c-x7k2p"), change: renamed("c-x7k2p"), path: "metadata.name", want: map[string]string{typeAdmitted: "False InvalidSpec"},
		},
		"ClusterDefaults": {
			reason: "Pools of an InfraBlueprint would be machines that nobody accounts for.",
			xr:     xr("aa"), change: editingInfra(object{"pools": object{"more": object{"quantity": 5.0}}}, "clusterDefaults"), path: "spec.clusterDefaults.pools",
			want: map[string]string{typeAdmitted: "False AwaitingAdmission", typeProvisioned: "False ProvisioningFailed"}, only: []string{"Running"},
		},
		"UnknownValue": {
			reason: "A value that the chart does not know is named with its path.",
			xr:     xr("aa"), change: editingInfra(object{"cluster": object{"etcd": object{"snapshotEvery": "5h"}}}, "clusterDefaults"), path: "snapshotEvery",
			want: map[string]string{typeAdmitted: "False AwaitingAdmission", typeProvisioned: "False ProvisioningFailed"}, only: []string{"Running"},
		},
		"NoChart": {
			reason: "Nobody says where the chart comes from.",
			xr:     xr("aa"), change: editingInfra(object{}, "chart"), path: "spec.chart.repository",
			want: map[string]string{typeProvisioned: "False ProvisioningFailed"}, only: []string{"Running"},
		},
		"NoInfrastructureProviderConfig": {
			reason: "The strategy cannot reach Harvester.",
			xr:     xr("aa"), change: func(w *world) {
				editingInfra(nil, "credentials", "infrastructureProviderConfigRef")(w)
			}, path: "spec.credentials.infrastructureProviderConfigRef",
			want: map[string]string{typeProvisioned: "False ProvisioningFailed"}, only: []string{"Running"},
		},
		"AccountantQuota": {
			reason: "A quota that cannot be read limits nothing.",
			xr:     prod, change: editing(prod, "lots", "spec", "quota", "memory"), path: "spec.quota.memory",
			want: map[string]string{typeWithinQuota: "Unknown InvalidSpec"},
		},
		"AccountantNegativeQuota": {
			reason: "A quota is not negative.",
			xr:     prod, change: editing(prod, -1.0, "spec", "quota", "nodes"), path: "spec.quota.nodes",
			want: map[string]string{typeWithinQuota: "Unknown InvalidSpec"},
		},
		"AccountantCredentials": {
			reason: "Without a ProviderConfig nothing can be built.",
			xr:     prod, change: editing(prod, object{}, "spec", "credentials", "rancherProviderConfigRef"), path: "spec.credentials.rancherProviderConfigRef.name",
			want: map[string]string{typeWithinQuota: "Unknown InvalidSpec", typeProviderReady: "Unknown InvalidSpec"},
		},
		"AccountantLedger": {
			reason: "A ledger that cannot be read is not overwritten.",
			xr:     prod, change: editing(prod, []any{object{"cluster": "aa", "amount": object{"memory": "much"}}}, "status", "ledger", "grants"),
			path: "status.ledger.grants[0].amount.memory", want: map[string]string{typeWithinQuota: "Unknown InvalidSpec"},
		},
		"AccountantLedgerType": {
			reason: "A ledger of another type is not overwritten.",
			xr:     prod, change: editing(prod, "none", "status", "ledger"), path: "status.ledger",
			want: map[string]string{typeWithinQuota: "Unknown InvalidSpec"},
		},
		"SeedPage": {
			reason: "A page that cannot be read may hold an offer that somebody is about to use.",
			xr:     prod, change: both(
				mailboxed("rig-page-0-prod", object{"aa": object{"amount": object{"cpu": "much"}}}, "data", "offers"),
				func(w *world) { w.put(without(w.objects[prod], "status")) },
			),
			path: "data.offers.aa.amount.cpu", want: map[string]string{typeWithinQuota: "Unknown InvalidSpec"},
		},
		"SeedRelease": {
			reason: "A Release that is silent about its size holds an unknown amount.",
			xr:     prod, change: both(
				func(w *world) { w.drop(id{environmentConfig.kind, "rig-request-aa"}) },
				func(w *world) { w.put(without(w.objects[prod], "status")) },
				func(w *world) {
					w.put(without(w.objects[release("aa")], "metadata", "annotations", v1alpha1.AnnotationHolds))
				},
			), only: []string{"Running"},
			path: "metadata.annotations[rig-gateway.io/holds]", want: map[string]string{typeWithinQuota: "Unknown InvalidSpec"},
		},
		"PreflightUnreadable": {
			reason: "A blueprint that cannot be read is not ready.",
			xr:     blueprint, change: editing(blueprint, []any{}, "spec", "image"), path: "image",
			want: map[string]string{typeProviderReady: "False InvalidSpec"},
		},
		"PreflightInvalid": {
			reason: "A blueprint that cannot be built with is not ready.",
			xr:     blueprint, change: editing(blueprint, "http://10.0.0.10", "spec", "endpoint"), path: "spec.endpoint",
			want: map[string]string{typeProviderReady: "False InvalidSpec"},
		},
	}
	worlds := map[string]*world{}
	for stage, start := range stages() {
		worlds[stage] = start(t)
	}
	for name, tc := range cases {
		for stage, start := range worlds {
			if len(tc.only) > 0 && !slices.Contains(tc.only, stage) {
				continue
			}
			t.Run(name+"/"+stage, func(t *testing.T) {
				w := start.clone(t)
				tc.change(w)
				before := w.objects[tc.xr]
				req, out := w.call(tc.xr)
				checkDecided(t, req, out.rsp)

				got := map[string]string{}
				for conditionType := range tc.want {
					status, _, _ := strings.Cut(conditionsOf(out.rsp)[conditionType], ":")
					got[conditionType] = status
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("%s\nconditions: -want, +got:\n%s\nall: %v", tc.reason, diff, conditionsOf(out.rsp))
				}
				named := false
				for _, message := range conditionsOf(out.rsp) {
					named = named || strings.Contains(message, tc.path)
				}
				if !named {
					t.Errorf("%s\nno condition names %s: %v", tc.reason, tc.path, conditionsOf(out.rsp))
				}

				failure := fatalOf(out.rsp)
				if composed := len(req.GetObserved().GetResources()) > 0; composed {
					if !strings.Contains(failure, tc.path) {
						t.Errorf("%s\nwith something composed the run must be fatal and name %s: %q", tc.reason, tc.path, failure)
					}
					return
				}
				if failure != "" {
					t.Errorf("%s\nwith nothing composed the run must succeed: %s", tc.reason, failure)
				}
				if n := len(out.rsp.GetDesired().GetResources()); n > 0 {
					t.Errorf("%s\n%d resources are composed", tc.reason, n)
				}
				if out.rsp.GetDesired().GetComposite().GetReady() == fnv1.Ready_READY_TRUE {
					t.Errorf("%s\nthe composite is ready", tc.reason)
				}
				status := value(out.rsp.GetDesired().GetComposite().GetResource(), "status").GetStructValue().AsMap()
				for _, kept := range []string{"quota", "provider", "ledger", "usage", "buckets", "waiting"} {
					if diff := cmp.Diff(at(before, "status", kept), status[kept]); diff != "" {
						t.Errorf("%s\nstatus.%s: -observed, +desired:\n%s", tc.reason, kept, diff)
					}
				}
			})
		}
	}
}

// TestInvalidSpec: an invalid change of a running cluster changes nothing, and is not fatal: what was admitted is known.
func TestInvalidSpec(t *testing.T) {
	edited := func(k string, v any) []any {
		out := pools(2)
		out[1].(object)[k] = v
		return out
	}
	cases := map[string]struct {
		wanted []any
		path   string
	}{
		"CPU":      {edited("cpu", "four"), "spec.pools[1].cpu"},
		"HalfCPU":  {edited("cpu", "500m"), "spec.pools[1].cpu"},
		"Memory":   {edited("memory", "1500Mi"), "spec.pools[1].memory"},
		"Disk":     {edited("disk", "-1Gi"), "spec.pools[1].disk"},
		"Count":    {edited("count", 0.0), "spec.pools[1].count"},
		"Name":     {edited("name", "all"), "spec.pools[1].name"},
		"Roles":    {edited("roles", []any{"database"}), "spec.pools[1].roles[0]"},
		"Etcd":     {[]any{pool("all", 2, "control-plane", "etcd", "worker")}, "spec.pools"},
		"NoPools":  {[]any{}, "spec.pools"},
		"NoWorker": {[]any{pool("all", 1, "control-plane", "etcd")}, "spec.pools"},
	}
	worlds := map[string]*world{}
	for stage, start := range stages() {
		worlds[stage] = start(t)
	}
	for name, tc := range cases {
		for stage, start := range worlds {
			if stage == "Emptied" {
				continue
			}
			t.Run(name+"/"+stage, func(t *testing.T) {
				w := start.clone(t)
				w.edit("aa", tc.wanted)
				req, out := w.call(xr("aa"))
				checkDecided(t, req, out.rsp)
				if failure := fatalOf(out.rsp); failure != "" {
					t.Errorf("fatal: %s", failure)
				}
				admitted := conditionsOf(out.rsp)[typeAdmitted]
				if !strings.HasPrefix(admitted, "False InvalidSpec:") || !strings.Contains(admitted, tc.path) {
					t.Errorf("condition is %q, want InvalidSpec naming %s", admitted, tc.path)
				}
				if stage == "Fresh" {
					if n := len(out.rsp.GetDesired().GetResources()); n > 0 {
						t.Errorf("%d resources are composed", n)
					}
					return
				}
				got := out.rsp.GetDesired().GetResources()[composedRelease].GetResource().AsMap()
				if diff := cmp.Diff(at(w.objects[release("aa")], "spec"), got["spec"]); diff != "" {
					t.Errorf("the Release changes: -before, +after:\n%s", diff)
				}
			})
		}
	}
}

// refusals that no composite can have a condition for.
func TestWrongCall(t *testing.T) {
	cases := map[string]struct {
		reason string
		kind   string
		input  object
		want   string
		types  []string
	}{
		"UnknownKind": {
			reason: "A Composition of another kind uses this function.",
			kind:   "XDatabase", want: `"XDatabase"`,
		},
		"InputGroup": {
			reason: "The input of another function is not ours.",
			kind:   v1alpha1.KindInfraBlueprint, input: object{"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources"}, want: "pt.fn.crossplane.io/v1beta1 Resources",
			types: typesOf(v1alpha1.KindInfraBlueprint),
		},
		"InputField": {
			reason: "A field that does not exist is a mistake.",
			kind:   v1alpha1.KindXClusterBlueprint, input: object{"apiVersion": "fn.rig-gateway.io/v1beta1", "kind": "Input", "quarantineFor": "1m"}, want: "quarantineFor",
			types: typesOf(v1alpha1.KindXClusterBlueprint),
		},
		"InputDuration": {
			reason: "A duration that is none is named.",
			kind:   v1alpha1.KindHarvesterBlueprint, input: object{"apiVersion": "fn.rig-gateway.io/v1beta1", "kind": "Input", "quarantine": "soon"}, want: "soon",
			types: typesOf(v1alpha1.KindHarvesterBlueprint),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFunction(t, testTime)
			req := &fnv1.RunFunctionRequest{Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: structOfObject(t, object{
				"apiVersion": "rig-gateway.io/v1alpha1", "kind": tc.kind, "metadata": object{"name": "some"},
			})}}}
			if tc.input != nil {
				req.Input = structOfObject(t, tc.input)
			}
			rsp := runFunction(t, f, req)
			if got := fatalOf(rsp); !strings.Contains(got, tc.want) {
				t.Errorf("%s\nfatal message %q, want %s in it", tc.reason, got, tc.want)
			}
			if len(rsp.GetDesired().GetResources()) > 0 {
				t.Errorf("%s\nsomething is composed", tc.reason)
			}
			var types []string
			for _, c := range rsp.GetConditions() {
				types = append(types, c.GetType())
			}
			slices.Sort(types)
			if diff := cmp.Diff(tc.types, types); diff != "" {
				t.Errorf("%s\ncondition types: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// panicking strategy.
type panicking struct{ strategies.Strategy }

func (panicking) Cluster(strategies.Scope) (strategies.Output, error) {
	panic("a strategy with a fault")
}

func TestPanic(t *testing.T) {
	w := stages()["Running"](t)
	open := w.fn.providers[v1alpha1.KindHarvesterBlueprint]
	w.fn.providers = strategies.Table{v1alpha1.KindHarvesterBlueprint: func(raw json.RawMessage) (strategies.Strategy, error) {
		s, err := open(raw)
		return panicking{s}, err
	}}
	req, out := w.call(xr("aa"))
	if got := fatalOf(out.rsp); !strings.Contains(got, "a strategy with a fault") {
		t.Errorf("fatal message: %q", got)
	}
	checkDecided(t, req, out.rsp)
}

func TestNilRequest(t *testing.T) {
	f := newFunction(t, testTime)
	for name, req := range map[string]*fnv1.RunFunctionRequest{
		"Empty":       {},
		"NoComposite": {Observed: &fnv1.State{}},
		"NoResource":  {Observed: &fnv1.State{Composite: &fnv1.Resource{}}},
		"NilFields":   {Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: &structpb.Struct{}}}},
	} {
		if got := fatalOf(runFunction(t, f, req)); !strings.Contains(got, "cannot compose") {
			t.Errorf("%s: fatal message %q", name, got)
		}
	}
}

// Whole responses of the runs that tell most.
func TestRunFunction(t *testing.T) {
	t.Run("Waiting", func(t *testing.T) {
		w := newWorld(t, infraBlueprint(t, 8), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
		w.settle()
		_, out := w.call(xr("aa"))
		want := &fnv1.RunFunctionResponse{
			Meta: &fnv1.ResponseMeta{Tag: "world", Ttl: durationpb.New(20 * time.Second)},
			Desired: &fnv1.State{
				Composite: &fnv1.Resource{Ready: fnv1.Ready_READY_FALSE, Resource: structOfObject(t, object{
					"apiVersion": "rig-gateway.io/v1alpha1", "kind": "XClusterBlueprint",
					"metadata": object{"resourceVersion": at(w.objects[xr("aa")], "metadata", "resourceVersion")},
					"status":   object{"provider": "HarvesterBlueprint"},
				})},
				Resources: map[string]*fnv1.Resource{"request": {Ready: fnv1.Ready_READY_TRUE, Resource: structOfObject(t, fromYAML(t, `
apiVersion: apiextensions.crossplane.io/v1beta1
kind: EnvironmentConfig
metadata:
  name: rig-request-aa
  labels: {rig-gateway.io/infra-blueprint: prod, rig-gateway.io/cluster: aa, rig-gateway.io/mailbox: request}
data:
  cluster: aa
  claim: team/aa
  created: "2026-01-02T03:04:05Z"
  need: {cpu: "12", memory: 25938Mi, disk: 120Gi, nodes: 3}
  keeps: {cpu: "0", memory: "0", disk: "0"}
  fence: 0
  provisioned: false
`))}},
			},
			Conditions: []*fnv1.Condition{
				{
					Type: "Admitted", Status: fnv1.Status_STATUS_CONDITION_FALSE, Reason: "NeverFits", Target: fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum(),
					Message: new(`needs 12 cpu, the whole quota is 8; InfraBlueprint "prod" can never admit it`),
				},
				{
					Type: "Provisioned", Status: fnv1.Status_STATUS_CONDITION_FALSE, Reason: "Provisioning", Target: fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum(),
					Message: new("nothing is built before the cluster is admitted"),
				},
			},
			Requirements: &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{
				"EnvironmentConfig/rig-terms-prod":                        named("apiextensions.crossplane.io/v1beta1", "EnvironmentConfig", "rig-terms-prod"),
				"EnvironmentConfig/" + numberedPage("prod", pageOf("aa")): named("apiextensions.crossplane.io/v1beta1", "EnvironmentConfig", numberedPage("prod", pageOf("aa"))),
				"HarvesterBlueprint/fra1":                                 named("rig-gateway.io/v1alpha1", "HarvesterBlueprint", "fra1"),
			}},
		}
		if diff := cmp.Diff(want, out.rsp, protocmp.Transform()); diff != "" {
			t.Errorf("RunFunction(...): -want, +got:\n%s", diff)
		}
	})
	t.Run("Unresolved", func(t *testing.T) {
		w := stages()["Running"](t)
		rsp := runFunction(t, w.fn, w.request(xr("aa")))
		want := &fnv1.RunFunctionResponse{
			Meta: &fnv1.ResponseMeta{Tag: "world", Ttl: durationpb.New(time.Minute)}, Desired: &fnv1.State{},
			Requirements: &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{
				"EnvironmentConfig/rig-terms-prod":                        named("apiextensions.crossplane.io/v1beta1", "EnvironmentConfig", "rig-terms-prod"),
				"EnvironmentConfig/" + numberedPage("prod", pageOf("aa")): named("apiextensions.crossplane.io/v1beta1", "EnvironmentConfig", numberedPage("prod", pageOf("aa"))),
			}},
		}
		if diff := cmp.Diff(want, rsp, protocmp.Transform()); diff != "" {
			t.Errorf("RunFunction(...): -want, +got:\n%s", diff)
		}
	})
	t.Run("Preflight", func(t *testing.T) {
		w := newWorld(t, put(harvesterBlueprint(t), "7", "metadata", "uid"))
		_, out := w.call(id{v1alpha1.KindHarvesterBlueprint, "fra1"})
		want := &fnv1.RunFunctionResponse{
			Meta: &fnv1.ResponseMeta{Tag: "world", Ttl: durationpb.New(time.Minute)},
			Desired: &fnv1.State{Composite: &fnv1.Resource{Ready: fnv1.Ready_READY_TRUE, Resource: structOfObject(t, object{
				"apiVersion": "rig-gateway.io/v1alpha1", "kind": "HarvesterBlueprint", "metadata": object{"resourceVersion": "1"}, "status": object{},
			})}},
			Conditions: []*fnv1.Condition{{
				Type: "ProviderReady", Status: fnv1.Status_STATUS_CONDITION_UNKNOWN, Reason: "PreflightPending", Target: fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum(),
				Message: new("the spec is valid; nothing is looked up at the provider without spec.providerConfigRef"),
			}},
		}
		if diff := cmp.Diff(want, out.rsp, protocmp.Transform()); diff != "" {
			t.Errorf("RunFunction(...): -want, +got:\n%s", diff)
		}
	})
	t.Run("Admitted", func(t *testing.T) {
		w := stages()["Running"](t)
		_, out := w.call(xr("aa"))
		got := map[string]string{}
		for name, r := range out.rsp.GetDesired().GetResources() {
			got[name] = fmt.Sprintf("%s %s %s %s", text(r.GetResource(), "apiVersion"), text(r.GetResource(), "kind"), text(r.GetResource(), "metadata", "name"), r.GetReady())
			for _, label := range []string{v1alpha1.LabelInfraBlueprint, v1alpha1.LabelCluster} {
				if text(r.GetResource(), "metadata", "labels", label) == "" {
					t.Errorf("%s has no label %s", name, label)
				}
			}
		}
		want := map[string]string{
			"request":        "apiextensions.crossplane.io/v1beta1 EnvironmentConfig rig-request-aa READY_TRUE",
			"release":        "helm.crossplane.io/v1beta1 Release aa READY_TRUE",
			"barrier":        "kubernetes.crossplane.io/v1alpha2 Object aa-barrier READY_TRUE",
			"observer":       "kubernetes.crossplane.io/v1alpha2 Object aa-observer READY_TRUE",
			"serviceaccount": "kubernetes.crossplane.io/v1alpha2 Object aa-serviceaccount READY_TRUE",
			"rolebinding":    "kubernetes.crossplane.io/v1alpha2 Object aa-rolebinding READY_TRUE",
			"csi":            "kubernetes.crossplane.io/v1alpha2 Object aa-csi READY_TRUE",
			"token":          "kubernetes.crossplane.io/v1alpha2 Object aa-token READY_TRUE",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("composed: -want, +got:\n%s", diff)
		}
		annotations := value(out.rsp.GetDesired().GetResources()["release"].GetResource(), "metadata", "annotations").GetStructValue().AsMap()
		wantAnnotations := object{
			v1alpha1.AnnotationExternalName: "aa",
			v1alpha1.AnnotationHolds:        `{"cpu":"12","memory":"25938Mi","disk":"120Gi","nodes":3}`,
			v1alpha1.AnnotationQuota:        annotations[v1alpha1.AnnotationQuota],
		}
		if diff := cmp.Diff(wantAnnotations, annotations); diff != "" {
			t.Errorf("annotations of the Release: -want, +got:\n%s", diff)
		}
		if got := conditionsOf(out.rsp)[typeAdmitted]; !strings.HasPrefix(got, "True Admitted: keeps 12 cpu") {
			t.Errorf("condition Admitted: %q", got)
		}
	})
}

func named(apiVersion, kind, name string) *fnv1.ResourceSelector {
	return &fnv1.ResourceSelector{ApiVersion: apiVersion, Kind: kind, Match: &fnv1.ResourceSelector_MatchName{MatchName: name}}
}

// TestAccountant: what an InfraBlueprint makes of what it sees.
func TestAccountant(t *testing.T) {
	request := id{environmentConfig.kind, "rig-request-aa"}
	cases := map[string]struct {
		reason string
		change func(*world)
		// grant of cluster aa afterwards.
		grant any
		want  string
	}{
		"Settled": {
			reason: "What runs is reserved.",
			change: func(*world) {}, grant: "12", want: "True WithinQuota",
		},
		"OverQuota": {
			reason: "A quota that was cut below what is used takes nothing away.",
			change: editing(prod, "4", "spec", "quota", "cpu"), grant: "12", want: "False OverQuota",
		},
		"RequestUnreadable": {
			reason: "A request that cannot be read leaves the grant as it is.",
			change: editing(request, "much", "data", "need", "cpu"), grant: "12", want: "True WithinQuota",
		},
		"RequestWithoutKeeps": {
			reason: "A request that does not say what is kept does not say that nothing is.",
			change: func(w *world) { w.put(without(w.objects[request], "data", "keeps")) }, grant: "12", want: "True WithinQuota",
		},
		"RequestWithoutNeed": {
			reason: "A request without a need says nothing.",
			change: func(w *world) { w.put(without(w.objects[request], "data", "need")) }, grant: "12", want: "True WithinQuota",
		},
		"RequestOfAnother": {
			reason: "A request that was renamed is not the cluster's.",
			change: editing(request, "bb", "data", "cluster"), grant: "12", want: "True WithinQuota",
		},
		"RequestGone": {
			reason: "Without its request a cluster keeps what Release and barrier hold.",
			change: func(w *world) { w.drop(request) }, grant: "12", want: "True WithinQuota",
		},
		"HoldsUnreadable": {
			reason: "A Release that is silent about its size holds what was granted.",
			change: both(func(w *world) { w.drop(request) }, editing(release("aa"), "much", "metadata", "annotations", v1alpha1.AnnotationHolds)),
			grant:  "12", want: "True WithinQuota",
		},
		"AllGone": {
			reason: "What is not seen any more is held for the quarantine.",
			change: func(w *world) {
				for _, k := range w.owned(xr("aa")) {
					w.drop(k)
				}
			},
			grant: "12", want: "True WithinQuota",
		},
	}
	running := stages()["Running"](t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := running.clone(t)
			revision := at(w.objects[prod], "status", "ledger", "revision")
			tc.change(w)
			for range 2 {
				req, out := w.call(prod)
				checkDecided(t, req, out.rsp)
				w.reconcile(prod)
			}
			if diff := cmp.Diff(map[string]any{"aa": tc.grant}, w.grants()); diff != "" {
				t.Errorf("%s\ngrants: -want, +got:\n%s", tc.reason, diff)
			}
			if got := at(w.objects[prod], "status", "ledger", "revision"); got != revision {
				t.Errorf("%s\nrevision %v, want %v: nothing is to be offered", tc.reason, got, revision)
			}
			w.expect(prod, typeWithinQuota, tc.want)
		})
	}
}

// story drives a world through everything that happens to clusters, and shows each composite to a visitor before it is
// reconciled.
func story(t testing.TB, visit func(w *world, k id)) {
	t.Helper()
	w := newWorld(t, infraBlueprint(t, 28), harvesterBlueprint(t),
		clusterBlueprint("aa", "team", "aa", pools(2)), clusterBlueprint("bb", "team", "bb", pools(3)), clusterBlueprint("cc", "other", "aa", pools(1)))
	invalid := pools(2)
	invalid[0].(object)["disk"] = "0"
	for round := range 44 {
		switch round {
		case 8:
			w.edit("aa", []any{pool("all", 1, "control-plane", "etcd", "worker"), pool("batch", 1, "worker")})
		case 14:
			w.put(without(w.objects[xr("bb")], "status"))
		case 17:
			w.edit("bb", invalid)
		case 19:
			w.put(without(w.objects[prod], "status"))
		case 22:
			w.edit("bb", pools(1))
		case 26:
			w.delete(xr("aa"), false)
		case 32:
			w.drop(id{v1alpha1.KindHarvesterBlueprint, "fra1"})
		case 34:
			w.put(harvesterBlueprint(t))
		}
		for _, k := range w.composites() {
			visit(w, k)
			w.reconcile(k)
		}
		w.tick(5 * time.Second)
	}
	w.expect(xr("bb"), "Ready", "True Available")
	w.expect(xr("cc"), "Ready", "True Available")
}

// diffOf two messages: the beginning of it.
func diffOf(want, got proto.Message) string {
	const limit = 2000
	diff := cmp.Diff(want, got, protocmp.Transform())
	return diff[:min(len(diff), limit)]
}

func bytesOf(t testing.TB, m proto.Message) string {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestEveryRun holds for each run of a long story: conditions, nothing omitted, the same bytes twice, in another order,
// over another protocol; and the request stays as it was.
func TestEveryRun(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and not concurrent")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	story(t, func(w *world, k id) {
		req, out := w.call(k)
		if out == nil || seen[bytesOf(t, req)] {
			return
		}
		seen[bytesOf(t, req)] = true
		checkDecided(t, req, out.rsp)

		before := proto.Clone(req)
		again := runFunction(t, w.fn, req)
		if diff := diffOf(before, req); diff != "" {
			t.Errorf("%v: the run changes its request: -before, +after:\n%s", k, diff)
		}
		if bytesOf(t, out.rsp) != bytesOf(t, again) {
			t.Errorf("%v: two runs differ:\n%s", k, diffOf(out.rsp, again))
		}

		if rnd.IntN(2) == 0 && !t.Failed() {
			return
		}
		permuted := proto.CloneOf(req)
		for _, found := range permuted.GetRequiredResources() {
			items := found.GetItems()
			rnd.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		}
		if got := runFunction(t, w.fn, permuted); bytesOf(t, got) != bytesOf(t, again) {
			t.Errorf("%v: the order of required resources matters:\n%s", k, diffOf(again, got))
		}

		legacy := proto.CloneOf(req)
		legacy.Meta.Capabilities = nil
		legacy.ExtraResources, legacy.RequiredResources = legacy.GetRequiredResources(), nil //nolint:staticcheck // Old versions of Crossplane are tested too.
		old := runFunction(t, w.fn, legacy)
		if n := len(old.GetRequirements().GetResources()); n > 0 {
			t.Errorf("%v: an old Crossplane is asked for %d required resources", k, n)
		}
		if old.GetRequirements() != nil {
			old.Requirements.Resources, old.Requirements.ExtraResources = old.GetRequirements().GetExtraResources(), nil //nolint:staticcheck // Old versions of Crossplane are tested too.
		}
		old.Meta = again.GetMeta() // Its TTL may be shorter.
		if diff := diffOf(again, old); diff != "" {
			t.Errorf("%v: an old Crossplane gets something else: -new, +old:\n%s", k, diff)
		}
		if t.Failed() {
			t.FailNow()
		}
	})
	if len(seen) < 60 {
		t.Errorf("only %d runs were checked", len(seen))
	}
}

// TestRunsAtOnce has Crossplane run the function for several composites at the same time: each gets what it gets alone.
func TestRunsAtOnce(t *testing.T) {
	w := stages()["Running"](t)
	work := sync.WaitGroup{}
	for _, k := range w.composites() {
		req, out := w.call(k)
		want := bytesOf(t, out.rsp)
		for range 4 {
			work.Go(func() {
				rsp, err := w.fn.RunFunction(t.Context(), proto.CloneOf(req))
				if err != nil || bytesOf(t, rsp) != want {
					t.Errorf("%v: the run differs from one alone: error %v, -want, +got:\n%s", k, err, diffOf(out.rsp, rsp))
				}
			})
		}
	}
	work.Wait()
}

// What other functions of the pipeline desire is passed on.
func TestPipeline(t *testing.T) {
	w := stages()["Running"](t)
	foreign := &fnv1.Resource{Resource: structOfObject(t, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "other"}}), Ready: fnv1.Ready_READY_TRUE}
	t.Run("Composed", func(t *testing.T) {
		req, _ := w.call(xr("aa"))
		req.Desired = &fnv1.State{Resources: map[string]*fnv1.Resource{"other": foreign}}
		req.Observed.Resources["other"] = &fnv1.Resource{Resource: foreign.GetResource()}
		before := proto.CloneOf(req)
		rsp := runFunction(t, w.fn, req)
		if failure := fatalOf(rsp); failure != "" {
			t.Fatal(failure)
		}
		if diff := diffOf(foreign, rsp.GetDesired().GetResources()["other"]); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		if diff := diffOf(before, req); diff != "" {
			t.Errorf("the run changes its request: -before, +after:\n%s", diff)
		}
	})
	t.Run("Conflict", func(t *testing.T) {
		req, _ := w.call(xr("aa"))
		req.Desired = &fnv1.State{Resources: map[string]*fnv1.Resource{"release": foreign}}
		if got := fatalOf(runFunction(t, w.fn, req)); !strings.Contains(got, `"release"`) {
			t.Errorf("two functions compose release, fatal message: %q", got)
		}
	})
	t.Run("Composite", func(t *testing.T) {
		req, _ := w.call(xr("aa"))
		req.Desired = &fnv1.State{Composite: &fnv1.Resource{
			Resource:          structOfObject(t, object{"status": object{"cost": "12 EUR"}}),
			ConnectionDetails: map[string][]byte{"other": []byte("value")},
		}}
		rsp := runFunction(t, w.fn, req)
		composite := rsp.GetDesired().GetComposite()
		if got := text(composite.GetResource(), "status", "cost"); got != "12 EUR" {
			t.Errorf("the status of another function is lost: %q", got)
		}
		if got := string(composite.GetConnectionDetails()["other"]); got != "value" {
			t.Errorf("the connection detail of another function is lost: %q", got)
		}
		if value(composite.GetResource(), "status", "quota") == nil || len(composite.GetConnectionDetails()["kubeconfig"]) == 0 {
			t.Error("the run's own status or kubeconfig is missing")
		}
	})
	t.Run("Forgotten", func(t *testing.T) {
		req, _ := w.call(xr("aa"))
		req.Observed.Resources["machines"] = &fnv1.Resource{Resource: foreign.GetResource()}
		rsp := runFunction(t, w.fn, req)
		if got := fatalOf(rsp); !strings.Contains(got, `"machines"`) {
			t.Errorf("something that nobody desires any more would be deleted, fatal message: %q", got)
		}
		checkDecided(t, req, rsp)
	})
}

func TestTTL(t *testing.T) {
	dropped := []any{object{"type": "Responsive", "status": "False", "reason": "WatchCircuitOpen"}}
	cases := map[string]struct {
		reason string
		xr     id
		change func(*world)
		want   time.Duration
	}{
		"SteadyCluster": {reason: "Events wake it.", xr: xr("aa"), change: func(*world) {}, want: time.Minute},
		"Waiting":       {reason: "It waits.", xr: xr("aa"), change: func(w *world) { w.edit("aa", pools(40)) }, want: 20 * time.Second},
		"Changed":       {reason: "The record changes.", xr: xr("aa"), change: func(w *world) { w.edit("aa", pools(1)) }, want: time.Second},
		"Rolling": {
			reason: "Others may wait for what is let go of.", xr: xr("aa"), want: 5 * time.Second,
			change: func(w *world) { w.rolling = 9; w.edit("aa", pools(1)); w.rounds(1) },
		},
		"Settling": {
			reason: "It is known when the rest is let go of: 5 of 10 s are left, and Crossplane may come a tenth early.",
			xr:     xr("aa"), want: 6625 * time.Millisecond,
			change: func(w *world) {
				w.edit("aa", pools(1))
				w.until(func() bool { return at(w.objects[xr("aa")], "status", "quota", "settledSince") != nil })
			},
		},
		"Unresponsive": {
			reason: "Crossplane drops events.", xr: xr("aa"), want: 5 * time.Second,
			change: editing(xr("aa"), dropped, "status", "conditions"),
		},
		"UnresponsiveAndMore": {
			reason: "What is composed anew is soon there.", xr: xr("aa"), want: time.Second,
			change: func(w *world) {
				editing(xr("aa"), dropped, "status", "conditions")(w)
				w.drop(id{"Object", "aa-csi"})
			},
		},
		"Idle": {reason: "There is nothing to do.", xr: prod, change: func(*world) {}, want: 30 * time.Second},
		"BreakerOpen": {
			reason: "Crossplane drops events.", xr: prod, want: 2 * time.Second,
			change: editing(prod, dropped, "status", "conditions"),
		},
		"Releasing": {
			reason: "A cluster is being removed.", xr: prod, want: 2 * time.Second,
			change: func(w *world) { w.delete(xr("aa"), true); w.reconcile(prod) },
		},
		"Legacy": {reason: "Nothing wakes it when a request changes.", xr: prod, change: func(w *world) { w.legacy, w.asked = true, map[id]*fnv1.Requirements{} }, want: 10 * time.Second},
	}
	running := stages()["Running"](t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := running.clone(t)
			tc.change(w)
			_, out := w.call(tc.xr)
			if got := out.rsp.GetMeta().GetTtl().AsDuration(); got != tc.want {
				t.Errorf("%s: TTL %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// Only offers that the observed ledger holds are published, since another run may still win over this one.
func TestOffersAreCommitted(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 64), harvesterBlueprint(t))
	w.settle()
	w.put(clusterBlueprint("aa", "team", "aa", pools(2)))
	w.reconcile(xr("aa"))
	key := fmt.Sprintf("page-%d", pageOf("aa"))
	for run, offered := range []bool{false, true} {
		_, out := w.call(prod)
		grants := value(out.rsp.GetDesired().GetComposite().GetResource(), "status", "ledger", "grants").GetListValue().GetValues()
		offer := value(out.rsp.GetDesired().GetResources()[key].GetResource(), "data", "offers", "aa")
		if len(grants) != 1 || (offer != nil) != offered {
			t.Errorf("run %d: %d grants, an offer on the page: %v, want one grant and: %v", run, len(grants), offer != nil, offered)
		}
		w.reconcile(prod)
	}
}

// A ledger that was lost holds what an existing page still offers, and goes on above its revision.
func TestSeedFromPages(t *testing.T) {
	w := stages()["Running"](t)
	amount := object{"cpu": "16", "memory": "64Gi", "disk": "400Gi", "nodes": 4.0}
	mailboxed(numberedPage("prod", pageOf("aa")), object{"aa": object{"amount": amount, "revision": 9.0}}, "data", "offers")(w)
	w.put(without(w.objects[prod], "status"))
	w.reconcile(prod)
	w.expectGrants(map[string]any{"aa": "16"})
	if got := at(w.objects[prod], "status", "ledger", "revision"); got != 9.0 {
		t.Errorf("revision %v, want 9", got)
	}
}

// An offer that was answered, or that another InfraBlueprint of the name made, is dead: what it reserved may be gone.
func TestDeadOffers(t *testing.T) {
	running := stages()["Running"](t)
	fence := at(running.objects[xr("aa")], "status", "quota", "fence").(float64)
	cases := map[string]struct {
		reason   string
		infra    string
		revision float64
		want     any
	}{
		"New":      {reason: "A new offer is used.", infra: "uid-prod", revision: fence + 1, want: "16"},
		"Answered": {reason: "The page went back.", infra: "uid-prod", revision: fence, want: "12"},
		"Another":  {reason: "The page is left from an InfraBlueprint that was deleted.", infra: "uid-before", revision: fence + 1, want: "12"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := running.clone(t)
			amount := object{"cpu": "16", "memory": "64Gi", "disk": "400Gi", "nodes": 4.0}
			mailboxed(numberedPage("prod", pageOf("aa")), object{
				"infraBlueprint": tc.infra, "offers": object{"aa": object{"amount": amount, "revision": tc.revision}},
			}, "data")(w)
			w.edit("aa", pools(3))
			w.reconcile(xr("aa"))
			if got := w.keeps("aa"); got != tc.want {
				t.Errorf("%s\nthe cluster keeps %v cpu, want %v", tc.reason, got, tc.want)
			}
			if holds := at(w.objects[release("aa")], "metadata", "annotations", v1alpha1.AnnotationHolds); !strings.Contains(holds.(string), `"cpu":"12"`) {
				t.Errorf("%s\nthe Release grows before the record is written: it holds %s", tc.reason, holds)
			}
		})
	}
}

// A first Release waits for its record and its barrier, however they come about.
func TestFirstReleaseWaits(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 64), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	paused := func() bool {
		_, out := w.call(xr("aa"))
		r := out.rsp.GetDesired().GetResources()[composedRelease].GetResource()
		return text(r, "metadata", "annotations", v1alpha1.AnnotationPaused) == "true"
	}
	w.until(func() bool { return w.objects[release("aa")] != nil })
	if w.keeps("aa") == nil && !paused() {
		t.Error("a Release without a record is active")
	}
	w.until(func() bool {
		return w.keeps("aa") != nil && at(w.objects[barrier("aa")], "metadata", "finalizers") != nil
	})
	kept := w.objects[barrier("aa")]
	w.drop(barrier("aa"))
	if !paused() {
		t.Error("a Release without a barrier is active")
	}
	w.owners[barrier("aa")] = xr("aa")
	w.put(put(kept, nil, "metadata", "finalizers"))
	if !paused() {
		t.Error("a Release whose barrier nobody holds is active")
	}
	w.put(kept)
	if paused() {
		t.Error("a Release with record and barrier is paused")
	}
}

// The barrier, and with it the cluster, waits for what the machines need, but not for what has done its part. Once it is
// active it stays so.
func TestBarrierWaits(t *testing.T) {
	token, csi := id{"Object", "aa-token"}, id{"Object", "aa-csi"}
	both := map[string][]byte{"token": []byte("t"), "ca.crt": []byte("c")}
	cases := map[string]struct {
		reason  string
		unready id
		written map[string][]byte
		want    bool
	}{
		"Ready":         {reason: "All is ready.", want: true},
		"Written":       {reason: "The Secret is there; that the token is ready is seen a minute later.", unready: token, written: both, want: true},
		"PartlyWritten": {reason: "A value is missing.", unready: token, written: map[string][]byte{"token": []byte("t")}},
		"NotWritten":    {reason: "There is no token yet.", unready: token},
		"Binding":       {reason: "The token can do nothing yet.", unready: csi, written: both},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, infraBlueprint(t, 64), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
			w.until(func() bool { return w.objects[barrier("aa")] != nil })
			before := w.objects[barrier("aa")]
			w.until(func() bool { return at(w.objects[barrier("aa")], "metadata", "finalizers") != nil })
			active := w.objects[barrier("aa")]
			if tc.unready.name != "" {
				editing(tc.unready, []any{}, "status", "conditions")(w)
			}
			w.secrets[token] = tc.written
			for _, now := range []struct {
				barrier object
				active  bool
			}{{before, tc.want}, {active, true}, {put(active, nil, "metadata", "finalizers"), true}} {
				w.put(now.barrier)
				_, out := w.call(xr("aa"))
				composed := out.rsp.GetDesired().GetResources()[composedBarrier].GetResource()
				if got := text(composed, "metadata", "annotations", v1alpha1.AnnotationPaused) != "true"; got != now.active {
					t.Errorf("%s\nthe barrier is active: %v, want %v, of %v", tc.reason, got, now.active, at(now.barrier, "metadata"))
				}
			}
		})
	}
}

// A token waits for its ServiceAccount. Once the provider acts on it, it stays active.
func TestTokenComesAfterItsServiceAccount(t *testing.T) {
	token, account := id{"Object", "aa-token"}, id{"Object", "aa-serviceaccount"}
	unready := func(o object) object { return put(o, ready("Synced"), "status", "conditions") }
	same := func(o object) object { return o }
	cases := map[string]struct {
		reason         string
		account, token func(object) object
		want           bool
	}{
		"NoAccount": {reason: "Nothing is there yet.", account: func(object) object { return nil }, token: func(object) object { return nil }, want: true},
		"NotReady":  {reason: "The ServiceAccount is composed, but not made.", account: unready, token: func(object) object { return nil }, want: true},
		"StillWaits": {reason: "The token is composed paused.", account: unready, token: func(o object) object {
			return put(put(o, nil, "metadata", "finalizers"), "true", "metadata", "annotations", v1alpha1.AnnotationPaused)
		}, want: true},
		"Ready":       {reason: "The ServiceAccount is made.", account: same, token: func(object) object { return nil }},
		"Held":        {reason: "The provider holds the token: it would be held for ever.", account: unready, token: same},
		"LetGo":       {reason: "The provider is about to hold the token.", account: unready, token: func(o object) object { return put(o, nil, "metadata", "finalizers") }},
		"AccountGone": {reason: "Somebody deleted the ServiceAccount.", account: func(object) object { return nil }, token: same},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, infraBlueprint(t, 64), harvesterBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
			w.until(func() bool { return at(w.objects[token], "metadata", "finalizers") != nil })
			for k, change := range map[id]func(object) object{account: tc.account, token: tc.token} {
				if changed := change(w.objects[k]); changed != nil {
					w.put(changed)
				} else {
					w.drop(k)
				}
			}
			_, out := w.call(xr("aa"))
			composed := out.rsp.GetDesired().GetResources()["token"].GetResource()
			if got := text(composed, "metadata", "annotations", v1alpha1.AnnotationPaused) == "true"; composed == nil || got != tc.want {
				t.Errorf("%s\nthe token is paused: %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

// A cluster is ready only once its kubeconfig can be handed over.
func TestKubeconfigIsAwaited(t *testing.T) {
	w := stages()["Running"](t)
	handed := w.secrets[xr("aa")]
	editing(xr("aa"), []any{}, "status", "conditions")(w)
	for _, tc := range []struct {
		reason  string
		written map[string][]byte
		ready   fnv1.Ready
		ttl     time.Duration
	}{
		{"The claim would find nothing to copy, and only look again when the composite changes.", nil, fnv1.Ready_READY_FALSE, time.Second},
		{"It can be copied.", handed, fnv1.Ready_READY_TRUE, time.Minute},
	} {
		w.secrets[xr("aa")] = tc.written
		_, out := w.call(xr("aa"))
		if got := out.rsp.GetDesired().GetComposite().GetReady(); got != tc.ready {
			t.Errorf("%s\nthe composite is %s, want %s", tc.reason, got, tc.ready)
		}
		if got := out.rsp.GetMeta().GetTtl().AsDuration(); got != tc.ttl {
			t.Errorf("%s\nit is looked at after %s, want %s", tc.reason, got, tc.ttl)
		}
	}
}

// What Rancher shows must be what is rendered, no more and no less, and be ready.
func TestProvisioned(t *testing.T) {
	observer := id{"Object", "aa-observer"}
	manifest := []string{"status", "atProvider", "manifest"}
	edit := func(v any, path ...string) func(*world) {
		return editing(observer, v, append(slices.Clone(manifest), path...)...)
	}
	state := func(conditionType, reason, message string) []any {
		return []any{object{"type": conditionType, "status": "False", "reason": reason, "message": message}}
	}
	live := func(names ...string) []any {
		var out []any
		for _, name := range names {
			out = append(out, object{"name": name, "quantity": map[string]float64{"all": 1, "workers": 2, "more": 1}[name]})
		}
		return out
	}
	cases := map[string]struct {
		reason string
		change func(*world)
		want   string
	}{
		"Ready":         {reason: "All that is rendered is there.", change: func(*world) {}, want: "True Provisioned"},
		"OtherOrder":    {reason: "The order of pools does not matter.", change: edit(live("workers", "all"), "spec", "rkeConfig", "machinePools"), want: "True Provisioned"},
		"MorePools":     {reason: "A pool is left from before.", change: edit(live("all", "more", "workers"), "spec", "rkeConfig", "machinePools"), want: "False Provisioning"},
		"FewerPools":    {reason: "A pool is missing.", change: edit(live("all"), "spec", "rkeConfig", "machinePools"), want: "False Provisioning"},
		"OldGeneration": {reason: "Rancher has the record before.", change: edit("0", "metadata", "annotations", v1alpha1.AnnotationGeneration), want: "False Provisioning"},
		"NotReady":      {reason: "Rancher is at work.", change: editing(observer, ready("Synced"), "status", "conditions"), want: "False Provisioning"},
		"Upgraded":      {reason: "A Release is not ready for minutes after an upgrade.", change: editing(release("aa"), []any{object{"type": "Synced", "status": "True"}, object{"type": "Ready", "status": "False"}}, "status", "conditions"), want: "True Provisioned"},
		"ReleaseFailed": {reason: "Helm says so.", change: editing(release("aa"), object{"state": "failed", "releaseDescription": "no"}, "status", "atProvider"), want: "False ProvisioningFailed"},
		"ReleaseError":  {reason: "The provider says so.", change: editing(release("aa"), state("Synced", "ReconcileError", "cannot pull"), "status", "conditions"), want: "False ProvisioningFailed"},
		"Lost":          {reason: "It was seen once and is no more.", change: editing(observer, state("Synced", "ReconcileError", "observe failed: external resource does not exist"), "status", "conditions"), want: "False ClusterLost"},
		"NotSeenYet":    {reason: "What the observer has never seen was not lost, whatever the barrier saw.", change: editing(observer, object{"conditions": state("Synced", "ReconcileError", "observe failed: external resource does not exist")}, "status"), want: "False Provisioning"},
		"Unreachable":   {reason: "Not to see it does not mean that it is gone.", change: editing(observer, state("Synced", "ReconcileError", "connection refused"), "status", "conditions"), want: "False Provisioning"},
	}
	running := stages()["Running"](t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := running.clone(t)
			tc.change(w)
			req, out := w.call(xr("aa"))
			checkDecided(t, req, out.rsp)
			got, _, _ := strings.Cut(conditionsOf(out.rsp)[typeProvisioned], ":")
			if got != tc.want {
				t.Errorf("%s\ncondition Provisioned is %q, want %q", tc.reason, got, tc.want)
			}
			wantReady := map[bool]fnv1.Ready{true: fnv1.Ready_READY_TRUE, false: fnv1.Ready_READY_FALSE}[tc.want == "True Provisioned"]
			if got := out.rsp.GetDesired().GetComposite().GetReady(); got != wantReady {
				t.Errorf("%s\nthe composite is %s", tc.reason, got)
			}
			if diff := cmp.Diff(at(w.objects[release("aa")], "spec"), out.rsp.GetDesired().GetResources()[composedRelease].GetResource().AsMap()["spec"]); diff != "" {
				t.Errorf("%s\nthe Release changes: -before, +after:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestPageOf(t *testing.T) {
	counts := [pages]int{}
	for i := range 1000 {
		counts[pageOf(fmt.Sprintf("cluster-%d", i))]++
	}
	for n, count := range counts {
		if count < 150 {
			t.Errorf("page %d has %d of 1000 clusters", n, count)
		}
	}
}

func TestLongMessage(t *testing.T) {
	rsp := &fnv1.RunFunctionResponse{}
	isFalse(typeAdmitted, reasonInvalidSpec, strings.Repeat("ä", 2*maxMessage)).set(rsp)
	if got := []rune(rsp.GetConditions()[0].GetMessage()); len(got) != maxMessage || got[maxMessage-1] != '…' {
		t.Errorf("a message of %d characters", len(got))
	}
}

func TestReadRequest(t *testing.T) {
	want := ledger.Request{
		Cluster: "aa", Claim: "team/aa", Created: testTime(), Fence: 7, Provisioned: true,
		Need: ledger.Resources{ledger.CPU: 8000, ledger.Memory: 1 << 34, ledger.Disk: 1 << 36, ledger.Nodes: 2, ledger.Clusters: 1},
	}
	s, err := asStruct(requestMailbox("prod", want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, readRequest(s)); diff != "" {
		t.Errorf("readRequest(requestMailbox(...)): -want, +got:\n%s", diff)
	}
}
