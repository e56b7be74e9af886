package main

import (
	"cmp"
	"fmt"
	"strings"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/strategies"
)

// preflight is the run of a provider blueprint: it looks up whether what the blueprint refers to is there.
func (r *run) preflight(kind string) error {
	s, err := r.open(kind, r.xr)
	if err != nil {
		r.set(isFalse(typeProviderReady, reasonInvalidSpec, err.Error()))
		return err
	}
	r.ttl = r.input.Requeue.Steady.Duration
	p, ok := s.(strategies.Preflight)
	if !ok {
		r.ready = true
		r.set(isUnknown(typeProviderReady, reasonPreflightPending, "the spec is valid; nothing is looked up at a provider of this kind"))
		return nil
	}
	config, needed := p.Prerequisites()
	if config == "" {
		r.ready = true
		r.set(isUnknown(typeProviderReady, reasonPreflightPending, "the spec is valid; nothing is looked up at the provider without spec.providerConfigRef"))
		return nil
	}
	return r.check(kind, config, needed)
}

// check that everything is there, with an Object of each that only observes.
func (r *run) check(kind, config string, needed []strategies.Prerequisite) error {
	var pending, failed []string
	asked := map[string]bool{}
	for _, c := range needed {
		// The name tells what is looked up and through what, so what an Object says is never about something else.
		key := strategies.NameAbout(checkPrefix, c.Kind, kind, config, c.APIVersion, c.Kind, c.Namespace, c.Name)
		if !asked[key] {
			asked[key] = true
			if err := r.compose(key, checkObject(fmt.Sprintf("rig-%s-%s", r.name(), key), r.name(), config, c)); err != nil {
				return err
			}
		}
		switch synced := conditionOf(r.observed(key), "Synced"); {
		case synced.status == "":
			pending = append(pending, c.Path.String())
		case synced.status == "True":
		case isGone(synced.message):
			failed = append(failed, fmt.Sprintf("%s: %s is not there", c.Path, c))
		default:
			failed = append(failed, fmt.Sprintf("%s: %s cannot be looked up: %s", c.Path, c, synced.message))
		}
	}
	switch {
	case len(failed) > 0:
		r.set(isFalse(typeProviderReady, reasonPreflightFailed, strings.Join(failed, "; ")))
	case len(pending) > 0:
		r.set(isUnknown(typeProviderReady, reasonPreflightPending, "looking up "+strings.Join(pending, ", ")))
	default:
		r.ready = true
		r.set(isMet(typeProviderReady, reasonPreflightPassed, ""))
	}
	return nil
}

// checkObject does not watch: that takes the right to list everything of the kind. provider-kubernetes looks again every
// ten minutes, and within a minute while something is missing.
func checkObject(name, blueprint, config string, c strategies.Prerequisite) map[string]any {
	return map[string]any{
		"apiVersion": objectKind.apiVersion,
		"kind":       objectKind.kind,
		"metadata":   strategies.Metadata(name, map[string]string{v1alpha1.LabelBlueprint: blueprint}, nil),
		"spec": map[string]any{
			"managementPolicies": []any{"Observe"},
			"providerConfigRef":  map[string]any{"name": config},
			"forProvider":        map[string]any{"manifest": c.Manifest()},
		},
	}
}

// blueprintReadiness is the readiness that a provider blueprint reports of itself.
func blueprintReadiness(blueprint *structpb.Struct) condition {
	said := conditionOf(blueprint, typeProviderReady)
	name := fmt.Sprintf("%s %q", text(blueprint, "kind"), text(blueprint, "metadata", "name"))
	c := isUnknown(typeProviderReady, cmp.Or(said.reason, reasonPreflightPending), name+": "+cmp.Or(said.message, "nothing has been looked up at the provider yet"))
	switch said.status {
	case "True":
		return isMet(typeProviderReady, c.reason, said.message)
	case "False":
		c.status = fnv1.Status_STATUS_CONDITION_FALSE
	}
	return c
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
