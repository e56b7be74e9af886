package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/charts"
	"github.com/rig-gateway/function-rig/internal/builder"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
)

// object as JSON has it: maps, slices, strings, float64 and bool.
type object = map[string]any

// testTime is when most tests happen.
func testTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// newFunction with the real strategies and the real chart.
func newFunction(t testing.TB, now func() time.Time) *Function {
	t.Helper()
	chart, err := charts.RKE2Cluster()
	if err != nil {
		t.Fatal(err)
	}
	build, err := builder.New(chart)
	if err != nil {
		t.Fatal(err)
	}
	return &Function{log: logging.NewNopLogger(), providers: table(), builder: build, now: now}
}

// run the function once.
func runFunction(t testing.TB, f *Function, req *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
	t.Helper()
	rsp, err := f.RunFunction(context.Background(), req)
	if err != nil {
		t.Fatalf("RunFunction(...): %v: Crossplane would drop the response", err)
	}
	return rsp
}

// fromYAML reads an object, formatted with arguments.
func fromYAML(t testing.TB, text string, args ...any) object {
	t.Helper()
	out := object{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, text, args...), &out); err != nil {
		t.Fatalf("cannot read %s: %v", text, err)
	}
	return out
}

// plain is an API type as an object.
func plain(t testing.TB, in any) object {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	out := object{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func structOfObject(t testing.TB, in object) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(in)
	if err != nil {
		t.Fatalf("cannot encode %v: %v", in, err)
	}
	return s
}

// infraBlueprint with a quota of cpus; of memory and disk there is plenty.
func infraBlueprint(t testing.TB, cpu int) object {
	t.Helper()
	return fromYAML(t, `
apiVersion: rig-gateway.io/v1alpha1
kind: InfraBlueprint
metadata: {name: prod, uid: uid-prod, resourceVersion: "1"}
spec:
  providerRef: {kind: HarvesterBlueprint, name: fra1}
  quota: {cpu: "%d", memory: 4Ti, disk: 64Ti}
  credentials:
    rancherProviderConfigRef: {name: rancher}
    infrastructureProviderConfigRef: {name: harvester-fra1}
    cloudCredentialSecretName: cattle-global-data:cc-abcde
  chart: {repository: "oci://registry.example.org/charts"}
`, cpu)
}

func harvesterBlueprint(t testing.TB) object {
	t.Helper()
	return fromYAML(t, `
apiVersion: rig-gateway.io/v1alpha1
kind: HarvesterBlueprint
metadata: {name: fra1}
spec:
  endpoint: https://10.0.0.10:6443
  vmNamespace: rig
  image: default/image-x7k2p
  networks: [default/vlan10]
  sshUser: ubuntu
`)
}

// pool of nodes with 4 cpus.
func pool(name string, count int, roles ...any) object {
	return object{"name": name, "count": float64(count), "roles": roles, "cpu": "4", "memory": "8Gi", "disk": "40Gi"}
}

// pools of a cluster: one node for everything, and workers.
func pools(workers int) []any {
	return []any{pool("all", 1, "control-plane", "etcd", "worker"), pool("workers", workers, "worker")}
}

// clusterBlueprint as its composite.
func clusterBlueprint(name, namespace, claim string, wanted []any) object {
	return object{
		"apiVersion": "rig-gateway.io/v1alpha1", "kind": "XClusterBlueprint",
		"metadata": object{
			"name": name, "uid": "uid-" + name, "resourceVersion": "1", "creationTimestamp": testTime().Format(time.RFC3339),
			"labels": object{v1alpha1.LabelClaimName: claim, v1alpha1.LabelClaimNamespace: namespace},
		},
		"spec": object{
			"infraBlueprintRef": object{"name": "prod"}, "kubernetesVersion": "v1.31.7+rke2r1", "pools": wanted,
			"writeConnectionSecretToRef": object{"name": "uid-" + name, "namespace": "crossplane-system"},
		},
	}
}

// at a path of an object; nil when there is none.
func at(in any, path ...string) any {
	for _, k := range path {
		m, ok := in.(object)
		if !ok {
			return nil
		}
		in = m[k]
	}
	return in
}

// put a value at a path; everything on the way is copied.
func put(in object, value any, path ...string) object {
	out := maps.Clone(in)
	if out == nil {
		out = object{}
	}
	if len(path) > 1 {
		next, _ := out[path[0]].(object)
		value = put(next, value, path[1:]...)
	}
	out[path[0]] = value
	return out
}

func without(in object, path ...string) object {
	out := maps.Clone(in)
	if len(path) == 1 {
		delete(out, path[0])
		return out
	}
	if next, ok := out[path[0]].(object); ok {
		out[path[0]] = without(next, path[1:]...)
	}
	return out
}

// conditionsOf a response by type, as "status reason: message".
func conditionsOf(rsp *fnv1.RunFunctionResponse) map[string]string {
	out := map[string]string{}
	for _, c := range rsp.GetConditions() {
		out[c.GetType()] = fmt.Sprintf("%s %s: %s", statusOf(c), c.GetReason(), c.GetMessage())
	}
	return out
}

func statusOf(c *fnv1.Condition) string {
	switch c.GetStatus() {
	case fnv1.Status_STATUS_CONDITION_TRUE:
		return "True"
	case fnv1.Status_STATUS_CONDITION_FALSE:
		return "False"
	case fnv1.Status_STATUS_CONDITION_UNKNOWN, fnv1.Status_STATUS_CONDITION_UNSPECIFIED:
	}
	return "Unknown"
}

// fatalOf a response: its message, empty when it succeeded.
func fatalOf(rsp *fnv1.RunFunctionResponse) string {
	for _, r := range rsp.GetResults() {
		if r.GetSeverity() == fnv1.Severity_SEVERITY_FATAL {
			return r.GetMessage()
		}
	}
	return ""
}

// id of an object on the control plane. Everything there is cluster-scoped.
type id struct{ kind, name string }

func idOf(in object) id {
	kind, _ := in["kind"].(string)
	name, _ := at(in, "metadata", "name").(string)
	if kind == "ProviderConfig" {
		// Each provider has its own.
		group, _ := in["apiVersion"].(string)
		kind += "." + group
	}
	return id{kind, name}
}

// world is a control plane in memory: it does with composites what Crossplane does, and with Releases and Objects what
// their providers and Rancher do.
type world struct {
	t   testing.TB
	fn  *Function
	now time.Time

	objects map[id]object
	owners  map[id]id
	secrets map[id]map[string][]byte // Connection details.
	asked   map[id]*fnv1.Requirements
	rancher map[string]*rancherCluster
	limited map[id]object // Namespaces and ResourceQuotas of Harvester.
	version int
	// rolling is how many ticks Rancher takes to roll or remove machines.
	rolling int
	input   object          // Of the function, as the Composition gives it.
	legacy  bool            // Crossplane without required resources.
	absent  map[string]bool // Names of what is not there at the provider.

	past   []map[id]object
	caches map[string]map[id]object // By kind.
	// lag says how many ticks old a cache of a kind is.
	lag func(kind string) int
	// crash says after how many applied resources a reconcile ends; negative when it does not.
	crash func(resources int) int
}

// rancherCluster is what Rancher and the infrastructure have of a cluster.
type rancherCluster struct {
	annotations, target object // Target is quantity by pool.
	nodes               map[string]ledger.Resources
	live                map[string]ledger.Pool // The most that may exist of each pool.
	left                int
	deleting            bool
}

func newWorld(t testing.TB, seed ...object) *world {
	t.Helper()
	w := &world{
		t: t, now: testTime(), objects: map[id]object{}, owners: map[id]id{}, secrets: map[id]map[string][]byte{},
		asked: map[id]*fnv1.Requirements{}, rancher: map[string]*rancherCluster{}, limited: map[id]object{}, rolling: 2,
		lag: func(string) int { return 0 }, crash: func(int) int { return -1 },
	}
	w.fn = newFunction(t, func() time.Time { return w.now })
	for _, o := range seed {
		w.put(o)
	}
	w.tick(0)
	return w
}

// clone of a world, for another test. Objects are never changed in place.
func (w *world) clone(t testing.TB) *world {
	t.Helper()
	out := *w
	out.t = t
	out.fn = &Function{log: w.fn.log, providers: w.fn.providers, builder: w.fn.builder, now: func() time.Time { return out.now }}
	out.objects, out.owners, out.secrets, out.asked = maps.Clone(w.objects), maps.Clone(w.owners), maps.Clone(w.secrets), maps.Clone(w.asked)
	out.rancher = map[string]*rancherCluster{}
	for name, c := range w.rancher {
		copied := *c
		copied.live = maps.Clone(c.live)
		out.rancher[name] = &copied
	}
	out.limited = maps.Clone(w.limited)
	out.past = slices.Clone(w.past)
	return &out
}

// put an object. One that stays the same gets no new version.
func (w *world) put(in object) {
	k := idOf(in)
	old, exists := w.objects[k]
	if exists && reflect.DeepEqual(without(old, "metadata", "resourceVersion"), without(in, "metadata", "resourceVersion")) {
		return
	}
	w.version++
	w.objects[k] = put(in, strconv.Itoa(w.version), "metadata", "resourceVersion")
}

func (w *world) drop(k id) {
	delete(w.objects, k)
	delete(w.owners, k)
	delete(w.secrets, k)
}

// see what the cache of the kind has. It stays the same during one reconcile.
func (w *world) see(kind string) map[id]object {
	if cache, ok := w.caches[kind]; ok {
		return cache
	}
	cache := maps.Clone(w.objects)
	if lag := w.lag(kind); lag > 0 && len(w.past) > 0 {
		cache = w.past[max(0, len(w.past)-lag)]
	}
	w.caches[kind] = cache
	return cache
}

// tick lets time pass, and providers work.
func (w *world) tick(d time.Duration) {
	w.now = w.now.Add(d)
	for _, k := range slices.SortedFunc(maps.Keys(w.objects), byID) {
		switch k.kind {
		case "Release":
			w.provideRelease(k)
		case "Object":
			w.provideObject(k)
		}
	}
	for name, c := range w.rancher {
		if c.left > 0 {
			c.left--
		}
		switch {
		case c.left > 0:
		case c.deleting:
			delete(w.rancher, name)
		default:
			c.live = map[string]ledger.Pool{}
			c.grow()
		}
	}
	w.collect()
	w.past = append(w.past, maps.Clone(w.objects))
}

func byID(a, b id) int {
	if a.kind != b.kind {
		if a.kind < b.kind {
			return -1
		}
		return 1
	}
	if a.name < b.name {
		return -1
	}
	return 1
}

// grow what may exist by what is wanted.
func (c *rancherCluster) grow() {
	for name, quantity := range c.target {
		p := c.live[name]
		c.live[name] = ledger.Pool{Name: name, Count: max(p.Count, int64(quantity.(float64))), Node: p.Node.Max(c.nodes[name])}
	}
}

func (c *rancherCluster) takes() (sum ledger.Resources) {
	for _, p := range c.live {
		sum = sum.Plus(p.Node.Times(p.Count))
	}
	return sum
}

func ready(types ...string) []any {
	var out []any
	for _, conditionType := range types {
		out = append(out, object{"type": conditionType, "status": "True", "reason": "Available"})
	}
	return out
}

// provideRelease is provider-helm.
func (w *world) provideRelease(k id) {
	o := w.objects[k]
	if at(o, "metadata", "deletionTimestamp") != nil {
		w.remove(k.name)
		w.drop(k)
		return
	}
	if at(o, "metadata", "annotations", v1alpha1.AnnotationPaused) == "true" {
		return
	}
	o = put(o, []any{"finalizer.managedresource.crossplane.io"}, "metadata", "finalizers")
	w.put(put(o, object{"atProvider": object{"state": "deployed"}, "conditions": ready("Ready", "Synced")}, "status"))
	if !reflect.DeepEqual(at(o, "spec", "forProvider", "values", "cluster", "name"), k.name) {
		w.t.Errorf("Release %s installs cluster %v", k.name, at(o, "spec", "forProvider", "values", "cluster", "name"))
	}
	var record v1alpha1.QuotaRecord
	if err := json.Unmarshal([]byte(at(o, "metadata", "annotations", v1alpha1.AnnotationQuota).(string)), &record); err != nil {
		w.t.Errorf("Release %s: annotation %s: %v", k.name, v1alpha1.AnnotationQuota, err)
	}
	parsed, _ := ledger.ParseRecord(nil, record)
	target, nodes := object{}, map[string]ledger.Resources{}
	for name, pool := range at(o, "spec", "forProvider", "values", "pools").(object) {
		target[name] = at(pool, "quantity")
		for _, p := range parsed.Pools {
			if name == p.Name || at(pool, "machineConfig", "zone") != nil && name[:len(name)-len("-a")] == p.Name {
				nodes[name] = p.Node
			}
		}
	}
	c := w.rancher[k.name]
	if c == nil {
		c = &rancherCluster{live: map[string]ledger.Pool{}}
		w.rancher[k.name] = c
	}
	if c.deleting || reflect.DeepEqual(c.target, target) && reflect.DeepEqual(c.nodes, nodes) {
		c.annotations, _ = at(o, "spec", "forProvider", "values", "cluster", "annotations").(object)
		return
	}
	c.annotations, _ = at(o, "spec", "forProvider", "values", "cluster", "annotations").(object)
	c.target, c.nodes, c.left = target, nodes, w.rolling+1
	c.grow()
}

func (w *world) remove(cluster string) {
	if c := w.rancher[cluster]; c != nil && !c.deleting {
		c.deleting, c.left = true, w.rolling+1
	}
}

// provideObject is provider-kubernetes.
func (w *world) provideObject(k id) {
	o := w.objects[k]
	manifest := at(o, "spec", "forProvider", "manifest").(object)
	if name, _ := at(o, "metadata", "annotations", v1alpha1.AnnotationComposedName).(string); strings.HasPrefix(name, strategies.BackstopPrefix) {
		w.provideLimit(k)
		return
	}
	cluster, _ := at(manifest, "metadata", "name").(string)
	watched := manifest["kind"] == "Cluster"
	managed, _ := at(o, "spec", "managementPolicies").([]any)
	barrier := slices.Contains(managed, any("Delete"))
	c := w.rancher[cluster]
	if at(o, "metadata", "deletionTimestamp") != nil {
		if watched && barrier && c != nil {
			w.remove(cluster)
			return
		}
		w.drop(k)
		return
	}
	if at(o, "metadata", "annotations", v1alpha1.AnnotationPaused) == "true" {
		return
	}
	if barrier || !watched || c != nil {
		o = put(o, []any{"finalizer.managedresource.crossplane.io"}, "metadata", "finalizers")
	}
	switch {
	case w.absent[cluster]:
		conditions := object{"type": "Synced", "status": "False", "reason": "ReconcileError", "message": "observe failed: external resource does not exist"}
		w.put(put(o, []any{conditions}, "status", "conditions"))
	case !watched:
		w.put(put(o, object{"conditions": ready("Ready", "Synced"), "atProvider": object{"manifest": manifest}}, "status"))
	case c == nil && barrier:
		// What was seen before stays, Ready included.
		if o["status"] == nil {
			w.put(put(o, ready("Synced"), "status", "conditions"))
		}
	case c == nil:
		before, _ := at(o, "status", "conditions").([]any)
		conditions := []any{object{
			"type": "Synced", "status": "False", "reason": "ReconcileError", "message": "observe failed: external resource does not exist",
		}}
		for _, other := range before {
			if at(other, "type") != "Synced" {
				conditions = append(conditions, other)
			}
		}
		w.put(put(o, conditions, "status", "conditions"))
	default:
		var list []any
		for _, name := range slices.Sorted(maps.Keys(c.target)) {
			list = append(list, object{"name": name, "quantity": c.target[name]})
		}
		live := put(manifest, object{"rkeConfig": object{"machinePools": list}}, "spec")
		live = put(live, c.annotations, "metadata", "annotations")
		status := object{"atProvider": object{"manifest": live}, "conditions": ready("Synced")}
		if c.left == 0 && !c.deleting {
			status["conditions"] = ready("Ready", "Synced")
		}
		if at(o, "spec", "writeConnectionSecretToRef") != nil {
			w.secrets[k] = map[string][]byte{"kubeconfig": []byte("kubeconfig of " + cluster)}
		}
		w.put(put(o, status, "status"))
	}
}

// owned resources of a composite.
func (w *world) owned(xr id) []id {
	var out []id
	for k, owner := range w.owners {
		if owner == xr {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, byID)
	return out
}

// delete a composite. In the foreground it stays until nothing that it composes is left.
func (w *world) delete(xr id, foreground bool) {
	if foreground {
		w.put(put(w.objects[xr], w.now.Format(time.RFC3339), "metadata", "deletionTimestamp"))
	} else {
		w.drop(xr)
	}
	w.collect()
}

// collect garbage: what a composite that is deleted, or gone, composed.
func (w *world) collect() {
	for _, k := range slices.SortedFunc(maps.Keys(w.owners), byID) {
		owner, exists := w.objects[w.owners[k]]
		switch {
		case exists && at(owner, "metadata", "deletionTimestamp") == nil:
		case k.kind == environmentConfig.kind:
			w.drop(k)
		case at(w.objects[k], "metadata", "deletionTimestamp") == nil:
			w.put(put(w.objects[k], w.now.Format(time.RFC3339), "metadata", "deletionTimestamp"))
		}
	}
	for k, o := range w.objects {
		_, composed := w.owners[k]
		if at(o, "metadata", "deletionTimestamp") != nil && !composed && len(w.owned(k)) == 0 {
			w.drop(k)
		}
	}
}

// outcome of a reconcile.
type outcome struct {
	rsp      *fnv1.RunFunctionResponse
	calls    int
	conflict bool
}

// request for a composite, without what it requires.
func (w *world) request(xr id) *fnv1.RunFunctionRequest {
	seen := w.see(xr.kind)[xr]
	if seen == nil || at(seen, "metadata", "deletionTimestamp") != nil {
		return nil
	}
	req := &fnv1.RunFunctionRequest{
		Meta: &fnv1.RequestMeta{Tag: "world"},
		Observed: &fnv1.State{
			Composite: &fnv1.Resource{Resource: structOfObject(w.t, seen), ConnectionDetails: w.secrets[xr]},
			Resources: map[string]*fnv1.Resource{},
		},
		Desired: &fnv1.State{},
	}
	if w.input != nil {
		req.Input = structOfObject(w.t, w.input)
	}
	if !w.legacy {
		req.Meta.Capabilities = []fnv1.Capability{fnv1.Capability_CAPABILITY_CAPABILITIES, fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES}
	}
	refs, _ := at(seen, "spec", "resourceRefs").([]any)
	for _, ref := range refs {
		k := id{at(ref, "kind").(string), at(ref, "name").(string)}
		o := w.see(k.kind)[k]
		if o == nil {
			continue
		}
		name, composed := at(o, "metadata", "annotations", v1alpha1.AnnotationComposedName).(string)
		if !composed {
			continue
		}
		req.Observed.Resources[name] = &fnv1.Resource{Resource: structOfObject(w.t, o), ConnectionDetails: w.secrets[k]}
	}
	return req
}

// resolve requirements the way Crossplane does.
func (w *world) resolve(req *fnv1.RunFunctionRequest, need *fnv1.Requirements) {
	find := func(selectors map[string]*fnv1.ResourceSelector) map[string]*fnv1.Resources {
		out := map[string]*fnv1.Resources{}
		for key, s := range selectors {
			out[key] = &fnv1.Resources{}
			for k, o := range w.see(s.GetKind()) {
				if k.kind == s.GetKind() && o["apiVersion"] == s.GetApiVersion() && selects(s, o) {
					out[key].Items = append(out[key].Items, &fnv1.Resource{Resource: structOfObject(w.t, o)})
				}
			}
		}
		return out
	}
	req.RequiredResources = find(need.GetResources())
	req.ExtraResources = find(need.GetExtraResources()) //nolint:staticcheck // Old versions of Crossplane are tested too.
}

func selects(s *fnv1.ResourceSelector, o object) bool {
	if s.GetMatchName() != "" {
		return at(o, "metadata", "name") == s.GetMatchName()
	}
	for k, v := range s.GetMatchLabels().GetLabels() {
		if at(o, "metadata", "labels", k) != v {
			return false
		}
	}
	return true
}

// call the function until its requirements are stable.
func (w *world) call(xr id) (*fnv1.RunFunctionRequest, *outcome) {
	w.caches = map[string]map[id]object{}
	req := w.request(xr)
	if req == nil {
		return nil, nil
	}
	need, out := w.asked[xr], &outcome{}
	for {
		if out.calls++; out.calls > 6 {
			w.t.Fatalf("%v: requirements are not stable after 6 calls: %v", xr, need)
		}
		w.resolve(req, need)
		out.rsp = runFunction(w.t, w.fn, req)
		if fatalOf(out.rsp) != "" || proto.Equal(out.rsp.GetRequirements(), need) {
			return req, out
		}
		need = out.rsp.GetRequirements()
		w.asked[xr] = need
	}
}

// mayGo says whether a response may leave out what exists: what only looks; ProviderConfigs, where nothing is reserved; and
// what protects others, where it protects something else instead, or nothing is reserved; and what limits an infrastructure,
// unless the backstop is refused.
func mayGo(name string, rsp *fnv1.RunFunctionResponse) bool {
	if strings.HasPrefix(name, checkPrefix) {
		return true
	}
	if strings.HasPrefix(name, strategies.BackstopPrefix) {
		reason := strings.Fields(conditionsOf(rsp)[typeBackstop])[1]
		return slices.Contains([]string{
			reasonBackstopDisabled + ":", reasonBackstopEnforced + ":", reasonBackstopPending + ":", reasonBackstopNotEnforced + ":",
		}, reason)
	}
	configs := strings.HasPrefix(name, "providerconfig-")
	if !configs && !strings.HasPrefix(name, usagePrefix) {
		return false
	}
	for other := range rsp.GetDesired().GetResources() {
		if !configs && strings.HasPrefix(other, usagePrefix) {
			return true
		}
	}
	return value(rsp.GetDesired().GetComposite().GetResource(), "status", "ledger", "grants") == nil
}

// reconcile a composite as Crossplane v2.4 does: call the function, remove what it omits, write the references, apply
// what it composes, then write the status by compare-and-swap.
func (w *world) reconcile(xr id) *outcome {
	req, out := w.call(xr)
	if out == nil {
		return nil
	}
	if fatalOf(out.rsp) != "" {
		w.writeConditions(xr, text(req.GetObserved().GetComposite().GetResource(), "metadata", "resourceVersion"), out.rsp)
		return out
	}
	desired := out.rsp.GetDesired().GetResources()
	for name, o := range req.GetObserved().GetResources() {
		if _, ok := desired[name]; !ok {
			if !mayGo(name, out.rsp) {
				w.t.Errorf("%v: a successful response omits %q, so Crossplane deletes it", xr, name)
			}
			if k := idOf(o.GetResource().AsMap()); k.kind == "Object" && strings.HasPrefix(name, strategies.BackstopPrefix) {
				w.put(put(w.objects[k], w.now.Format(time.RFC3339), "metadata", "deletionTimestamp"))
			} else {
				w.drop(k)
			}
		}
	}
	current, exists := w.objects[xr]
	if !exists {
		return out
	}
	var refs []any
	for _, name := range slices.Sorted(maps.Keys(desired)) {
		k := idOf(desired[name].GetResource().AsMap())
		refs = append(refs, object{"kind": k.kind, "name": k.name})
	}
	if len(refs) > 0 {
		current = put(current, refs, "spec", "resourceRefs")
		w.put(current)
	}
	crash := w.crash(len(desired))
	for i, name := range slices.Sorted(maps.Keys(desired)) {
		if i == crash {
			return out
		}
		w.apply(xr, name, desired[name].GetResource().AsMap())
	}
	if crash == len(desired) {
		return out
	}
	w.writeStatus(xr, out)
	return out
}

func (w *world) apply(xr id, name string, o object) {
	k := idOf(o)
	o = put(o, name, "metadata", "annotations", v1alpha1.AnnotationComposedName)
	old, exists := w.objects[k]
	if owner, owned := w.owners[k]; exists && (!owned || owner != xr) {
		w.t.Errorf("%v: cannot apply %v: it belongs to %v", xr, k, owner)
		return
	}
	if exists {
		for _, field := range []string{"uid", "creationTimestamp", "finalizers", "deletionTimestamp", "resourceVersion"} {
			if v := at(old, "metadata", field); v != nil {
				o = put(o, v, "metadata", field)
			}
		}
		if status, ok := old["status"]; ok {
			o["status"] = status
		}
	}
	w.owners[k] = xr
	w.put(o)
}

func (w *world) writeStatus(xr id, out *outcome) {
	composite := out.rsp.GetDesired().GetComposite()
	current := w.objects[xr]
	if text(composite.GetResource(), "metadata", "resourceVersion") != at(current, "metadata", "resourceVersion") {
		out.conflict = true
		return
	}
	status := value(composite.GetResource(), "status").GetStructValue().AsMap()
	allReady := composite.GetReady() == fnv1.Ready_READY_TRUE
	list := []any{object{"type": "Ready", "status": map[bool]string{true: "True", false: "False"}[allReady], "reason": "Available"}}
	for _, c := range out.rsp.GetConditions() {
		list = append(list, object{"type": c.GetType(), "status": statusOf(c), "reason": c.GetReason(), "message": c.GetMessage()})
	}
	status["conditions"] = list
	w.put(put(current, status, "status"))
	if d := composite.GetConnectionDetails(); len(d) > 0 {
		w.secrets[xr] = d
	}
}

// writeConditions after a fatal run. Those that it did not set become unknown.
func (w *world) writeConditions(xr id, version string, rsp *fnv1.RunFunctionResponse) {
	current, exists := w.objects[xr]
	if !exists || at(current, "metadata", "resourceVersion") != version {
		return
	}
	set := map[string]any{}
	before, _ := at(current, "status", "conditions").([]any)
	for _, c := range before {
		conditionType, _ := at(c, "type").(string)
		set[conditionType] = object{"type": conditionType, "status": "Unknown", "reason": "FatalError"}
		if conditionType == "Ready" {
			set[conditionType] = c
		}
	}
	for _, c := range rsp.GetConditions() {
		set[c.GetType()] = object{"type": c.GetType(), "status": statusOf(c), "reason": c.GetReason(), "message": c.GetMessage()}
	}
	var list []any
	for _, conditionType := range slices.Sorted(maps.Keys(set)) {
		list = append(list, set[conditionType])
	}
	w.put(put(current, list, "status", "conditions"))
}

// composites of the world, in order.
func (w *world) composites() []id {
	var out []id
	for k := range w.objects {
		if k.kind == v1alpha1.KindInfraBlueprint || k.kind == v1alpha1.KindXClusterBlueprint || k.kind == v1alpha1.KindHarvesterBlueprint {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, byID)
	return out
}

// settle reconciles everything, five seconds apart, until nothing changes for three rounds. It fails after a hundred.
func (w *world) settle() {
	w.t.Helper()
	quiet := 0
	for range 100 {
		before := w.version
		for _, xr := range w.composites() {
			w.reconcile(xr)
		}
		w.tick(5 * time.Second)
		if quiet++; w.version != before || w.busy() {
			quiet = 0
		}
		if quiet == 3 {
			return
		}
	}
	w.t.Fatal("nothing comes to rest in 100 rounds")
}

// busy says whether Rancher rolls or removes machines.
func (w *world) busy() bool {
	for _, c := range w.rancher {
		if c.left > 0 {
			return true
		}
	}
	return false
}

// rounds of reconciling everything, five seconds apart.
func (w *world) rounds(n int) {
	for range n {
		for _, xr := range w.composites() {
			w.reconcile(xr)
		}
		w.tick(5 * time.Second)
	}
}

// until a condition holds, one round after the other.
func (w *world) until(holds func() bool) {
	w.t.Helper()
	for range 100 {
		if holds() {
			return
		}
		w.rounds(1)
	}
	w.t.Fatal("nothing comes of it in 100 rounds")
}

// condition of an object as "status reason".
func (w *world) condition(k id, conditionType string) string {
	list, _ := at(w.objects[k], "status", "conditions").([]any)
	for _, c := range list {
		if at(c, "type") == conditionType {
			return fmt.Sprintf("%v %v", at(c, "status"), at(c, "reason"))
		}
	}
	return ""
}

// message of a condition.
func (w *world) message(k id, conditionType string) string {
	list, _ := at(w.objects[k], "status", "conditions").([]any)
	for _, c := range list {
		if at(c, "type") == conditionType {
			message, _ := at(c, "message").(string)
			return message
		}
	}
	return ""
}

// committed is what the records, the active Releases and the machines of every cluster take at most.
func (w *world) committed() (sum ledger.Resources) {
	clusters := map[string]ledger.Resources{}
	for k, o := range w.objects {
		switch k.kind {
		case v1alpha1.KindXClusterBlueprint:
			keeps, _ := readResources(structOfObject(w.t, o), "status", "quota", "keeps")
			clusters[k.name] = clusters[k.name].Max(keeps)
		case "Release":
			if at(o, "metadata", "annotations", v1alpha1.AnnotationPaused) != "true" {
				holds, err := readHolds(structOfObject(w.t, o))
				if err != nil {
					w.t.Errorf("%v: %v", k, err)
				}
				clusters[k.name] = clusters[k.name].Max(holds)
			}
		}
	}
	for name, c := range w.rancher {
		clusters[name] = clusters[name].Max(c.takes())
	}
	for _, r := range clusters {
		sum = sum.Plus(r)
	}
	return sum
}
