package ledger

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// Policy says how a quota is handed out.
type Policy struct {
	// Limits of the quota.
	Limits Resources
	// SurgeReserve is never offered.
	SurgeReserve Resources
	// StrictFIFO lets nobody pass a cluster that waits for quota.
	StrictFIFO bool
	// Access rules. Without any, every namespace may take all, with priority 0.
	Access []NamespaceRule
}

// NamespaceRule is what the clusters of one namespace may take.
type NamespaceRule struct {
	// Name of the namespace, or a pattern.
	Name string
	// Limits of each such namespace, all its clusters together.
	Limits Resources
	// MaxPriority that counts.
	MaxPriority int64
}

// Most that can be offered, all in all.
func (p Policy) Most() Resources {
	return p.Limits.Minus(p.SurgeReserve)
}

// Rule of a namespace, and whether it may claim clusters at all.
func (p Policy) Rule(namespace string) (NamespaceRule, bool) {
	if len(p.Access) == 0 {
		return NamespaceRule{Limits: NoLimits()}, true
	}
	var found NamespaceRule
	for _, r := range p.Access {
		if r.Name == namespace {
			return r, true
		}
		// A pattern that is malformed, which the XRD refuses, matches nothing.
		if ok, err := path.Match(r.Name, namespace); err == nil && ok && longer(r.Name, found.Name) {
			found = r
		}
	}
	return found, found.Name != ""
}

// longer of two patterns, or the first by its letters.
func longer(a, b string) bool {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(b, a)) > 0
}

// priority of a request that counts.
func (p Policy) priority(r Request) int64 {
	rule, _ := p.Rule(r.Namespace())
	return min(r.Priority, rule.MaxPriority)
}

// inOrder sorts requests by priority, then creation, then name.
func (p Policy) inOrder(requests []Request) []Request {
	out := slices.Clone(requests)
	for i := range out {
		out[i].Priority = p.priority(out[i])
	}
	slices.SortFunc(out, func(a, b Request) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), strings.Compare(a.Cluster, b.Cluster))
	})
	return out
}

// NoLimits is unlimited in every dimension.
func NoLimits() (r Resources) {
	for d := range r {
		r[d] = Unlimited
	}
	return r
}

// namespaceOf a claim, namespace/name.
func namespaceOf(claim string) string {
	namespace, _, _ := strings.Cut(claim, "/")
	return namespace
}

// ParsePolicy reads how an InfraBlueprint hands its quota out. Errors name the field below at, the spec.
func ParsePolicy(at *field.Path, spec v1alpha1.InfraBlueprintSpec) (Policy, field.ErrorList) {
	quota := at.Child("quota")
	limits, errs := parseLimits(quota, v1alpha1.NamespaceQuota{
		CPU: spec.Quota.CPU, Memory: spec.Quota.Memory, Disk: spec.Quota.Disk, Nodes: spec.Quota.Nodes, Clusters: spec.Quota.Clusters,
	})
	for _, d := range []Dimension{CPU, Memory, Disk} {
		if limits[d] == Unlimited {
			errs = append(errs, field.Required(quota.Child(d.String()), "a quota limits it"))
		}
	}
	p := Policy{Limits: limits, StrictFIFO: spec.QueueingStrategy == v1alpha1.StrictFIFO}
	if s := spec.QueueingStrategy; s != "" && s != v1alpha1.BestEffortFIFO && s != v1alpha1.StrictFIFO {
		errs = append(errs, field.NotSupported(at.Child("queueingStrategy"), s, []v1alpha1.QueueingStrategy{v1alpha1.BestEffortFIFO, v1alpha1.StrictFIFO}))
	}
	if spec.Quota.SurgeReserve != nil {
		reserve, more := ParseCluster(quota.Child("surgeReserve"), *spec.Quota.SurgeReserve)
		reserve[Clusters] = 0
		p.SurgeReserve, errs = reserve, append(errs, more...)
	}
	if spec.Access == nil {
		return p, errs
	}
	rules := at.Child("access", "namespaces")
	if len(spec.Access.Namespaces) == 0 {
		errs = append(errs, field.Required(rules, "name who may claim clusters, or leave access out"))
	}
	for i, r := range spec.Access.Namespaces {
		rule := NamespaceRule{Name: r.Name, Limits: NoLimits(), MaxPriority: r.MaxPriority}
		if r.Name == "" {
			errs = append(errs, field.Required(rules.Index(i).Child("name"), "must be a namespace, or a pattern such as team-*"))
		}
		if r.Quota != nil {
			var more field.ErrorList
			rule.Limits, more = parseLimits(rules.Index(i).Child("quota"), *r.Quota)
			errs = append(errs, more...)
		}
		p.Access = append(p.Access, rule)
	}
	return p, errs
}

// parseLimits reads limits. Dimensions that are left out are Unlimited.
func parseLimits(at *field.Path, q v1alpha1.NamespaceQuota) (Resources, field.ErrorList) {
	r := NoLimits()
	var errs field.ErrorList
	for _, quantity := range []struct {
		dimension Dimension
		limit     v1alpha1.Quantity
		parse     func(*field.Path, v1alpha1.Quantity) (int64, *field.Error)
	}{{CPU, q.CPU, ParseCPU}, {Memory, q.Memory, ParseBytes}, {Disk, q.Disk, ParseBytes}} {
		if quantity.limit == "" {
			continue
		}
		v, err := quantity.parse(at.Child(quantity.dimension.String()), quantity.limit)
		if err != nil {
			errs = append(errs, err)
		}
		r[quantity.dimension] = v
	}
	for _, count := range []struct {
		dimension Dimension
		limit     *int64
	}{{Nodes, q.Nodes}, {Clusters, q.Clusters}} {
		if count.limit == nil {
			continue
		}
		if *count.limit < 0 {
			errs = append(errs, field.Invalid(at.Child(count.dimension.String()), *count.limit, "must not be negative"))
		}
		r[count.dimension] = *count.limit
	}
	return r, errs
}
