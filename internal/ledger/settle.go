package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Reasons why a cluster waits.
const (
	ReasonQuotaExceeded       = "QuotaExceeded"
	ReasonNeverFits           = "NeverFits"
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
)

// Ledger says what is reserved for which cluster. The InfraBlueprint is the only writer of it.
type Ledger struct {
	// Revision of the last offer.
	Revision int64
	// Grants, sorted by cluster.
	Grants []Grant
}

// Grant is what is reserved for one cluster.
type Grant struct {
	Cluster string
	Claim   string
	// Amount reserved, an open offer included.
	Amount Resources
	// Revision of the last offer made to the cluster.
	Revision int64
	// Provisioned says that the provider has been seen to hold the cluster.
	Provisioned bool
	// Releasing says that the cluster was deleted and something of it is left.
	Releasing bool
	// GoneSince is when nothing of the cluster was seen any more; zero while something is.
	GoneSince time.Time
}

// Request is what a cluster posts. It may lag and go back.
type Request struct {
	Cluster string
	// Claim is namespace/name.
	Claim   string
	Created time.Time
	// Priority that is asked for.
	Priority int64
	// Need is what the cluster must keep to become what is wanted.
	Need Resources
	// Keeps is what the cluster keeps, at least what its Release holds.
	Keeps Resources
	// Fence is the last offer that the cluster has answered.
	Fence int64
	// Provisioned says that the provider has been seen to hold the cluster.
	Provisioned bool
	// Largest machine of the cluster, in each dimension; nil where the request does not say.
	Largest *Resources
	// Unreadable requests are seen, but say nothing.
	Unreadable bool
}

// Namespace of the claim, empty where there is no claim.
func (r Request) Namespace() string { return namespaceOf(r.Claim) }

// Evidence of a cluster whose request is gone.
type Evidence struct {
	// Release and Barrier say whether they are seen.
	Release, Barrier bool
	// Holds is the most that they say they hold.
	Holds Resources
	// DeletedAt is when the first of them was asked to go; zero when none was.
	DeletedAt time.Time
}

// Books are what the accountant sees when it runs.
type Books struct {
	Policy

	// Ledger is the observed one; nil when there is none, after a restore for example.
	Ledger *Ledger
	// Requests labelled with the InfraBlueprint.
	Requests []Request
	// Evidence by cluster, of every cluster that has no request: of those in the ledger, or of all when there is no
	// ledger.
	Evidence map[string]Evidence
	// Offers by cluster, read off existing pages. Only used when there is no ledger.
	Offers map[string]Offer
	// Now is the time of the run.
	Now time.Time
	// Quarantine is how long quota is held after nothing of a cluster is seen any more.
	Quarantine time.Duration
	// UnprovisionedQuarantine is the same for a cluster that the provider was never seen to hold.
	UnprovisionedQuarantine time.Duration
	// StuckAfter is how long a deletion may take before it is called stuck.
	StuckAfter time.Duration
}

// Waiting is a cluster that waits for quota.
type Waiting struct {
	Request
	// Short is what is missing. Nothing is where only the turn of others is waited for.
	Short Resources
	// OfNamespace says that it is missing of what the namespace may take.
	OfNamespace bool
	// Reason is ReasonQuotaExceeded, ReasonNeverFits or ReasonNamespaceNotAllowed.
	Reason string
}

// Stuck is a cluster whose deletion takes too long.
type Stuck struct {
	Cluster string
	// Since is when it was asked to go.
	Since time.Time
}

// Settlement is the outcome of an accountant's run.
type Settlement struct {
	// Ledger to be written by compare-and-swap.
	Ledger Ledger
	// Offered says whether the run made an offer.
	Offered bool
	// Queue of the clusters that wait, in order.
	Queue []Waiting
	// Used, Pending and Releasing are what is reserved; Free is the rest without the surge reserve, negative when the quota
	// was cut below it.
	Used, Pending, Releasing, Free Resources
	// Stuck deletions, sorted by cluster.
	Stuck []Stuck
}

// Reserved is everything that cannot be offered.
func (s Settlement) Reserved() Resources {
	return s.Used.Plus(s.Pending).Plus(s.Releasing)
}

// Missing lists the clusters of the ledger that have no request: those whose evidence Settle wants to see.
func (l Ledger) Missing(requests []Request) []string {
	seen := byCluster(requests)
	var out []string
	for _, g := range l.Grants {
		if _, ok := seen[g.Cluster]; !ok {
			out = append(out, g.Cluster)
		}
	}
	return out
}

// Largest machine of the clusters of the ledger, in each dimension. Where a request does not say, it is no larger than what
// is reserved for the cluster.
func (l Ledger) Largest(requests []Request) (largest Resources) {
	seen := byCluster(requests)
	for _, g := range l.Grants {
		switch r, ok := seen[g.Cluster]; {
		case !ok:
		case r.Largest != nil:
			largest = largest.Max(*r.Largest)
		default:
			largest = largest.Max(g.Amount)
		}
	}
	return largest
}

// Open lists the offers of the ledger that are not answered, as far as the requests tell.
func (l Ledger) Open(requests []Request) map[string]Offer {
	seen := byCluster(requests)
	out := map[string]Offer{}
	for _, g := range l.Grants {
		if r, ok := seen[g.Cluster]; ok && !r.Unreadable && g.Revision > r.Fence {
			out[g.Cluster] = Offer{Amount: g.Amount, Revision: g.Revision}
		}
	}
	return out
}

// Settle brings the ledger up to date with what is seen, and offers what is free to the clusters that wait.
func Settle(b Books) Settlement {
	requests := byCluster(b.Requests)
	out, grants, open := b.reserved(requests)
	out.Free = b.Most().Minus(out.Reserved())
	taken := map[string]Resources{}
	for c, g := range grants {
		namespace := namespaceOf(cmp.Or(requests[c].Claim, g.Claim))
		taken[namespace] = taken[namespace].Plus(g.Amount)
	}

	blocked := false
	for _, r := range b.inOrder(b.Requests) {
		g := grants[r.Cluster]
		if r.Unreadable || open[r.Cluster] || r.Need.Within(g.Amount) {
			continue
		}
		more := r.Need.Minus(g.Amount).Positive()
		if w := b.waits(r, g.Amount, taken[r.Namespace()], out.Free, blocked); w.Reason != "" {
			// Only one that is next, and will fit once others have left, is worth keeping free for.
			blocked = blocked || b.StrictFIFO && w.Reason == ReasonQuotaExceeded && !w.OfNamespace
			out.Queue = append(out.Queue, w)
			continue
		}
		out.Ledger.Revision++
		out.Offered = true
		out.Free = out.Free.Minus(more)
		taken[r.Namespace()] = taken[r.Namespace()].Plus(more)
		out.Pending = out.Pending.Plus(more)
		g.Cluster, g.Claim, g.Provisioned = r.Cluster, r.Claim, g.Provisioned || r.Provisioned
		g.Amount, g.Revision = g.Amount.Plus(more), out.Ledger.Revision
		grants[r.Cluster] = g
	}
	for _, c := range slices.Sorted(maps.Keys(grants)) {
		out.Ledger.Grants = append(out.Ledger.Grants, grants[c])
	}
	return out
}

// reserved is what every cluster has before anything is offered, and which clusters have an open offer.
func (b Books) reserved(requests map[string]Request) (out Settlement, grants map[string]Grant, open map[string]bool) {
	old := b.seed()
	out.Ledger.Revision = old.Revision
	grants, open = map[string]Grant{}, map[string]bool{}
	for _, g := range old.Grants {
		grants[g.Cluster] = g
	}
	for c := range requests {
		if _, ok := grants[c]; !ok {
			grants[c] = Grant{Cluster: c}
		}
	}
	for _, c := range slices.Sorted(maps.Keys(grants)) {
		g := grants[c]
		r, seen := requests[c]
		switch {
		case seen && r.Unreadable:
			g.Releasing, g.GoneSince = false, time.Time{}
			out.Used = out.Used.Plus(g.Amount)
		case seen:
			open[c] = g.Revision > r.Fence
			g = g.reserve(r, open[c])
			out.Used = out.Used.Plus(r.Keeps)
			out.Pending = out.Pending.Plus(g.Amount.Minus(r.Keeps))
		default:
			g = g.release(b.Evidence[c], b.Now)
			wait := b.UnprovisionedQuarantine
			if g.Provisioned {
				wait = b.Quarantine
			}
			if !g.GoneSince.IsZero() && b.Now.Sub(g.GoneSince) >= wait {
				g = Grant{}
			}
			out.Releasing = out.Releasing.Plus(g.Amount)
			if at := b.Evidence[c].DeletedAt; !at.IsZero() && b.Now.Sub(at) >= b.StuckAfter {
				out.Stuck = append(out.Stuck, Stuck{Cluster: c, Since: at})
			}
		}
		if g.Amount.IsZero() {
			delete(grants, c)
			continue
		}
		grants[c] = g
	}
	return out, grants, open
}

// waits says why a cluster that holds something must wait for what it needs. It has no reason if it must not.
func (p Policy) waits(r Request, held, taken, free Resources, blocked bool) Waiting {
	w := Waiting{Request: r}
	rule, allowed := p.Rule(r.Namespace())
	growth, more := r.Need.Growth(held), r.Need.Minus(held).Positive()
	switch short, own := more.shortOf(free), more.shortOf(rule.Limits.Minus(taken)); {
	case !allowed:
		w.Reason = ReasonNamespaceNotAllowed
	case !growth.Within(p.Most()):
		w.Reason, w.Short = ReasonNeverFits, short
	case !growth.Within(rule.Limits):
		w.Reason, w.Short, w.OfNamespace = ReasonNeverFits, own, true
	case !own.IsZero():
		w.Reason, w.Short, w.OfNamespace = ReasonQuotaExceeded, own, true
	case !short.IsZero() || blocked:
		w.Reason, w.Short = ReasonQuotaExceeded, short
	}
	return w
}

// reserve for a cluster whose request is seen: what it keeps, and an offer that it has not answered.
func (g Grant) reserve(r Request, open bool) Grant {
	amount := r.Keeps
	if open {
		amount = amount.Max(g.Amount)
	}
	return Grant{
		Cluster: r.Cluster, Claim: r.Claim, Amount: amount, Revision: g.Revision, Provisioned: g.Provisioned || r.Provisioned,
	}
}

// release holds what a cluster without a request had, at least what the evidence shows.
func (g Grant) release(e Evidence, now time.Time) Grant {
	if e.Release || e.Barrier {
		g.Amount = g.Amount.Max(e.Holds)
		g.Releasing, g.GoneSince = true, time.Time{}
		return g
	}
	g.Releasing = false
	if g.GoneSince.IsZero() {
		g.GoneSince = now
	}
	return g
}

// shortOf is what is missing of an increase. A dimension that does not grow is never short, also not where more is used
// than the quota allows.
func (r Resources) shortOf(free Resources) (short Resources) {
	for d := range r {
		if r[d] > 0 {
			short[d] = max(0, saturatingAdd(r[d], -free[d]))
		}
	}
	return short
}

// seed returns the observed ledger; where there is none it is rebuilt, above every revision seen, from pages and from
// what Releases and barriers hold. What requests keep is added when it is settled.
func (b Books) seed() Ledger {
	var l Ledger
	if b.Ledger != nil {
		l = *b.Ledger
	} else {
		grants := map[string]Grant{}
		for c, e := range b.Evidence {
			grants[c] = Grant{Cluster: c, Amount: e.Holds}
		}
		for c, o := range b.Offers {
			g := grants[c]
			g.Cluster, g.Amount, g.Revision = c, g.Amount.Max(o.Amount), o.Revision
			grants[c] = g
			l.Revision = max(l.Revision, o.Revision)
		}
		for _, c := range slices.Sorted(maps.Keys(grants)) {
			l.Grants = append(l.Grants, grants[c])
		}
	}
	for _, r := range b.Requests {
		l.Revision = max(l.Revision, r.Fence)
	}
	return l
}

func byCluster(requests []Request) map[string]Request {
	out := make(map[string]Request, len(requests))
	for _, r := range requests {
		out[r.Cluster] = r
	}
	return out
}
