package main

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
)

// preflight is the run of a provider blueprint.
func (r *run) preflight(kind string) error {
	if _, err := r.open(kind, r.xr); err != nil {
		r.set(isFalse(typeProviderReady, reasonInvalidSpec, err.Error()))
		return err
	}
	r.ready = true
	r.set(isUnknown(typeProviderReady, reasonPreflightPending, "the spec is valid; nothing has been looked up at the provider"))
	r.ttl = r.input.Requeue.Steady.Duration
	return nil
}

// provider requires the blueprint that an InfraBlueprint refers to and opens it with the strategy of its kind. The
// condition says what is missing.
func (r *run) provider(infra string, ref v1alpha1.ProviderReference) (strategies.Strategy, *structpb.Struct, error) {
	if _, known := r.providers[ref.Kind]; !known {
		_, err := r.providers.Open(ref.Kind, nil)
		return nil, nil, fmt.Errorf("InfraBlueprint %q: %w", infra, err)
	}
	found := r.need.named(resourceKind{v1alpha1.GroupVersion.String(), ref.Kind}, ref.Name)
	if r.need.unresolved {
		return nil, nil, nil
	}
	if found == nil {
		return nil, nil, fmt.Errorf("InfraBlueprint %q: spec.providerRef.name: Not found: there is no %s %q", infra, ref.Kind, ref.Name)
	}
	s, err := r.open(ref.Kind, found)
	return s, found, err
}

// open a blueprint with the strategy of its kind.
func (r *run) open(kind string, blueprint *structpb.Struct) (strategies.Strategy, error) {
	raw, err := protojson.Marshal(blueprint)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", kind, err)
	}
	s, err := r.providers.Open(kind, raw)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", kind, text(blueprint, "metadata", "name"), err)
	}
	return s, nil
}
