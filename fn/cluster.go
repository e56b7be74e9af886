package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/builder"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
)

// Composed resources of a cluster, beside those of its strategy. The names are kept for ever: a renamed one would be
// deleted and created again.
const (
	composedRequest  = "request"
	composedRelease  = "release"
	composedBarrier  = "barrier"
	composedObserver = "observer"
)

// clusterRun is the run of an XClusterBlueprint: gatekeeper, router and builder.
type clusterRun struct {
	*run
	terms

	spec     v1alpha1.ClusterBlueprintSpec
	record   ledger.Record
	strategy strategies.Strategy
	// blueprint says whether the provider blueprint is ready.
	blueprint condition
}

// terms are what a cluster knows of its InfraBlueprint.
type terms struct {
	infra  v1alpha1.InfraBlueprintSpec
	policy ledger.Policy
	offer  ledger.Offer
	waits  *waits
}

// gatekeeper decides whether a cluster may hold what it asks for, and builds what it may.
func (r *run) gatekeeper() error {
	r.carry("quota", "provider")
	c := &clusterRun{run: r}
	if err := c.read(); err != nil {
		return c.refuse(reasonInvalidSpec, err)
	}
	found, err := c.readTerms()
	if r.need.unresolved {
		return nil
	}
	if err != nil {
		return c.refuse(reasonAwaitingAdmission, err)
	}
	if !found {
		return c.refuse(reasonInfraBlueprintNotFound, field.NotFound(field.NewPath("spec", "infraBlueprintRef", "name"), c.spec.InfraBlueprintRef.Name))
	}
	strategy, blueprint, err := r.provider(c.spec.InfraBlueprintRef.Name, c.infra.ProviderRef)
	if r.need.unresolved {
		return nil
	}
	if err != nil {
		return c.refuse(reasonProviderNotReady, err)
	}
	c.strategy, c.blueprint = strategy, blueprintReadiness(blueprint)
	r.status["provider"] = c.infra.ProviderRef.Kind
	return c.decide()
}

// read the composite: what is wanted, and what the record says is kept.
func (c *clusterRun) read() error {
	if quota := value(c.xr, "status", "quota"); !isAbsent(quota) {
		in := v1alpha1.QuotaRecord{}
		if err := decode(quota, &in); err != nil {
			return fmt.Errorf("cannot read status.quota: %w", err)
		}
		record, errs := ledger.ParseRecord(field.NewPath("status", "quota"), in)
		if len(errs) > 0 {
			return errs.ToAggregate()
		}
		c.record = record
	}
	if err := decode(value(c.xr, "spec"), &c.spec); err != nil {
		return fmt.Errorf("cannot read spec: %w", err)
	}
	if c.spec.InfraBlueprintRef.Name == "" {
		return field.Required(field.NewPath("spec", "infraBlueprintRef", "name"), "names the InfraBlueprint to take quota from")
	}
	return v1alpha1.ValidateClusterName(field.NewPath("metadata", "name"), c.name()).ToAggregate()
}

// readTerms reads the terms and the cluster's page. Where there are no terms yet, the InfraBlueprint itself says the
// same.
func (c *clusterRun) readTerms() (bool, error) {
	name := c.spec.InfraBlueprintRef.Name
	posted := c.need.named(environmentConfig, termsName(name))
	page := c.need.named(environmentConfig, numberedPage(name, pageOf(c.name())))
	if c.need.unresolved {
		return false, nil
	}
	if posted != nil {
		spec, err := structOf(posted, "data", "spec")
		if err != nil {
			return false, fmt.Errorf("cannot read terms %q: %w", termsName(name), err)
		}
		if err := c.readSpec(name, spec); err != nil {
			return false, err
		}
		if page == nil || text(page, "data", "infraBlueprint") != text(posted, "data", "infraBlueprint") {
			return true, nil
		}
		offers, err := readOffers(page)
		if err != nil {
			return false, err
		}
		c.offer = offers[c.name()]
		return true, c.readWaits(value(page, "data", "waiting", c.name()))
	}
	infra := c.need.named(resourceKind{v1alpha1.GroupVersion.String(), v1alpha1.KindInfraBlueprint}, name)
	if infra == nil {
		return false, nil
	}
	if err := c.readSpec(name, value(infra, "spec")); err != nil {
		return false, err
	}
	return true, c.readLedger(value(infra, "status", "ledger"))
}

func structOf(in *structpb.Struct, path ...string) (*structpb.Value, error) {
	v := value(in, path...)
	if v.GetStructValue() == nil {
		return nil, fmt.Errorf("%s: must be a map", field.NewPath(path[0], path[1:]...))
	}
	return v, nil
}

func (c *clusterRun) readSpec(name string, spec *structpb.Value) error {
	infra, err := structpb.NewStruct(map[string]any{"metadata": map[string]any{"name": name}})
	if err != nil {
		return err
	}
	infra.Fields["spec"] = spec
	c.infra, c.policy, err = c.readInfra(infra)
	return err
}

// readLedger reads offer and shortfall off the InfraBlueprint itself.
func (c *clusterRun) readLedger(in *structpb.Value) error {
	if in.GetStructValue() == nil {
		return nil
	}
	api := v1alpha1.Ledger{}
	if err := decode(in, &api); err != nil {
		return fmt.Errorf("cannot read status.ledger of the InfraBlueprint: %w", err)
	}
	l, errs := ledger.Parse(field.NewPath("status", "ledger"), api)
	if len(errs) > 0 {
		return fmt.Errorf("cannot read the InfraBlueprint: %w", errs.ToAggregate())
	}
	for _, g := range l.Grants {
		if g.Cluster == c.name() {
			c.offer = ledger.Offer{Amount: g.Amount, Revision: g.Revision}
		}
	}
	for _, q := range api.Queue {
		if q.Cluster == c.name() {
			c.waits = &waits{Needs: q.Needs, Short: q.Short, OfNamespace: q.OfNamespace, Reason: q.Reason}
		}
	}
	return nil
}

func (c *clusterRun) readWaits(in *structpb.Value) error {
	if in.GetStructValue() == nil {
		return nil
	}
	c.waits = &waits{}
	if err := decode(in, c.waits); err != nil {
		return fmt.Errorf("cannot read why the cluster waits: %w", err)
	}
	return nil
}

// refuse to decide. The conditions say why, and what to do; what exists stays.
func (c *clusterRun) refuse(reason string, cause error) error {
	message := cause.Error()
	built := c.observed(composedRelease) != nil
	switch {
	case built:
		message += "; nothing was changed, and nothing is until this is mended"
	case reason == reasonInfraBlueprintNotFound:
		message += "; ask the platform team which InfraBlueprints there are"
	}
	if reason == reasonProviderNotReady {
		c.set(isFalse(typeAdmitted, reasonAwaitingAdmission, message), isFalse(typeProvisioned, reasonProviderNotReady, message))
	} else {
		c.set(isFalse(typeAdmitted, reason, message), c.provisioned(c.record))
	}
	c.ttl = c.input.Requeue.Pending.Duration
	return cause
}

// decide what the cluster keeps and renders.
func (c *clusterRun) decide() error {
	wanted, invalid := c.wanted()
	if invalid != nil {
		if len(c.record.Pools) == 0 && c.observed(composedRelease) == nil && (c.started() || c.observed(composedRequest) == nil) {
			return c.refuse(reasonInvalidSpec, invalid)
		}
		wanted = c.record.Pools
	}
	sight := ledger.Sight{
		Record: c.record, Started: c.started() && !c.seen(), Wanted: wanted, Offer: c.offer, Barrier: held(c.observed(composedBarrier)),
		Now: c.now, SettleDelay: c.input.SettleDelay.Duration,
	}
	release, evidence := c.observed(composedRelease), c.observed(composedRelease)
	if release == nil && c.seen() {
		// Somebody deleted the Release: what it held may still exist.
		evidence = c.observed(composedBarrier)
	}
	if evidence != nil {
		rendered, err := c.rendered(evidence)
		if err != nil {
			return c.refuse(reasonAwaitingAdmission, err)
		}
		sight.Release, sight.Installed = &rendered, release == nil || installed(release)
		sight.Confirmed = release != nil && rendered.Generation == c.record.Generation && c.shows(c.record) && c.finished()
	}
	d := ledger.Gate(sight)
	if err := c.post(d); err != nil {
		return err
	}
	if len(d.Rendered.Pools) > 0 {
		if err := c.build(d); err != nil {
			c.set(isFalse(typeAdmitted, reasonAwaitingAdmission, err.Error()), isFalse(typeProvisioned, reasonProvisioningFailed, err.Error()))
			return err
		}
	}
	return c.reportRecord(d, invalid)
}

// wanted resolves the pools of the spec. A pool that asks for the same as when it was admitted keeps the sizes and the
// footprint that it was admitted with, whatever the defaults are today.
func (c *clusterRun) wanted() ([]ledger.AdmittedPool, error) {
	path := field.NewPath("spec")
	errs := c.spec.Validate(path)
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	admitted := map[string]ledger.AdmittedPool{}
	for _, p := range c.record.Pools {
		admitted[p.Name] = p
	}
	var out []ledger.AdmittedPool
	for i, p := range c.spec.Pools {
		if before, ok := admitted[p.Name]; ok && sameRequest(before.Spec.Pool, p) {
			before.Spec.Pool = p
			out = append(out, before)
			continue
		}
		node, more := c.strategy.Node(path.Child("pools").Index(i), p)
		errs = append(errs, more...)
		pool := ledger.Pool{Name: p.Name, Count: p.Count, Node: node.Footprint}
		out = append(out, ledger.AdmittedPool{Pool: pool, Spec: v1alpha1.AdmittedPool{
			Pool: p, Size: node.Size.Node(), Node: node.Footprint.Node(), Type: node.Type,
		}})
	}
	ledger.Sort(out)
	return out, errs.ToAggregate()
}

// sameRequest says whether two pools ask for the same machines.
func sameRequest(a, b v1alpha1.Pool) bool {
	a.Labels, b.Labels, a.Taints, b.Taints = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

// rendered is the record that a Release, or the barrier beside it, was rendered with.
func (c *clusterRun) rendered(evidence *structpb.Struct) (ledger.Record, error) {
	path := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationQuota)
	raw, in := text(evidence, "metadata", "annotations", v1alpha1.AnnotationQuota), v1alpha1.QuotaRecord{}
	err := json.Unmarshal([]byte(raw), &in)
	if err != nil {
		err = field.Invalid(path, raw, "must be a quota record")
	} else if record, errs := ledger.ParseRecord(path, in); len(errs) == 0 {
		return record, nil
	} else {
		err = errs.ToAggregate()
	}
	if len(c.record.Pools) > 0 {
		return c.record, nil
	}
	return ledger.Record{}, fmt.Errorf("cannot tell what %s %q holds: %w: restore the annotation, or status.quota", text(evidence, "kind"), text(evidence, "metadata", "name"), err)
}

// installed says whether the provider has ever acted on a Release, or may. One that was composed paused, and never
// reconciled, has neither a finalizer nor a state.
func installed(release *structpb.Struct) bool {
	return active(release) || text(release, "status", "atProvider", "state") != ""
}

// active says whether a provider holds a managed resource, or is about to: it was not composed paused, or is not any more.
func active(managed *structpb.Struct) bool {
	return text(managed, "metadata", "annotations", v1alpha1.AnnotationPaused) != "true" || held(managed)
}

// held says whether a provider has put its finalizer on a managed resource: before that, a deletion would not wait for it.
func held(managed *structpb.Struct) bool {
	return len(value(managed, "metadata", "finalizers").GetListValue().GetValues()) > 0
}

// started says whether anything but the request is composed.
func (c *clusterRun) started() bool {
	count := len(c.req.GetObserved().GetResources())
	if c.observed(composedRequest) != nil {
		count--
	}
	return count > 0
}

// seen says whether the provider has been seen to hold the cluster: the barrier is ready only once it has.
func (c *clusterRun) seen() bool {
	barrier := c.observed(composedBarrier)
	return conditionOf(barrier, "Ready").status != "" || value(barrier, "status", "atProvider", "manifest") != nil
}

// finished says whether the Rancher cluster is seen, and ready.
func (c *clusterRun) finished() bool {
	observer := c.observed(composedObserver)
	return isTrue(observer, "Synced") && isTrue(observer, "Ready")
}

// shows says whether the live Rancher cluster is what a record renders.
func (c *clusterRun) shows(record ledger.Record) bool {
	live := value(c.observed(composedObserver), "status", "atProvider", "manifest").GetStructValue()
	if text(live, "metadata", "annotations", v1alpha1.AnnotationGeneration) != strconv.FormatInt(record.Generation, 10) {
		return false
	}
	counts := map[string]int64{}
	for _, p := range value(live, "spec", "rkeConfig", "machinePools").GetListValue().GetValues() {
		counts[text(p.GetStructValue(), "name")] = integer(p.GetStructValue(), "quantity")
	}
	rendered := 0
	for _, p := range record.Pools {
		for _, part := range strategies.Parts(c.strategy, c.name(), p.Spec) {
			if counts[part.Name] != part.Count {
				return false
			}
			rendered++
		}
	}
	return len(counts) == rendered
}

// claim is namespace/name of the ClusterBlueprint, empty where the composite has no claim.
func (c *clusterRun) claim() string {
	name := text(c.xr, "metadata", "labels", v1alpha1.LabelClaimName)
	if name == "" {
		return ""
	}
	return text(c.xr, "metadata", "labels", v1alpha1.LabelClaimNamespace) + "/" + name
}

// post the request, a copy of the observed record.
func (c *clusterRun) post(d ledger.Decision) error {
	r := ledger.Request{
		Cluster: c.name(), Claim: c.claim(), Priority: c.spec.Priority, Created: timestamp(c.xr, "metadata", "creationTimestamp"),
		Need: d.Need, Keeps: d.Keeps, Fence: c.record.Fence, Provisioned: c.seen(),
	}
	if c.infra.Backstop != nil {
		largest := ledger.LargestNode(c.record, d.Rendered)
		r.Largest = &largest
	}
	return c.compose(composedRequest, requestMailbox(c.spec.InfraBlueprintRef.Name, r))
}

// build what the decision renders.
func (c *clusterRun) build(d ledger.Decision) error {
	record := d.Rendered.API()
	labels := map[string]string{
		v1alpha1.LabelInfraBlueprint: c.spec.InfraBlueprintRef.Name, v1alpha1.LabelCluster: c.name(),
	}
	source, err := c.chart()
	if err != nil {
		return err
	}
	output, err := c.strategy.Cluster(strategies.Scope{
		Cluster: c.name(), Labels: labels, Infra: c.infra, Pools: record.Pools, SecretNamespace: c.input.ConnectionSecretNamespace,
	})
	if err != nil {
		return fmt.Errorf("%s %q: %w", c.infra.ProviderRef.Kind, c.infra.ProviderRef.Name, err)
	}
	delivered := c.delivered(output)
	cluster := builder.Cluster{
		Name: c.name(), Labels: labels, Spec: c.spec, Infra: c.infra, Chart: source, Record: record, Strategy: c.strategy, Provider: output,
		SecretNamespace: c.input.ConnectionSecretNamespace, Paused: d.Paused || c.unprovided() || !delivered,
		// The provider marks what the barrier depends on once, when it first sees the barrier: by then it must be there, and
		// at rest.
		BarrierPaused: !delivered && !c.acts(composedBarrier), Finished: c.finished() || c.reads(),
	}
	release, err := c.builder.Release(cluster)
	if err != nil {
		return fmt.Errorf("InfraBlueprint %q: %w", c.spec.InfraBlueprintRef.Name, err)
	}
	barrier, err := builder.Barrier(cluster)
	if err != nil {
		return err
	}
	objects := map[string]map[string]any{
		composedRelease: release, composedBarrier: barrier, composedObserver: builder.Observer(cluster),
	}
	for name, resource := range output.Resources {
		if _, taken := objects[name]; taken {
			return fmt.Errorf("cannot compose %q twice", name)
		}
		if first := output.After[name]; first != "" && !isTrue(c.observed(first), "Ready") && !c.acts(name) {
			if err := unstructured.SetNestedField(resource, "true", "metadata", "annotations", v1alpha1.AnnotationPaused); err != nil {
				return fmt.Errorf("cannot pause %q: %w", name, err)
			}
		}
		objects[name] = resource
	}
	for name, object := range objects {
		if err := c.compose(name, object); err != nil {
			return err
		}
	}
	return nil
}

// acts says whether a provider acts on a composed resource, or is about to. It is not paused again then: nobody would take
// that back once the cluster is deleted.
func (c *clusterRun) acts(name string) bool {
	managed := c.observed(name)
	return managed != nil && active(managed)
}

// reads says whether the barrier reads the kubeconfig already.
func (c *clusterRun) reads() bool {
	return !isAbsent(value(c.observed(composedBarrier), "spec", "writeConnectionSecretToRef"))
}

// built says whether the provider has ever acted on the Release.
func (c *clusterRun) built() bool {
	release := c.observed(composedRelease)
	return release != nil && installed(release)
}

// unprovided says whether the cluster is new and its provider blueprint misses something: Rancher would only fail.
func (c *clusterRun) unprovided() bool {
	return c.blueprint.status == fnv1.Status_STATUS_CONDITION_FALSE && !c.built()
}

// delivered says whether what the cluster is built with is there, or has been: the resources that its machines are put into,
// and the Secrets that the Release takes values from. A provider that misses one backs off for longer each time.
func (c *clusterRun) delivered(output strategies.Output) bool {
	if c.built() {
		return true
	}
	for name := range output.Resources {
		if !isTrue(c.observed(name), "Ready") && !c.written(output, name) {
			return false
		}
	}
	return true
}

// written says whether a resource has written the Secrets that the Release takes values from. It has done its part then, but
// may be shown as ready a minute later: provider-kubernetes looks again only then where its cache was behind.
func (c *clusterRun) written(output strategies.Output, name string) bool {
	values, details := 0, c.req.GetObserved().GetResources()[name].GetConnectionDetails()
	for _, s := range output.SecretValues {
		if s.Resource != name {
			continue
		}
		if len(details[s.Key]) == 0 {
			return false
		}
		values++
	}
	return values > 0
}

// chart to install: what the InfraBlueprint says, else the function's input, else the version it was made for.
func (c *clusterRun) chart() (v1alpha1.ChartSource, error) {
	source := c.input.Chart
	if own := c.infra.Chart; own != nil {
		if own.Repository != "" {
			source.Repository, source.PlainHTTP, source.PullSecretRef = own.Repository, own.PlainHTTP, own.PullSecretRef
		}
		if own.Version != "" {
			source.Version = own.Version
		}
	}
	if source.Version == "" {
		source.Version = c.builder.ChartVersion()
	}
	if source.Repository == "" {
		return source, field.Required(field.NewPath("spec", "chart", "repository"),
			"neither the InfraBlueprint nor the input of the function says where the cluster chart comes from")
	}
	return source, nil
}

// reportRecord writes the record and the conditions, and hand on the kubeconfig.
func (c *clusterRun) reportRecord(d ledger.Decision, invalid error) error {
	before := value(c.xr, "status", "quota").AsInterface()
	if record := d.Record; before != nil || record.Fence != 0 || len(record.Pools) > 0 {
		plain, err := encode(record.API())
		if err != nil {
			return fmt.Errorf("cannot write status.quota: %w", err)
		}
		c.status["quota"] = plain
	}
	provisioned := c.provisioned(d.Rendered)
	c.set(c.admitted(d, invalid), provisioned)
	complete := provisioned.reason == reasonProvisioned
	c.ready = complete && c.handedOver()
	if kubeconfig := c.kubeconfig(); len(kubeconfig) > 0 {
		c.connection = map[string][]byte{"kubeconfig": kubeconfig}
	}
	switch {
	case !reflect.DeepEqual(before, c.status["quota"]), complete && !c.ready, c.unresponsive() && c.composesMore():
		c.ttl = c.input.Requeue.Changed.Duration
	case len(d.Record.Rolling) > 0:
		// Others may wait for what is let go of.
		c.ttl = c.untilSettled(d.Record)
	case c.unresponsive():
		c.ttl = c.input.Requeue.Unresponsive.Duration
	case !d.Admitted || !c.ready:
		c.ttl = c.input.Requeue.Pending.Duration
	default:
		c.ttl = c.input.Requeue.Steady.Duration
	}
	return nil
}

// untilSettled is when to look again whether what is let go of is gone.
func (c *clusterRun) untilSettled(record ledger.Record) time.Duration {
	delay := c.input.SettleDelay.Duration
	if record.SettledSince.IsZero() {
		return min(delay, c.input.Requeue.Unresponsive.Duration)
	}
	// Crossplane comes up to a tenth early or late; a run that is too early costs another one.
	left := max(0, record.SettledSince.Add(delay).Sub(c.now))
	return left + left/8 + time.Second
}

// composesMore says whether something is composed that was not there before.
func (c *clusterRun) composesMore() bool {
	for name := range c.resources {
		if c.observed(name) == nil {
			return true
		}
	}
	return false
}

// kubeconfig of the cluster, empty until it has been read.
func (c *clusterRun) kubeconfig() []byte {
	return c.req.GetObserved().GetResources()[composedBarrier].GetConnectionDetails()["kubeconfig"]
}

// handedOver says whether the composite's connection Secret, where it has one, holds the kubeconfig, or has: a claim copies
// it once, when the composite becomes ready.
func (c *clusterRun) handedOver() bool {
	return isTrue(c.xr, "Ready") || isAbsent(value(c.xr, "spec", "writeConnectionSecretToRef")) || len(c.req.GetObserved().GetComposite().GetConnectionDetails()["kubeconfig"]) > 0
}

// admitted says whether the cluster may hold what it asks for, and if not, what is missing.
func (c *clusterRun) admitted(d ledger.Decision, invalid error) condition {
	infra := c.spec.InfraBlueprintRef.Name
	keeps := ""
	if len(c.record.Pools) > 0 {
		keeps = fmt.Sprintf("; the cluster keeps %s as it is", c.record.Keeps)
	}
	switch {
	case invalid != nil:
		return isFalse(typeAdmitted, reasonInvalidSpec, invalid.Error()+keeps)
	case d.Admitted:
		return isMet(typeAdmitted, reasonAdmitted, fmt.Sprintf("keeps %s of InfraBlueprint %q", d.Record.Keeps, infra))
	}
	if reason, message := c.waitsFor(d); reason != "" {
		return isFalse(typeAdmitted, reason, message+keeps)
	}
	return isFalse(typeAdmitted, reasonAwaitingAdmission, fmt.Sprintf("needs %s; InfraBlueprint %q has not answered yet%s", d.Need, infra, keeps))
}

// waitsFor says why quota is refused, as far as the terms and the page tell.
func (c *clusterRun) waitsFor(d ledger.Decision) (reason, message string) {
	infra, namespace := c.spec.InfraBlueprintRef.Name, ledger.Request{Claim: c.claim()}.Namespace()
	rule, allowed := c.policy.Rule(namespace)
	most, growth := c.policy.Most(), d.Need.Growth(d.Keeps)
	switch {
	case !allowed:
		return ledger.ReasonNamespaceNotAllowed, fmt.Sprintf("namespace %q may not take from InfraBlueprint %q; ask the platform team", namespace, infra)
	case !growth.Within(most) && c.policy.SurgeReserve.IsZero():
		return ledger.ReasonNeverFits, fmt.Sprintf("%s; InfraBlueprint %q can never admit it", ledger.Excess(growth, most, "the whole quota is"), infra)
	case !growth.Within(most):
		return ledger.ReasonNeverFits, fmt.Sprintf("%s; InfraBlueprint %q can never admit it", ledger.Excess(growth, most, "all that is handed out is"), infra)
	case !growth.Within(rule.Limits):
		return ledger.ReasonNeverFits, fmt.Sprintf("%s; InfraBlueprint %q can never admit it",
			ledger.Excess(growth, rule.Limits, fmt.Sprintf("all that namespace %q may have is", namespace)), infra)
	case c.waits == nil || c.waits.Needs != d.Need.Cluster() || c.waits.Reason != ledger.ReasonQuotaExceeded:
		return "", ""
	}
	short, errs := ledger.ParseShortfall(field.NewPath("short"), c.waits.Short)
	switch {
	case len(errs) > 0:
		return "", ""
	case short.IsZero():
		return c.waits.Reason, fmt.Sprintf("needs %s; it waits for its turn, since InfraBlueprint %q admits in strict order", d.Need, infra)
	case c.waits.OfNamespace:
		return c.waits.Reason, fmt.Sprintf("%s; it is admitted as soon as the other clusters of namespace %q leave that free",
			ledger.Refusal(d.Need, short, rule.Limits), namespace)
	}
	return c.waits.Reason, fmt.Sprintf("%s; it is admitted as soon as InfraBlueprint %q has that free", ledger.Refusal(d.Need, short, c.policy.Limits), infra)
}

// building is the message of a cluster of which Rancher says nothing. It is one for several stages: each change of a
// message wakes the composite, and Crossplane's circuit breaker counts.
const building = "the cluster is being built"

// provisioned says how far the provider is with what a record renders.
func (c *clusterRun) provisioned(record ledger.Record) condition {
	release, observer := c.observed(composedRelease), c.observed(composedObserver)
	state := text(release, "status", "atProvider", "state")
	synced, watched := conditionOf(release, "Synced"), conditionOf(observer, "Synced")
	live := value(observer, "status", "atProvider", "manifest").GetStructValue()
	switch {
	case c.unprovided():
		return isFalse(typeProvisioned, reasonProviderNotReady, c.blueprint.message)
	case len(record.Pools) == 0:
		return isFalse(typeProvisioned, reasonProvisioning, "nothing is built before the cluster is admitted")
	case !c.built():
		return isFalse(typeProvisioned, reasonProvisioning, building)
	case state == "failed":
		return isFalse(typeProvisioned, reasonProvisioningFailed, "Helm: "+text(release, "status", "atProvider", "releaseDescription"))
	case synced.status == "False" && synced.reason == "ReconcileError":
		return isFalse(typeProvisioned, reasonProvisioningFailed, "provider-helm: "+synced.message)
	case live != nil && watched.status == "False" && isGone(watched.message):
		return isFalse(typeProvisioned, reasonClusterLost, fmt.Sprintf("the Rancher cluster %s was removed by somebody else; its quota stays reserved. "+
			"To build it again, ask the platform team to delete Release %q", c.name(), text(release, "metadata", "name")))
	case state == "deployed" && isTrue(observer, "Ready") && c.shows(record):
		// Ready of a Release stays false after an upgrade until provider-helm polls again, ten minutes later.
		return isMet(typeProvisioned, reasonProvisioned, "")
	}
	message := building
	for _, conditionType := range []string{"Updated", "Ready"} {
		if said := conditionOf(live, conditionType); said.status != "True" && said.message != "" {
			message = "Rancher: " + said.message
			break
		}
	}
	return isFalse(typeProvisioned, reasonProvisioning, message)
}
