package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
	"github.com/rig-gateway/function-rig/internal/builder"
	"github.com/rig-gateway/function-rig/internal/ledger"
	"github.com/rig-gateway/function-rig/strategies"
)

var (
	releaseKind = resourceKind{"helm.crossplane.io/v1beta1", "Release"}       //nolint:gochecknoglobals // A constant that Go cannot express as one.
	objectKind  = resourceKind{"kubernetes.crossplane.io/v1alpha2", "Object"} //nolint:gochecknoglobals // A constant that Go cannot express as one.
)

// How often an InfraBlueprint with nothing to do runs where the input does not say: rarely where Crossplane watches what
// it requires, more often where it certainly does not.
const (
	idle          = 30 * time.Second
	idleUnwatched = 10 * time.Second
)

// accountant is the run of an InfraBlueprint. It settles the ledger in its own status, and composes what
// clusters read of it: the terms, and pages with the offers that the observed, committed ledger holds.
func (r *run) accountant() error {
	r.carry("ledger", "usage", "buckets", "waiting", "backstop")
	spec, policy, err := r.readInfra(r.xr)
	if err != nil {
		for _, conditionType := range conditionTypes(v1alpha1.KindInfraBlueprint) {
			r.set(isUnknown(conditionType, reasonInvalidSpec, err.Error()))
		}
		return err
	}
	provider := r.providerReady(spec)
	if err := r.providerConfigs(spec.Credentials); err != nil {
		return err
	}
	books, observed, err := r.books(policy)
	if r.need.unresolved {
		return nil
	}
	if err != nil {
		for _, conditionType := range []string{typeWithinQuota, typeReleaseStuck, typeBackstop} {
			r.set(isUnknown(conditionType, reasonInvalidSpec, err.Error()))
		}
		return err
	}
	settled := ledger.Settle(books)
	if err := r.retire(books, settled); err != nil {
		return err
	}
	if err := r.backstop(spec, provider, books, settled); err != nil {
		return err
	}
	if err := r.publish(spec, books, settled); err != nil {
		return err
	}
	// The first time in the run after something was reserved: a change of what is composed fails the write of the status.
	if r.protects() && len(settled.Ledger.Grants) > 0 || books.Ledger != nil && len(books.Ledger.Grants) > 0 {
		if err := r.protect(spec); err != nil {
			return err
		}
	}
	return r.reportLedger(books, observed, settled)
}

// readInfra reads the spec of an InfraBlueprint.
func (r *run) readInfra(infra *structpb.Struct) (v1alpha1.InfraBlueprintSpec, ledger.Policy, error) {
	spec := v1alpha1.InfraBlueprintSpec{}
	name := text(infra, "metadata", "name")
	if err := decode(value(infra, "spec"), &spec); err != nil {
		return spec, ledger.Policy{}, fmt.Errorf("InfraBlueprint %q: cannot read spec: %w", name, err)
	}
	spec.Default()
	path := field.NewPath("spec")
	policy, errs := ledger.ParsePolicy(path, spec)
	if name == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "name"), "an InfraBlueprint has a name"))
	}
	errs = append(errs, nameProviderConfigs(path.Child("credentials"), name, &spec.Credentials)...)
	if len(errs) > 0 {
		return spec, policy, fmt.Errorf("InfraBlueprint %q: %w", name, errs.ToAggregate())
	}
	return spec, policy, nil
}

// providerReady says whether the provider blueprint is there and can be read, and passes on what it says itself. It returns
// the strategy, nil where there is none.
func (r *run) providerReady(spec v1alpha1.InfraBlueprintSpec) strategies.Strategy {
	provider, blueprint, err := r.provider(r.name(), spec.ProviderRef)
	if r.need.unresolved {
		return nil
	}
	if err != nil {
		reason := reasonBlueprintNotFound
		if blueprint != nil {
			reason = reasonInvalidSpec
		}
		r.set(isFalse(typeProviderReady, reason, err.Error()))
		return nil
	}
	r.set(blueprintReadiness(blueprint))
	return provider
}

// books are what the accountant sees, together with the observed ledger as it stands in the status.
func (r *run) books(policy ledger.Policy) (ledger.Books, *v1alpha1.Ledger, error) {
	b := ledger.Books{
		Policy: policy, Now: r.now, Evidence: map[string]ledger.Evidence{},
		Quarantine: r.input.Quarantine.Duration, UnprovisionedQuarantine: r.input.UnprovisionedQuarantine.Duration,
		StuckAfter: r.input.StuckAfter.Duration,
	}
	labels := map[string]string{v1alpha1.LabelInfraBlueprint: r.name()}
	for _, found := range r.need.labelled("requests", environmentConfig, with(labels, v1alpha1.LabelMailbox, v1alpha1.MailboxRequest)) {
		if strings.HasPrefix(text(found, "metadata", "name"), requestPrefix) {
			b.Requests = append(b.Requests, readRequest(found))
		}
	}
	status := value(r.xr, "status", "ledger")
	if isAbsent(status) {
		return b, nil, r.seed(&b, labels)
	}
	observed := &v1alpha1.Ledger{}
	if err := decode(status, observed); err != nil {
		return b, nil, fmt.Errorf("cannot read status.ledger: %w", err)
	}
	l, errs := ledger.Parse(field.NewPath("status", "ledger"), *observed)
	if len(errs) > 0 {
		return b, nil, fmt.Errorf("cannot read status.ledger: %w", errs.ToAggregate())
	}
	b.Ledger = &l
	if r.need.unresolved {
		return b, observed, nil
	}
	for _, cluster := range l.Missing(b.Requests) {
		release, barrier := r.need.named(releaseKind, cluster), r.need.named(objectKind, builder.BarrierName(cluster))
		e, _ := readEvidence(release, barrier)
		b.Evidence[cluster] = e
	}
	return b, observed, nil
}

// seed the books of a ledger that does not exist, for a new InfraBlueprint or after a restore: everything that carries
// its label says what it holds.
func (r *run) seed(b *ledger.Books, labels map[string]string) error {
	releases := map[string]*structpb.Struct{}
	for _, found := range r.need.labelled("releases", releaseKind, labels) {
		releases[text(found, "metadata", "labels", v1alpha1.LabelCluster)] = found
	}
	barriers := map[string]*structpb.Struct{}
	for _, found := range r.need.labelled("barriers", objectKind, with(labels, v1alpha1.LabelBarrier, "true")) {
		barriers[text(found, "metadata", "labels", v1alpha1.LabelCluster)] = found
	}
	b.Offers = map[string]ledger.Offer{}
	for _, found := range r.need.labelled("pages", environmentConfig, with(labels, v1alpha1.LabelMailbox, v1alpha1.MailboxPage)) {
		offers, err := readOffers(found)
		if err != nil {
			return err
		}
		maps.Copy(b.Offers, offers)
	}
	if r.need.unresolved {
		return nil
	}
	asked := map[string]bool{}
	for _, request := range b.Requests {
		asked[request.Cluster] = true
	}
	for _, found := range []map[string]*structpb.Struct{releases, barriers} {
		for cluster := range found {
			if asked[cluster] {
				continue
			}
			e, err := readEvidence(releases[cluster], barriers[cluster])
			if err != nil {
				return fmt.Errorf("cannot rebuild the ledger: cluster %q: %w", cluster, err)
			}
			b.Evidence[cluster] = e
		}
	}
	return nil
}

// readEvidence of a cluster whose request is gone.
func readEvidence(release, barrier *structpb.Struct) (ledger.Evidence, error) {
	e := ledger.Evidence{Release: release != nil, Barrier: barrier != nil}
	for _, found := range []*structpb.Struct{release, barrier} {
		if found == nil {
			continue
		}
		if at := timestamp(found, "metadata", "deletionTimestamp"); e.DeletedAt.IsZero() || !at.IsZero() && at.Before(e.DeletedAt) {
			e.DeletedAt = at
		}
		holds, err := readHolds(found)
		if err != nil {
			return e, err
		}
		e.Holds = e.Holds.Max(holds)
	}
	return e, nil
}

func readHolds(found *structpb.Struct) (ledger.Resources, error) {
	path := field.NewPath("metadata", "annotations").Key(v1alpha1.AnnotationHolds)
	holds := v1alpha1.ClusterResources{}
	raw := text(found, "metadata", "annotations", v1alpha1.AnnotationHolds)
	if err := json.Unmarshal([]byte(raw), &holds); err != nil {
		return ledger.Resources{}, field.Invalid(path, raw, "must say what the cluster holds")
	}
	r, errs := ledger.ParseCluster(path, holds)
	return r, errs.ToAggregate()
}

// asObserved is a composed resource as it is, without what others wrote into it.
func (r *run) asObserved(in strategies.Resource) strategies.Resource {
	metadata := map[string]any{"name": in.Text("metadata", "name"), "labels": map[string]any{v1alpha1.LabelInfraBlueprint: r.name()}}
	if name := in.Text("metadata", "annotations", v1alpha1.AnnotationExternalName); name != "" {
		metadata["annotations"] = map[string]any{v1alpha1.AnnotationExternalName: name}
	}
	return strategies.Resource{"apiVersion": in["apiVersion"], "kind": in["kind"], "metadata": metadata, "spec": in["spec"]}
}

// publish the terms and the pages. Offers come from the observed ledger, since only what is committed may be used. Why a
// cluster waits is published in runs that offer nothing, so that a storm does not rewrite every page at every step.
func (r *run) publish(spec v1alpha1.InfraBlueprintSpec, b ledger.Books, s ledger.Settlement) error {
	uid := text(r.xr, "metadata", "uid")
	// Clusters see the ProviderConfigs by name, however they came to be.
	spec.Credentials.RancherKubeconfigSecretRef, spec.Credentials.InfrastructureKubeconfigSecretRef = nil, nil
	terms := mailbox(termsName(r.name()), r.name(), v1alpha1.MailboxTerms, nil, map[string]any{"infraBlueprint": uid, "spec": spec})
	if err := r.compose("terms", terms); err != nil {
		return err
	}
	offers, waiting := [pages]map[string]any{}, [pages]map[string]any{}
	for n := range pages {
		offers[n], waiting[n] = map[string]any{}, map[string]any{}
	}
	if b.Ledger != nil {
		for cluster, offer := range b.Ledger.Open(b.Requests) {
			offers[pageOf(cluster)][cluster] = map[string]any{"amount": offer.Amount.Cluster(), "revision": offer.Revision}
		}
	}
	for _, w := range s.Queue {
		waiting[pageOf(w.Cluster)][w.Cluster] = waits{
			Needs: w.Need.Cluster(), Short: w.Short.Shortfall(), OfNamespace: w.OfNamespace, Reason: w.Reason,
		}
	}
	for n := range pages {
		key := fmt.Sprintf("page-%d", n)
		if page := r.observed(key); s.Offered && page != nil {
			waiting[n] = value(page, "data", "waiting").GetStructValue().AsMap()
		}
		// Without what is empty: the API server prunes an applied map that became empty, and the next run would add it again.
		data := map[string]any{"infraBlueprint": uid}
		if len(offers[n]) > 0 {
			data["offers"] = offers[n]
		}
		if len(waiting[n]) > 0 {
			data["waiting"] = waiting[n]
		}
		page := mailbox(numberedPage(r.name(), n), r.name(), v1alpha1.MailboxPage, nil, data)
		if err := r.compose(key, page); err != nil {
			return err
		}
	}
	return nil
}

// reportLedger that was settled: status, conditions, and when to run again.
func (r *run) reportLedger(b ledger.Books, observed *v1alpha1.Ledger, s ledger.Settlement) error {
	next := s.Ledger.API()
	next.Queue = ledger.Queue(s.Queue)
	if s.Offered && observed != nil {
		next.Queue = observed.Queue
	}
	for key, v := range map[string]any{
		"ledger": next, "usage": s.Usage(b.Limits), "buckets": s.Buckets(), "waiting": len(s.Queue),
	} {
		plain, err := encode(v)
		if err != nil {
			return fmt.Errorf("cannot write status.%s: %w", key, err)
		}
		r.status[key] = plain
	}
	if over := s.Reserved().Minus(b.Limits).Positive(); over.IsZero() {
		// Without the amounts, which status.usage has: every change of a message is one more write.
		r.set(isMet(typeWithinQuota, reasonWithinQuota, ""))
	} else {
		r.set(isFalse(typeWithinQuota, reasonOverQuota, "over by "+over.String()+": nothing is taken away, and nothing more is handed out until it fits again"))
	}
	if len(s.Stuck) == 0 {
		r.set(isFalse(typeReleaseStuck, reasonNoneStuck, ""))
	} else {
		r.set(isMet(typeReleaseStuck, reasonDeletionStuck, stuck(s.Stuck)))
	}
	r.ready = true
	switch {
	case !reflect.DeepEqual(r.status["ledger"], value(r.xr, "status", "ledger").AsInterface()):
		r.ttl = r.input.Requeue.Changed.Duration
	case !s.Pending.IsZero() || !s.Releasing.IsZero() || r.unresponsive():
		r.ttl = r.input.Requeue.Open.Duration
	case r.input.Requeue.Idle.Duration > 0:
		r.ttl = r.input.Requeue.Idle.Duration
	case r.need.modern:
		r.ttl = idle
	default:
		r.ttl = idleUnwatched
	}
	return nil
}

// stuck says which deletions take too long, and where to look.
func stuck(clusters []ledger.Stuck) string {
	parts := make([]string, len(clusters))
	for i, c := range clusters {
		parts[i] = fmt.Sprintf("%s since %s", c.Cluster, c.Since.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("their quota is held until they are gone: %s; look at the Release and the barrier of that name, and at the machines in Rancher",
		strings.Join(parts, ", "))
}

// carry fields of the observed status, until the run replaces them: a status field that is left out is removed.
func (r *run) carry(fields ...string) {
	for _, name := range fields {
		if v := value(r.xr, "status", name); v != nil {
			r.status[name] = v.AsInterface()
		}
	}
}

func with(labels map[string]string, key, val string) map[string]string {
	out := map[string]string{key: val}
	maps.Copy(out, labels)
	return out
}
