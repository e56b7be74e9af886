package main

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/crossplane/function-sdk-go/logging"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/request"
	"github.com/crossplane/function-sdk-go/response"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/input/v1beta1"
	"github.com/rig-gateway/function-rig/internal/builder"
	"github.com/rig-gateway/function-rig/strategies"
)

// Function answers Crossplane.
type Function struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	log       logging.Logger
	providers strategies.Table
	builder   *builder.Builder
	now       func() time.Time
}

// run is one answer in the making.
type run struct {
	*Function

	req   *fnv1.RunFunctionRequest
	need  *requirements
	input *v1beta1.Input
	now   time.Time

	// xr is the observed composite.
	xr *structpb.Struct

	// What the run wants. The status is all of it: what is left out is removed.
	status     map[string]any
	conditions []condition
	resources  map[string]map[string]any
	retired    map[string]bool // Composed resources that are given up on purpose.
	connection map[string][]byte
	ready      bool
	ttl        time.Duration
}

// RunFunction answers one request. It never returns an error: Crossplane would discard the response and with it the
// conditions.
func (f *Function) RunFunction(_ context.Context, req *fnv1.RunFunctionRequest) (rsp *fnv1.RunFunctionResponse, _ error) {
	xr := req.GetObserved().GetComposite().GetResource()
	kind := text(xr, "kind")
	log := f.log.WithValues("tag", req.GetMeta().GetTag())
	rsp = response.To(req, response.DefaultTTL)
	defer func() {
		if cause := recover(); cause != nil {
			log.Info("Panic", "cause", cause, "stack", string(debug.Stack()))
			rsp = response.To(req, response.DefaultTTL)
			fatal(rsp, kind, reasonInternalError, fmt.Errorf("function panicked, nothing was changed: %v", cause))
		}
	}()

	r := &run{
		Function: f, req: req, need: newRequirements(req), now: f.now().UTC(), xr: xr, status: map[string]any{}, resources: map[string]map[string]any{},
		retired: map[string]bool{},
	}
	log = log.WithValues("xr-kind", kind, "xr-name", r.name(), "xr-version", text(r.xr, "metadata", "resourceVersion"))
	log.Debug("Run")

	input, err := readInput(req)
	if err != nil {
		fatal(rsp, kind, reasonInvalidInput, err)
		return rsp, nil
	}
	r.input = input

	switch kind {
	case v1alpha1.KindXClusterBlueprint, v1alpha1.KindClusterBlueprint:
		err = r.gatekeeper()
	case v1alpha1.KindInfraBlueprint:
		err = r.accountant()
	default:
		if _, ok := f.providers[kind]; !ok {
			response.Fatal(rsp, fmt.Errorf("cannot compose a %q: this function composes %s, %s and the blueprints %v",
				kind, v1alpha1.KindInfraBlueprint, v1alpha1.KindXClusterBlueprint, f.providers.Kinds()))
			return rsp, nil
		}
		err = r.preflight(kind)
	}
	r.need.set(rsp)
	if r.need.unresolved {
		return rsp, nil
	}
	r.respond(rsp, kind, err)
	return rsp, nil
}

// fatal applies nothing and deletes nothing. Condition types that are not set yet are unknown.
func fatal(rsp *fnv1.RunFunctionResponse, kind, reason string, cause error) {
	for _, conditionType := range conditionTypes(kind) {
		if !slices.ContainsFunc(rsp.GetConditions(), func(c *fnv1.Condition) bool { return c.GetType() == conditionType }) {
			isUnknown(conditionType, reason, cause.Error()).set(rsp)
		}
	}
	response.Fatal(rsp, cause)
}

func readInput(req *fnv1.RunFunctionRequest) (*v1beta1.Input, error) {
	in := &v1beta1.Input{}
	if req.GetInput() != nil {
		want := v1beta1.GroupVersion.String() + " Input"
		if got := text(req.GetInput(), "apiVersion") + " " + text(req.GetInput(), "kind"); got != want {
			return nil, fmt.Errorf("cannot use input %q: this function takes a %s", got, want)
		}
		if err := request.GetInput(req, in); err != nil {
			return nil, fmt.Errorf("cannot read input: %w", err)
		}
	}
	in.Default()
	return in, nil
}

// respond with what the run wants. A run that could not decide applies nothing where something is composed already, since
// a resource that a response leaves out is deleted. Where nothing is, it succeeds: a fatal run is not woken by what it
// requires.
func (r *run) respond(rsp *fnv1.RunFunctionResponse, kind string, failure error) {
	for _, c := range r.conditions {
		c.set(rsp)
	}
	if failure == nil {
		failure = r.complete()
	} else {
		r.resources, r.ready = nil, false
	}
	if failure != nil && len(r.req.GetObserved().GetResources()) > 0 {
		fatal(rsp, kind, reasonInternalError, failure)
		return
	}
	if r.ttl > 0 {
		rsp.Meta.Ttl = durationpb.New(r.ttl)
	}
	if err := r.write(rsp); err != nil {
		fatal(rsp, kind, reasonInternalError, err)
	}
}

// complete says which observed resource the run forgot. There is none, unless the function is wrong or a blueprint was
// replaced by one of another provider.
func (r *run) complete() error {
	for _, name := range slices.Sorted(maps.Keys(r.req.GetObserved().GetResources())) {
		_, mine := r.resources[name]
		_, others := r.req.GetDesired().GetResources()[name]
		if !mine && !others && !r.retired[name] && !expendable(name) {
			return fmt.Errorf("cannot go on without composed resource %q: it exists, and would be deleted. "+
				"If it belongs to another provider, restore spec.providerRef of the InfraBlueprint", name)
		}
	}
	return nil
}

// Prefixes of composed resources that hold nothing themselves, and are given up once nobody needs them: those that protect
// others, and those that look whether something is there.
const (
	usagePrefix = "usage-"
	checkPrefix = "check-"
)

// expendable says whether a composed resource may be left out, and so deleted.
func expendable(name string) bool {
	return strings.HasPrefix(name, usagePrefix) || strings.HasPrefix(name, checkPrefix)
}

// write the desired state, on top of what earlier functions of the pipeline want. The composite carries the observed
// resourceVersion, so that its status is written by compare-and-swap: a run that saw an old record or ledger does not
// overwrite a newer one.
func (r *run) write(rsp *fnv1.RunFunctionResponse) error {
	before := r.req.GetDesired()
	composite := before.GetComposite().GetResource().AsMap()
	composite["apiVersion"], composite["kind"] = text(r.xr, "apiVersion"), text(r.xr, "kind")
	status, _ := composite["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	maps.Copy(status, r.status)
	composite["status"] = status
	if version := text(r.xr, "metadata", "resourceVersion"); version != "" {
		composite["metadata"] = map[string]any{"resourceVersion": version}
	}
	s, err := asStruct(composite)
	if err != nil {
		return fmt.Errorf("cannot encode status: %w", err)
	}
	connection := map[string][]byte{}
	maps.Copy(connection, before.GetComposite().GetConnectionDetails())
	maps.Copy(connection, r.connection)
	resources := map[string]*fnv1.Resource{}
	maps.Copy(resources, before.GetResources())
	for name, object := range r.resources {
		if _, taken := resources[name]; taken {
			return fmt.Errorf("cannot compose %q: another function of the pipeline does already", name)
		}
		s, err := asStruct(object)
		if err != nil {
			return fmt.Errorf("cannot encode composed resource %q: %w", name, err)
		}
		// The composite says itself whether it is ready. Of a composed resource that is not, Crossplane writes an event in
		// every run.
		resources[name] = &fnv1.Resource{Resource: s, Ready: fnv1.Ready_READY_TRUE}
	}
	rsp.Desired = &fnv1.State{
		Composite: &fnv1.Resource{Resource: s, ConnectionDetails: connection, Ready: readiness(r.ready)},
		Resources: resources,
	}
	return nil
}

func readiness(ready bool) fnv1.Ready {
	if ready {
		return fnv1.Ready_READY_TRUE
	}
	return fnv1.Ready_READY_FALSE
}

// name of the composite.
func (r *run) name() string { return text(r.xr, "metadata", "name") }

// observed composed resource, nil when there is none.
func (r *run) observed(name string) *structpb.Struct {
	return r.req.GetObserved().GetResources()[name].GetResource()
}

// unresponsive says whether Crossplane drops events of the composite, since there were too many.
func (r *run) unresponsive() bool { return conditionOf(r.xr, "Responsive").status == "False" }

// compose a resource. Each name is composed once.
func (r *run) compose(name string, object map[string]any) error {
	if _, taken := r.resources[name]; taken {
		return fmt.Errorf("cannot compose %q twice", name)
	}
	r.resources[name] = object
	return nil
}

// set the condition types of a kind. Each of them is set on every run.
func (r *run) set(conditions ...condition) { r.conditions = append(r.conditions, conditions...) }
