package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

var fra1 = id{v1alpha1.KindHarvesterBlueprint, "fra1"} //nolint:gochecknoglobals // A constant that Go cannot express as one.

// checkedBlueprint refers to one thing of each kind, and to the ProviderConfig that looks them up.
func checkedBlueprint(t testing.TB) object {
	t.Helper()
	return put(put(harvesterBlueprint(t), "longhorn-r3", "spec", "storageClassName"), "harvester", "spec", "providerConfigRef", "name")
}

// checks that the blueprint composes: the Objects by the kind that they look up.
func (w *world) checks() map[string]object {
	out := map[string]object{}
	for _, k := range w.owned(fra1) {
		out[at(w.objects[k], "spec", "forProvider", "manifest", "kind").(string)] = w.objects[k]
	}
	return out
}

func TestPreflight(t *testing.T) {
	found := ready("Ready", "Synced")
	synced := func(reason, message string) []any {
		return []any{object{"type": "Synced", "status": "False", "reason": reason, "message": message}}
	}
	missing := synced("ReconcileError", "observe failed: external resource does not exist")
	all := func(changed map[string][]any) map[string][]any {
		out := map[string][]any{"Namespace": found, "VirtualMachineImage": found, "NetworkAttachmentDefinition": found, "StorageClass": found}
		maps.Copy(out, changed)
		return out
	}
	cases := map[string]struct {
		reason string
		seen   map[string][]any
		want   string
		ready  fnv1.Ready
	}{
		"Passed": {
			reason: "Everything was found.", seen: all(nil), want: "True PreflightPassed: ", ready: fnv1.Ready_READY_TRUE,
		},
		"NothingSeen": {
			reason: "Before anything was looked up nothing is known.", ready: fnv1.Ready_READY_FALSE,
			want: "Unknown PreflightPending: looking up spec.vmNamespace, spec.image, spec.networks[0], spec.storageClassName",
		},
		"OnePending": {
			reason: "One is not looked up yet.", seen: all(map[string][]any{"StorageClass": nil}), ready: fnv1.Ready_READY_FALSE,
			want: "Unknown PreflightPending: looking up spec.storageClassName",
		},
		"Missing": {
			reason: "What is missing is named with its field.", seen: all(map[string][]any{"VirtualMachineImage": missing}), ready: fnv1.Ready_READY_FALSE,
			want: `False PreflightFailed: spec.image: VirtualMachineImage "default/image-x7k2p" is not there`,
		},
		"MissingBeforePending": {
			reason: "What is missing is said before everything is looked up.", ready: fnv1.Ready_READY_FALSE,
			seen: all(map[string][]any{"Namespace": missing, "StorageClass": nil}),
			want: `False PreflightFailed: spec.vmNamespace: Namespace "rig" is not there`,
		},
		"CannotLookUp": {
			reason: "An error is no proof that it is missing.", ready: fnv1.Ready_READY_FALSE,
			seen: all(map[string][]any{"StorageClass": missing, "NetworkAttachmentDefinition": synced("ReconcileError", "observe failed: cannot get object: forbidden")}),
			want: `False PreflightFailed: spec.networks[0]: NetworkAttachmentDefinition "default/vlan10" cannot be looked up: observe failed: cannot get object: forbidden; ` +
				`spec.storageClassName: StorageClass "longhorn-r3" is not there`,
		},
		"WasThere": {
			reason: "provider-kubernetes leaves Ready as it was when something is removed.", ready: fnv1.Ready_READY_FALSE,
			seen: all(map[string][]any{"VirtualMachineImage": append(ready("Ready"), missing...)}),
			want: `False PreflightFailed: spec.image: VirtualMachineImage "default/image-x7k2p" is not there`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, checkedBlueprint(t))
			w.reconcile(fra1)
			for kind, conditions := range tc.seen {
				if conditions != nil {
					w.put(put(w.checks()[kind], conditions, "status", "conditions"))
				}
			}
			req, out := w.call(fra1)
			checkDecided(t, req, out.rsp)
			if got := conditionsOf(out.rsp)[typeProviderReady]; got != tc.want {
				t.Errorf("%s\ncondition ProviderReady:\ngot  %s\nwant %s", tc.reason, got, tc.want)
			}
			if got := out.rsp.GetDesired().GetComposite().GetReady(); got != tc.ready {
				t.Errorf("%s\nthe blueprint is %s, want %s", tc.reason, got, tc.ready)
			}
		})
	}
}

// A check only observes, and through the ProviderConfig that the blueprint names.
func TestPreflightObject(t *testing.T) {
	w := newWorld(t, checkedBlueprint(t))
	w.reconcile(fra1)
	want := object{
		"apiVersion": "kubernetes.crossplane.io/v1alpha2", "kind": "Object",
		"metadata": object{
			"name": "rig-fra1-check-virtualmachineimage-207bf6a0", "labels": object{v1alpha1.LabelBlueprint: "fra1"},
			"annotations": object{
				v1alpha1.AnnotationExternalName: "rig-fra1-check-virtualmachineimage-207bf6a0",
				v1alpha1.AnnotationComposedName: "check-virtualmachineimage-207bf6a0",
			},
		},
		"spec": object{
			"managementPolicies": []any{"Observe"},
			"providerConfigRef":  object{"name": "harvester"},
			"forProvider": object{"manifest": object{
				"apiVersion": "harvesterhci.io/v1beta1", "kind": "VirtualMachineImage", "metadata": object{"name": "image-x7k2p", "namespace": "default"},
			}},
		},
	}
	if diff := cmp.Diff(want, without(w.checks()["VirtualMachineImage"], "metadata", "resourceVersion")); diff != "" {
		t.Errorf("Object: -want, +got:\n%s", diff)
	}
}

// What is looked up no more is given up, and something else is never mistaken for what was found before.
func TestPreflightChanges(t *testing.T) {
	w := newWorld(t, checkedBlueprint(t))
	w.settle()
	w.expect(fra1, typeProviderReady, "True PreflightPassed")
	before := w.checks()
	steps := []struct {
		reason string
		change func(object) object
		kinds  []string
		want   string
	}{
		{
			"Another image is not there because the first one was.",
			func(o object) object { return put(o, "default/image-other", "spec", "image") },
			[]string{"Namespace", "NetworkAttachmentDefinition", "StorageClass", "VirtualMachineImage"},
			"Unknown PreflightPending",
		},
		{
			"What is found through one ProviderConfig may be missing through another.",
			func(o object) object { return put(o, "elsewhere", "spec", "providerConfigRef", "name") },
			[]string{"Namespace", "NetworkAttachmentDefinition", "StorageClass", "VirtualMachineImage"},
			"Unknown PreflightPending",
		},
		{
			"The same network twice is looked up once.",
			func(o object) object { return put(o, []any{"default/vlan10", "default/vlan10"}, "spec", "networks") },
			[]string{"Namespace", "NetworkAttachmentDefinition", "StorageClass", "VirtualMachineImage"},
			"True PreflightPassed",
		},
		{
			"A field that is left out is not looked up.",
			func(o object) object { return without(o, "spec", "storageClassName") },
			[]string{"Namespace", "NetworkAttachmentDefinition", "VirtualMachineImage"},
			"True PreflightPassed",
		},
		{
			"Without a ProviderConfig nothing is.",
			func(o object) object { return without(o, "spec", "providerConfigRef") },
			nil, "Unknown PreflightPending",
		},
	}
	for _, step := range steps {
		w.put(step.change(w.objects[fra1]))
		_, out := w.call(fra1)
		if got := conditionsOf(out.rsp)[typeProviderReady]; !strings.HasPrefix(got, step.want) {
			t.Errorf("%s\ncondition ProviderReady: got %s, want %s", step.reason, got, step.want)
		}
		w.settle()
		if diff := cmp.Diff(step.kinds, slices.Sorted(maps.Keys(w.checks()))); diff != "" {
			t.Errorf("%s\nlooked up: -want, +got:\n%s", step.reason, diff)
		}
	}
	if len(before) != 4 {
		t.Errorf("%d things were looked up at first, want 4", len(before))
	}
}

// A new cluster waits for what is missing at the provider, and says so. One that runs does not care.
func TestProviderNotReady(t *testing.T) {
	w := newWorld(t, infraBlueprint(t, 64), checkedBlueprint(t), clusterBlueprint("aa", "team", "aa", pools(2)))
	w.absent = map[string]bool{"image-x7k2p": true}
	const missing = `HarvesterBlueprint "fra1": spec.image: VirtualMachineImage "default/image-x7k2p" is not there`
	waits := func(name string) {
		t.Helper()
		w.expect(prod, typeProviderReady, "False PreflightFailed")
		w.expect(prod, typeWithinQuota, "True WithinQuota")
		w.expect(xr(name), typeAdmitted, "True Admitted")
		w.expect(xr(name), typeProvisioned, "False ProviderNotReady")
		for _, k := range []id{prod, xr(name)} {
			conditionType := map[bool]string{true: typeProviderReady, false: typeProvisioned}[k == prod]
			if got := w.message(k, conditionType); got != missing {
				t.Errorf("%v says %q, want %q", k, got, missing)
			}
		}
		if at(w.objects[release(name)], "metadata", "annotations", v1alpha1.AnnotationPaused) != "true" {
			t.Errorf("Release %s is not paused", name)
		}
	}
	w.settle()
	waits("aa")

	w.absent = nil
	w.settle()
	w.expect(prod, typeProviderReady, "True PreflightPassed")
	w.expect(xr("aa"), typeProvisioned, "True Provisioned")

	w.absent = map[string]bool{"image-x7k2p": true}
	w.put(clusterBlueprint("bb", "team", "bb", pools(1)))
	w.edit("aa", pools(3))
	w.settle()
	waits("bb")
	w.expect(xr("aa"), typeProvisioned, "True Provisioned")
	w.expectKeeps("aa", "16")
}
