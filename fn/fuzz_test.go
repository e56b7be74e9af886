package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// FuzzRunFunction: whatever a composite, what it composes and what it requires look like, the run answers, without the
// panic guard, and does not delete what exists.
func FuzzRunFunction(f *testing.F) {
	for stage, start := range stages() {
		w := start(f)
		for _, k := range w.composites() {
			req, _ := w.call(k)
			if req == nil {
				continue
			}
			f.Add(jsonOf(f, req.GetObserved().GetComposite().GetResource()), jsonOf(f, composedOf(req)), jsonOf(f, requiredOf(req)), stage == "Fresh")
		}
	}
	f.Add(`{"kind":"XClusterBlueprint"}`, `null`, `null`, false)
	f.Add(`{"kind":"InfraBlueprint","metadata":[],"status":{"ledger":{"grants":[null,7]}}}`, `{"terms":null,"page-0":{"data":1}}`, `{"requests":[null,{"metadata":{"name":"rig-request-"}}]}`, true)
	f.Add(`{"kind":"HarvesterBlueprint","spec":null}`, `[]`, `{}`, true)

	fn := newFunction(f, testTime)
	f.Fuzz(func(t *testing.T, composite, composed, required string, modern bool) {
		req := &fnv1.RunFunctionRequest{Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: structFrom(composite)}, Resources: map[string]*fnv1.Resource{}}}
		for name, v := range structFrom(composed).GetFields() {
			req.Observed.Resources[name] = &fnv1.Resource{Resource: v.GetStructValue()}
		}
		if modern {
			req.Meta = &fnv1.RequestMeta{Capabilities: []fnv1.Capability{fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES}}
		}
		found := map[string]*fnv1.Resources{}
		for key, list := range structFrom(required).GetFields() {
			found[key] = &fnv1.Resources{}
			for _, v := range list.GetListValue().GetValues() {
				found[key].Items = append(found[key].Items, &fnv1.Resource{Resource: v.GetStructValue()})
			}
		}
		checkAnything(t, fn, req, found)
	})
}

// checkAnything runs the function until it asks for nothing more, and checks what holds for every request. What was not
// given does not exist.
func checkAnything(t testing.TB, fn *Function, req *fnv1.RunFunctionRequest, found map[string]*fnv1.Resources) {
	t.Helper()
	rsp := &fnv1.RunFunctionResponse{}
	for range 6 {
		req.RequiredResources, req.ExtraResources = found, found //nolint:staticcheck // Old versions of Crossplane are tested too.
		rsp = runFunction(t, fn, req)
		missing := false
		for _, asked := range []map[string]*fnv1.ResourceSelector{rsp.GetRequirements().GetResources(), rsp.GetRequirements().GetExtraResources()} { //nolint:staticcheck // Old versions of Crossplane are tested too.
			for key := range asked {
				if found[key] == nil {
					found[key], missing = &fnv1.Resources{}, true
				}
			}
		}
		if !missing {
			break
		}
	}
	failure := fatalOf(rsp)
	if strings.Contains(failure, "panicked") {
		t.Fatal(failure)
	}
	switch kind := text(req.GetObserved().GetComposite().GetResource(), "kind"); kind {
	case v1alpha1.KindClusterBlueprint, v1alpha1.KindXClusterBlueprint, v1alpha1.KindInfraBlueprint, v1alpha1.KindHarvesterBlueprint:
		checkDecided(t, req, rsp)
	default:
		if failure == "" {
			t.Errorf("a composite of kind %q is accepted", kind)
		}
	}
	if _, err := protojson.Marshal(rsp); err != nil {
		t.Errorf("the response cannot be written: %v", err)
	}
}

// mutate one place of an object, in place: another value, or none at all.
func mutate(rnd *rand.Rand, s *structpb.Struct) string {
	path := ""
	for {
		keys := slices.Sorted(maps.Keys(s.GetFields()))
		if len(keys) == 0 {
			return path
		}
		key := keys[rnd.IntN(len(keys))]
		path += "." + key
		v := s.GetFields()[key]
		if list := v.GetListValue().GetValues(); len(list) > 0 && rnd.IntN(6) > 0 {
			v = list[rnd.IntN(len(list))]
		}
		if next := v.GetStructValue(); len(next.GetFields()) > 0 && rnd.IntN(6) > 0 {
			s = next
			continue
		}
		odd := []any{nil, "", "x", "-1", "9223372036854775807", -1.0, 1.5, 1e300, true, []any{}, []any{nil}, object{}, object{"cpu": "1"}}
		n := rnd.IntN(len(odd) + 1)
		if n == len(odd) {
			delete(s.GetFields(), key)
			return path + " removed"
		}
		replaced, _ := structpb.NewValue(odd[n])
		v.Kind = replaced.GetKind()
		return fmt.Sprintf("%s = %v", path, odd[n])
	}
}

// TestMutations: real requests in which a place or two hold something else.
func TestMutations(t *testing.T) {
	tries := 900
	if testing.Short() {
		tries = 150
	}
	for stage, start := range stages() {
		w := start(t)
		for _, k := range w.composites() {
			original, _ := w.call(k)
			rnd := rand.New(rand.NewPCG(3, 4))
			for range tries / 9 {
				req := proto.CloneOf(original)
				req.Desired = nil
				found := req.GetRequiredResources()
				if found == nil {
					found = map[string]*fnv1.Resources{}
				}
				places := []*structpb.Struct{req.GetObserved().GetComposite().GetResource()}
				for _, name := range slices.Sorted(maps.Keys(req.GetObserved().GetResources())) {
					places = append(places, req.GetObserved().GetResources()[name].GetResource())
				}
				for _, name := range slices.Sorted(maps.Keys(found)) {
					for _, item := range found[name].GetItems() {
						places = append(places, item.GetResource())
					}
				}
				var did []string
				for range 1 + rnd.IntN(2) {
					place := places[rnd.IntN(len(places))]
					did = append(did, text(place, "kind")+" "+text(place, "metadata", "name")+mutate(rnd, place))
				}
				checkAnything(t, w.fn, req, found)
				if t.Failed() {
					t.Fatalf("%s %v: %s", stage, k, strings.Join(did, ", "))
				}
			}
		}
	}
}

func jsonOf(t testing.TB, in any) string {
	t.Helper()
	if m, ok := in.(*structpb.Struct); ok {
		in = m.AsMap()
	}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func composedOf(req *fnv1.RunFunctionRequest) object {
	out := object{}
	for name, r := range req.GetObserved().GetResources() {
		out[name] = r.GetResource().AsMap()
	}
	return out
}

func requiredOf(req *fnv1.RunFunctionRequest) object {
	out := object{}
	for key, found := range req.GetRequiredResources() {
		list := []any{}
		for _, r := range found.GetItems() {
			list = append(list, r.GetResource().AsMap())
		}
		out[key] = list
	}
	return out
}

// structFrom JSON; nil where it is no object.
func structFrom(raw string) *structpb.Struct {
	out := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(raw), out); err != nil {
		return nil
	}
	return out
}
