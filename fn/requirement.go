package main

import (
	"cmp"
	"slices"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	"google.golang.org/protobuf/types/known/structpb"
)

// resourceKind that can be required.
type resourceKind struct{ apiVersion, kind string }

// requirements of a run. Crossplane calls the function again until everything that it asked for is resolved, so a run
// asks, and decides only when nothing is unresolved. Listings are read as they came, without a JSON round trip.
type requirements struct {
	req        *fnv1.RunFunctionRequest
	modern     bool
	asked      map[string]*fnv1.ResourceSelector
	unresolved bool
}

func newRequirements(req *fnv1.RunFunctionRequest) *requirements {
	return &requirements{
		req:    req,
		modern: request.HasCapability(req, fnv1.Capability_CAPABILITY_REQUIRED_RESOURCES),
		asked:  map[string]*fnv1.ResourceSelector{},
	}
}

// named returns one cluster-scoped resource, nil when there is none.
func (r *requirements) named(k resourceKind, name string) *structpb.Struct {
	found := r.resolve(k.kind+"/"+name, &fnv1.ResourceSelector{
		ApiVersion: k.apiVersion, Kind: k.kind, Match: &fnv1.ResourceSelector_MatchName{MatchName: name},
	})
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// labelled returns the resources with all of the labels, sorted by name. The key tells listings of one kind apart.
func (r *requirements) labelled(key string, k resourceKind, labels map[string]string) []*structpb.Struct {
	return r.resolve(key, &fnv1.ResourceSelector{
		ApiVersion: k.apiVersion, Kind: k.kind, Match: &fnv1.ResourceSelector_MatchLabels{MatchLabels: &fnv1.MatchLabels{Labels: labels}},
	})
}

func (r *requirements) resolve(key string, selector *fnv1.ResourceSelector) []*structpb.Struct {
	r.asked[key] = selector
	resolved := r.req.GetRequiredResources()
	if !r.modern {
		resolved = r.req.GetExtraResources() //nolint:staticcheck // Crossplane before v2 knows nothing else.
	}
	found, ok := resolved[key]
	if !ok {
		r.unresolved = true
		return nil
	}
	out := make([]*structpb.Struct, 0, len(found.GetItems()))
	for _, item := range found.GetItems() {
		out = append(out, item.GetResource())
	}
	slices.SortFunc(out, func(a, b *structpb.Struct) int {
		return cmp.Compare(text(a, "metadata", "name"), text(b, "metadata", "name"))
	})
	return out
}

// set the requirements in the response. They are the same on every call that sees the same, or Crossplane never
// considers them stable.
func (r *requirements) set(rsp *fnv1.RunFunctionResponse) {
	if len(r.asked) == 0 {
		return
	}
	rsp.Requirements = &fnv1.Requirements{}
	if r.modern {
		rsp.Requirements.Resources = r.asked
		return
	}
	rsp.Requirements.ExtraResources = r.asked //nolint:staticcheck // Crossplane before v2 knows nothing else.
}
