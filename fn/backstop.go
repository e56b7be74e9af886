package main

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
)

// refusal of a backstop: nothing of it is changed.
type refusal struct {
	error

	reason string
}

// backstop limits the infrastructure itself, where the spec wants that. Whatever is wrong with it is said in its condition
// only: the ledger goes on, and what limits the infrastructure already stays as it is.
func (r *run) backstop(spec v1alpha1.InfraBlueprintSpec, provider strategies.Strategy, b ledger.Books, s ledger.Settlement) error {
	observed := map[string]strategies.Resource{}
	for name, resource := range r.req.GetObserved().GetResources() {
		if strings.HasPrefix(name, strategies.BackstopPrefix) {
			observed[name] = resource.GetResource().AsMap()
		}
	}
	if spec.Backstop == nil {
		delete(r.status, "backstop")
		if len(observed) == 0 {
			r.set(isFalse(typeBackstop, reasonBackstopDisabled, ""))
			return nil
		}
	}
	out, refused := r.limit(spec, provider, b, s, observed)
	for name, resource := range observed {
		_, wanted := out.Resources[name]
		switch {
		case refused != nil:
			out.Resources[name] = r.asObserved(resource)
		case !wanted:
			r.retired[name] = true
		}
	}
	switch {
	case refused != nil:
		r.set(isFalse(typeBackstop, refused.reason, refused.Error()))
	case spec.Backstop == nil && len(out.Resources) > 0:
		r.set(isFalse(typeBackstop, reasonBackstopDisabled, "the provider still holds a limit, which is being taken back"))
	case spec.Backstop == nil:
		r.set(isFalse(typeBackstop, reasonBackstopDisabled, ""))
	case out.Missing != "":
		r.set(isFalse(typeBackstop, reasonBackstopNotEnforced, out.Missing))
	case out.Pending != "":
		r.set(isUnknown(typeBackstop, reasonBackstopPending, out.Pending))
	default:
		r.set(isMet(typeBackstop, reasonBackstopEnforced, ""))
	}
	for name, resource := range out.Resources {
		if err := r.compose(name, resource); err != nil {
			return err
		}
	}
	return nil
}

// limit that the provider is to hold, and what makes it do so.
func (r *run) limit(
	spec v1alpha1.InfraBlueprintSpec, provider strategies.Strategy, b ledger.Books, s ledger.Settlement, observed map[string]strategies.Resource,
) (strategies.BackstopOutput, *refusal) {
	none := strategies.BackstopOutput{Resources: map[string]strategies.Resource{}}
	if provider == nil {
		return none, &refusal{errors.New("the provider blueprint cannot be used, see ProviderReady: what limits the infrastructure stays as it is"), reasonBlueprintNotFound}
	}
	backstop, ok := provider.(strategies.Backstop)
	if !ok {
		hint := "the function limits nothing at a provider of kind " + spec.ProviderRef.Kind + ": remove it"
		return none, &refusal{field.Forbidden(field.NewPath("spec", "backstop"), hint), reasonBackstopUnsupported}
	}
	scope := strategies.BackstopScope{
		Name: r.name(), Labels: map[string]string{v1alpha1.LabelInfraBlueprint: r.name()}, Infra: spec, Observed: observed,
	}
	var status any
	if spec.Backstop != nil {
		path := field.NewPath("spec", "backstop")
		demand, errs := strategies.ParseDemand(path, *spec.Backstop)
		if len(errs) > 0 {
			return none, &refusal{errs.ToAggregate(), reasonInvalidSpec}
		}
		demand.Quota, demand.Reserved, demand.Largest = b.Limits, s.Reserved(), s.Ledger.Largest(b.Requests)
		headroom := backstop.Headroom(demand)
		limits, low := demand.Limits(path, headroom)
		if len(low) > 0 {
			return none, &refusal{low.ToAggregate(), reasonBackstopTooLow}
		}
		scope.Limit, status = &limits, v1alpha1.BackstopStatus{Limit: strategies.Limited(limits), Headroom: strategies.Limited(headroom)}
	}
	out, err := backstop.Backstop(scope)
	if err != nil {
		return none, &refusal{err, reasonInvalidSpec}
	}
	if status != nil {
		plain, err := encode(status)
		if err != nil {
			return none, &refusal{err, reasonInternalError}
		}
		r.status["backstop"] = plain
	}
	return out, nil
}
