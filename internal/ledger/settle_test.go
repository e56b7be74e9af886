package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSettle(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	limits := Resources{CPU: 64000, Memory: 256 * gib, Disk: 640 * gib, Nodes: Unlimited, Clusters: Unlimited}
	// request of a cluster of 4-cpu nodes, created in the order of their names.
	request := func(name string, keeps, needs, fence int64) Request {
		return Request{
			Cluster: name, Claim: "team/" + name, Created: now.Add(time.Duration(name[0]) * time.Minute), Need: cluster(needs, 4), Keeps: cluster(keeps, 4), Fence: fence,
		}
	}
	grant := func(name string, nodes, revision int64) Grant {
		return Grant{Cluster: name, Claim: "team/" + name, Amount: cluster(nodes, 4), Revision: revision}
	}
	left := func(nodes, clusters int64) Resources {
		used := cluster(nodes, 4)
		used[Clusters] = clusters
		return limits.Minus(used)
	}

	prioritised := func(r Request, priority int64) Request {
		r.Priority = priority
		return r
	}
	claimed := func(r Request, claim string) Request {
		r.Claim = claim
		return r
	}

	cases := map[string]struct {
		reason string
		books  Books
		want   Settlement
	}{
		"Offer": {
			reason: "What fits is offered at once, the next revision each.",
			books:  Books{Ledger: &Ledger{Revision: 3}, Requests: []Request{request("b", 0, 2, 0), request("a", 0, 3, 0)}},
			want: Settlement{
				Ledger: Ledger{Revision: 5, Grants: []Grant{grant("a", 3, 4), grant("b", 2, 5)}}, Offered: true,
				Pending: Resources{CPU: 20000, Memory: 80 * gib, Disk: 200 * gib, Nodes: 5, Clusters: 2}, Free: left(5, 2),
			},
		},
		"OpenOffer": {
			reason: "A cluster with an open offer gets no other, and what it was offered stays reserved.",
			books:  Books{Ledger: &Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}}, Requests: []Request{request("a", 0, 9, 3)}},
			want: Settlement{
				Ledger: Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}}, Pending: cluster(3, 4), Free: left(3, 1),
			},
		},
		"Answered": {
			reason: "An answered offer leaves what is kept; the surplus returns.",
			books:  Books{Ledger: &Ledger{Revision: 4, Grants: []Grant{grant("a", 9, 4)}}, Requests: []Request{request("a", 3, 3, 4)}},
			want:   Settlement{Ledger: Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}}, Used: cluster(3, 4), Free: left(3, 1)},
		},
		"Declined": {
			reason: "After it declined an offer a cluster is offered what it really needs.",
			books:  Books{Ledger: &Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}}, Requests: []Request{request("a", 0, 5, 4)}},
			want: Settlement{
				Ledger: Ledger{Revision: 5, Grants: []Grant{grant("a", 5, 5)}}, Offered: true, Pending: cluster(5, 4), Free: left(5, 1),
			},
		},
		"StaleRequest": {
			reason: "A request that went back makes the offer look open: it is reserved, and so is what the request keeps.",
			books:  Books{Ledger: &Ledger{Revision: 6, Grants: []Grant{grant("a", 3, 6)}}, Requests: []Request{request("a", 5, 5, 4)}},
			want: Settlement{
				Ledger: Ledger{Revision: 6, Grants: []Grant{grant("a", 5, 6)}}, Used: cluster(5, 4), Free: left(5, 1),
			},
		},
		"Queue": {
			reason: "What does not fit waits, smaller ones may pass, and each is told what it is short of.",
			books: Books{
				Ledger:   &Ledger{Revision: 4, Grants: []Grant{grant("a", 10, 4)}},
				Requests: []Request{request("a", 10, 10, 4), request("b", 0, 8, 0), request("c", 0, 2, 0)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 5, Grants: []Grant{grant("a", 10, 4), grant("c", 2, 5)}}, Offered: true,
				Used: cluster(10, 4), Pending: cluster(2, 4), Free: left(12, 2),
				Queue: []Waiting{{Request: request("b", 0, 8, 0), Short: Resources{CPU: 8000, Memory: 32 * gib, Disk: 80 * gib}, Reason: ReasonQuotaExceeded}},
			},
		},
		"NeverFits": {
			reason: "More than the whole quota is told apart from more than is free now, and blocks nobody.",
			books:  Books{Ledger: &Ledger{Revision: 4}, Requests: []Request{request("a", 0, 17, 0), request("b", 0, 1, 0)}},
			want: Settlement{
				Ledger: Ledger{Revision: 5, Grants: []Grant{grant("b", 1, 5)}}, Offered: true, Pending: cluster(1, 4), Free: left(1, 1),
				Queue: []Waiting{{Request: request("a", 0, 17, 0), Short: Resources{CPU: 4000, Memory: 16 * gib, Disk: 40 * gib}, Reason: ReasonNeverFits}},
			},
		},
		"GrowthInOneDimension": {
			reason: "Only a dimension that grows must be free: memory is over after a cut of the quota, cpu is not.",
			books: Books{
				Ledger: &Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}},
				Policy: Policy{Limits: Resources{CPU: 64000, Memory: gib, Disk: 640 * gib, Nodes: Unlimited, Clusters: Unlimited}},
				Requests: []Request{func() Request {
					r := request("a", 3, 3, 4)
					r.Need[CPU] += 4000
					return r
				}()},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 5, Grants: []Grant{func() Grant {
					g := grant("a", 3, 5)
					g.Amount[CPU] += 4000
					return g
				}()}}, Offered: true, Used: cluster(3, 4), Pending: Resources{CPU: 4000},
				Free: Resources{CPU: 48000, Memory: -47 * gib, Disk: 520 * gib, Nodes: Unlimited, Clusters: Unlimited},
			},
		},
		"ClusterLimit": {
			reason: "The number of clusters is a limit like every other.",
			books: Books{
				Ledger: &Ledger{Revision: 4, Grants: []Grant{grant("a", 1, 4)}},
				Policy: Policy{Limits: Resources{CPU: 64000, Memory: 256 * gib, Disk: 640 * gib, Nodes: Unlimited, Clusters: 1}}, Requests: []Request{request("a", 1, 1, 4), request("b", 0, 1, 0)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 4, Grants: []Grant{grant("a", 1, 4)}}, Used: cluster(1, 4),
				Free:  Resources{CPU: 60000, Memory: 240 * gib, Disk: 600 * gib, Nodes: Unlimited},
				Queue: []Waiting{{Request: request("b", 0, 1, 0), Short: Resources{Clusters: 1}, Reason: ReasonQuotaExceeded}},
			},
		},
		"Releasing": {
			reason: "A cluster without a request holds what it had, at least what is seen of it, while anything is seen.",
			books: Books{
				Ledger:   &Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}},
				Evidence: map[string]Evidence{"a": {Barrier: true, Holds: cluster(5, 4)}},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 4, Grants: []Grant{func() Grant {
					g := grant("a", 5, 4)
					g.Releasing = true
					return g
				}()}}, Releasing: cluster(5, 4), Free: left(5, 1),
			},
		},
		"GoneStartsQuarantine": {
			reason: "When nothing is seen any more, the quarantine starts.",
			books: Books{
				Ledger:   &Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Amount: cluster(3, 4), Revision: 4, Provisioned: true, Releasing: true}}},
				Evidence: map[string]Evidence{"a": {}},
			},
			want: Settlement{
				Ledger:    Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Amount: cluster(3, 4), Revision: 4, Provisioned: true, GoneSince: now}}},
				Releasing: cluster(3, 4), Free: left(3, 1),
			},
		},
		"Quarantined": {
			reason: "Quota is held until the quarantine is over.",
			books: Books{
				Ledger: &Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Amount: cluster(3, 4), Provisioned: true, GoneSince: now.Add(-59 * time.Second)}}},
			},
			want: Settlement{
				Ledger:    Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Amount: cluster(3, 4), Provisioned: true, GoneSince: now.Add(-59 * time.Second)}}},
				Releasing: cluster(3, 4), Free: left(3, 1),
			},
		},
		"Released": {
			reason: "After the quarantine the quota returns, and is offered in the same run.",
			books: Books{
				Ledger: &Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Amount: cluster(16, 4), Provisioned: true, GoneSince: now.Add(-time.Minute)}}}, Requests: []Request{request("b", 0, 16, 0)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 5, Grants: []Grant{grant("b", 16, 5)}}, Offered: true, Pending: cluster(16, 4), Free: left(16, 1),
			},
		},
		"NeverProvisioned": {
			reason: "A cluster that the provider was never seen to hold may still be on its way there: it is held for longer.",
			books:  Books{Ledger: &Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Amount: cluster(3, 4), GoneSince: now.Add(-14 * time.Minute)}}}},
			want: Settlement{
				Ledger:    Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Amount: cluster(3, 4), GoneSince: now.Add(-14 * time.Minute)}}},
				Releasing: cluster(3, 4), Free: left(3, 1),
			},
		},
		"SeenAgain": {
			reason: "Something that shows up again ends the quarantine.",
			books: Books{
				Ledger:   &Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Amount: cluster(3, 4), GoneSince: now.Add(-time.Hour)}}},
				Evidence: map[string]Evidence{"a": {Release: true}},
			},
			want: Settlement{
				Ledger:    Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Amount: cluster(3, 4), Releasing: true}}},
				Releasing: cluster(3, 4), Free: left(3, 1),
			},
		},
		"Unreadable": {
			reason: "A request that cannot be read says that the cluster is there: what it has stays, and nothing is offered.",
			books: Books{
				Ledger:   &Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}},
				Requests: []Request{{Cluster: "a", Unreadable: true}},
			},
			want: Settlement{Ledger: Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}}, Used: cluster(3, 4), Free: left(3, 1)},
		},
		"OverQuota": {
			reason: "A cut of the quota takes nothing away and offers nothing.",
			books: Books{
				Ledger: &Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}}, Policy: Policy{Limits: Resources{CPU: 4000, Memory: 256 * gib, Disk: 640 * gib, Nodes: Unlimited, Clusters: Unlimited}},
				Requests: []Request{request("a", 3, 3, 4), request("b", 0, 1, 0)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}}, Used: cluster(3, 4),
				Free:  Resources{CPU: -8000, Memory: 208 * gib, Disk: 520 * gib, Nodes: Unlimited, Clusters: Unlimited},
				Queue: []Waiting{{Request: request("b", 0, 1, 0), Short: Resources{CPU: 12000}, Reason: ReasonQuotaExceeded}},
			},
		},
		"Priority": {
			reason: "A higher priority comes first, up to what counts in its namespace; then creation decides.",
			books: Books{
				Ledger: &Ledger{Revision: 4}, Policy: Policy{Limits: limits, Access: []NamespaceRule{{Name: "*", Limits: NoLimits(), MaxPriority: 10}}},
				Requests: []Request{request("a", 0, 6, 0), prioritised(request("b", 0, 6, 0), 10), prioritised(request("c", 0, 6, 0), 900)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 6, Grants: []Grant{grant("b", 6, 5), grant("c", 6, 6)}}, Offered: true,
				Pending: Resources{CPU: 48000, Memory: 192 * gib, Disk: 480 * gib, Nodes: 12, Clusters: 2}, Free: left(12, 2),
				Queue: []Waiting{{Request: request("a", 0, 6, 0), Short: Resources{CPU: 8000, Memory: 32 * gib, Disk: 80 * gib}, Reason: ReasonQuotaExceeded}},
			},
		},
		"PriorityWithoutRules": {
			reason: "Where the platform team says nothing, nobody comes first by asking for it.",
			books: Books{
				Ledger: &Ledger{Revision: 4}, Requests: []Request{request("a", 0, 9, 0), prioritised(request("b", 0, 9, 0), 1000)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 5, Grants: []Grant{grant("a", 9, 5)}}, Offered: true, Pending: cluster(9, 4), Free: left(9, 1),
				Queue: []Waiting{{Request: request("b", 0, 9, 0), Short: Resources{CPU: 8000, Memory: 32 * gib, Disk: 80 * gib}, Reason: ReasonQuotaExceeded}},
			},
		},
		"StrictFIFO": {
			reason: "Nobody passes a cluster that waits for quota, and who only waits for its turn is short of nothing.",
			books: Books{
				Policy: Policy{Limits: limits, StrictFIFO: true}, Ledger: &Ledger{Revision: 4, Grants: []Grant{grant("a", 10, 4)}},
				Requests: []Request{request("a", 10, 10, 4), request("b", 0, 8, 0), request("c", 0, 2, 0)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 4, Grants: []Grant{grant("a", 10, 4)}}, Used: cluster(10, 4), Free: left(10, 1),
				Queue: []Waiting{
					{Request: request("b", 0, 8, 0), Short: Resources{CPU: 8000, Memory: 32 * gib, Disk: 80 * gib}, Reason: ReasonQuotaExceeded},
					{Request: request("c", 0, 2, 0), Reason: ReasonQuotaExceeded},
				},
			},
		},
		"StrictFIFOBlockedByNobody": {
			reason: "One that never fits, one that is not allowed, and one that its namespace's quota holds block nobody.",
			books: Books{
				Policy: Policy{Limits: limits, StrictFIFO: true, Access: []NamespaceRule{
					{Name: "team", Limits: NoLimits()}, {Name: "small", Limits: Resources{CPU: 8000, Memory: Unlimited, Disk: Unlimited, Nodes: Unlimited, Clusters: 1}},
				}},
				Ledger: &Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Claim: "small/a", Amount: cluster(1, 4), Revision: 4}}},
				Requests: []Request{
					claimed(request("a", 1, 1, 4), "small/a"), request("b", 0, 17, 0), claimed(request("c", 0, 1, 0), "other/c"),
					claimed(request("d", 0, 1, 0), "small/d"), claimed(request("e", 0, 3, 0), "small/e"), request("f", 0, 2, 0),
				},
			},
			want: Settlement{
				Ledger:  Ledger{Revision: 5, Grants: []Grant{{Cluster: "a", Claim: "small/a", Amount: cluster(1, 4), Revision: 4}, grant("f", 2, 5)}},
				Offered: true, Used: cluster(1, 4), Pending: cluster(2, 4), Free: left(3, 2),
				Queue: []Waiting{
					{Request: request("b", 0, 17, 0), Short: Resources{CPU: 8000, Memory: 32 * gib, Disk: 80 * gib}, Reason: ReasonNeverFits},
					{Request: claimed(request("c", 0, 1, 0), "other/c"), Reason: ReasonNamespaceNotAllowed},
					{Request: claimed(request("d", 0, 1, 0), "small/d"), Short: Resources{Clusters: 1}, OfNamespace: true, Reason: ReasonQuotaExceeded},
					{Request: claimed(request("e", 0, 3, 0), "small/e"), Short: Resources{CPU: 8000, Clusters: 1}, OfNamespace: true, Reason: ReasonNeverFits},
				},
			},
		},
		"NamespaceQuotaCountsOffers": {
			reason: "What is offered in a run counts for the next cluster of the namespace; another namespace of the same pattern has its own.",
			books: Books{
				Policy:   Policy{Limits: limits, Access: []NamespaceRule{{Name: "t*", Limits: Resources{CPU: 8000, Memory: Unlimited, Disk: Unlimited, Nodes: Unlimited, Clusters: Unlimited}}}},
				Ledger:   &Ledger{Revision: 4},
				Requests: []Request{request("a", 0, 2, 0), request("b", 0, 1, 0), claimed(request("c", 0, 2, 0), "tango/c")},
			},
			want: Settlement{
				Ledger:  Ledger{Revision: 6, Grants: []Grant{grant("a", 2, 5), {Cluster: "c", Claim: "tango/c", Amount: cluster(2, 4), Revision: 6}}},
				Offered: true, Pending: Resources{CPU: 16000, Memory: 64 * gib, Disk: 160 * gib, Nodes: 4, Clusters: 2}, Free: left(4, 2),
				Queue: []Waiting{{Request: request("b", 0, 1, 0), Short: Resources{CPU: 4000}, OfNamespace: true, Reason: ReasonQuotaExceeded}},
			},
		},
		"NamespaceQuotaCountsReleasing": {
			reason: "What a deleted cluster still holds counts for its namespace.",
			books: Books{
				Policy:   Policy{Limits: limits, Access: []NamespaceRule{{Name: "team", Limits: Resources{CPU: 8000, Memory: Unlimited, Disk: Unlimited, Nodes: Unlimited, Clusters: Unlimited}}}},
				Ledger:   &Ledger{Revision: 4, Grants: []Grant{grant("a", 2, 4)}},
				Evidence: map[string]Evidence{"a": {Barrier: true}},
				Requests: []Request{request("b", 0, 1, 0)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 4, Grants: []Grant{{Cluster: "a", Claim: "team/a", Amount: cluster(2, 4), Revision: 4, Releasing: true}}}, Releasing: cluster(2, 4), Free: left(2, 1),
				Queue: []Waiting{{Request: request("b", 0, 1, 0), Short: Resources{CPU: 4000}, OfNamespace: true, Reason: ReasonQuotaExceeded}},
			},
		},
		"AccessLost": {
			reason: "A cluster of a namespace that lost its access keeps what it has and may shrink; it does not grow.",
			books: Books{
				Policy:   Policy{Limits: limits, Access: []NamespaceRule{{Name: "other", Limits: NoLimits()}}},
				Ledger:   &Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4), grant("b", 3, 4)}},
				Requests: []Request{request("a", 2, 2, 4), request("b", 3, 4, 4)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 4, Grants: []Grant{grant("a", 2, 4), grant("b", 3, 4)}},
				Used:   Resources{CPU: 20000, Memory: 80 * gib, Disk: 200 * gib, Nodes: 5, Clusters: 2}, Free: left(5, 2),
				Queue: []Waiting{{Request: request("b", 3, 4, 4), Reason: ReasonNamespaceNotAllowed}},
			},
		},
		"SurgeReserve": {
			reason: "The reserve is not handed out; what would need it never fits.",
			books: Books{
				Policy: Policy{Limits: limits, SurgeReserve: Resources{CPU: 4000}}, Ledger: &Ledger{Revision: 4},
				Requests: []Request{request("a", 0, 16, 0), request("b", 0, 15, 0)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 5, Grants: []Grant{grant("b", 15, 5)}}, Offered: true, Pending: cluster(15, 4), Free: left(16, 1).Plus(Resources{Memory: 16 * gib, Disk: 40 * gib, Nodes: 0}),
				Queue: []Waiting{{Request: request("a", 0, 16, 0), Short: Resources{CPU: 4000}, Reason: ReasonNeverFits}},
			},
		},
		"Stuck": {
			reason: "A deletion that takes too long is named, one that is young or has left nothing is not.",
			books: Books{
				Ledger: &Ledger{Revision: 4, Grants: []Grant{grant("a", 1, 1), grant("b", 1, 2), grant("c", 1, 3)}},
				Evidence: map[string]Evidence{
					"a": {Barrier: true, DeletedAt: now.Add(-30 * time.Minute)}, "b": {Release: true, DeletedAt: now.Add(-29 * time.Minute)}, "c": {Release: true},
				},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 4, Grants: []Grant{
					{Cluster: "a", Claim: "team/a", Amount: cluster(1, 4), Revision: 1, Releasing: true},
					{Cluster: "b", Claim: "team/b", Amount: cluster(1, 4), Revision: 2, Releasing: true},
					{Cluster: "c", Claim: "team/c", Amount: cluster(1, 4), Revision: 3, Releasing: true},
				}},
				Releasing: Resources{CPU: 12000, Memory: 48 * gib, Disk: 120 * gib, Nodes: 3, Clusters: 3}, Free: left(3, 3),
				Stuck: []Stuck{{Cluster: "a", Since: now.Add(-30 * time.Minute)}},
			},
		},
		"Seed": {
			reason: "A lost ledger is rebuilt from requests, pages and evidence, above every revision seen.",
			books: Books{
				Requests: []Request{request("a", 2, 2, 9), request("b", 0, 3, 1)},
				Offers:   map[string]Offer{"b": {Amount: cluster(3, 4), Revision: 11}, "d": {Amount: cluster(1, 4), Revision: 2}},
				Evidence: map[string]Evidence{"c": {Release: true, Holds: cluster(4, 4)}},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 11, Grants: []Grant{
					grant("a", 2, 0), grant("b", 3, 11),
					{Cluster: "c", Amount: cluster(4, 4), Releasing: true},
					{Cluster: "d", Amount: cluster(1, 4), Revision: 2, GoneSince: now},
				}},
				Used: cluster(2, 4), Pending: cluster(3, 4), Releasing: Resources{CPU: 20000, Memory: 80 * gib, Disk: 200 * gib, Nodes: 5, Clusters: 2},
				Free: left(10, 4),
			},
		},
		"RevisionAboveEveryFence": {
			reason: "A ledger that is older than the answers to it goes on above them.",
			books:  Books{Ledger: &Ledger{Revision: 2}, Requests: []Request{request("a", 0, 1, 40)}},
			want: Settlement{
				Ledger: Ledger{Revision: 41, Grants: []Grant{grant("a", 1, 41)}}, Offered: true, Pending: cluster(1, 4), Free: left(1, 1),
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := tc.books
			b.Now, b.Quarantine, b.UnprovisionedQuarantine, b.StuckAfter = now, time.Minute, 15*time.Minute, 30*time.Minute
			if b.Limits.IsZero() {
				b.Limits = limits
			}
			got := Settle(b)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nSettle(...): -want, +got:\n%s", tc.reason, diff)
			}
			if got.Offered {
				return
			}
			b.Ledger = &got.Ledger
			if diff := cmp.Diff(got, Settle(b)); diff != "" {
				t.Errorf("%s\nSettle(...) changes what it settled itself:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLedgerRoundTrip(t *testing.T) {
	want := Ledger{Revision: 7, Grants: []Grant{
		{Cluster: "a", Claim: "team/a", Amount: cluster(3, 4), Revision: 7, Provisioned: true},
		{Cluster: "b", Amount: cluster(1, 2), GoneSince: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{Cluster: "c", Amount: cluster(1, 2), Releasing: true},
	}}
	got, errs := Parse(nil, want.API())
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse(API()): -want, +got:\n%s", diff)
	}
}

func TestLargest(t *testing.T) {
	request := func(cluster string, largest *Resources) Request { return Request{Cluster: cluster, Largest: largest} }
	l := Ledger{Grants: []Grant{
		{Cluster: "aa", Amount: Resources{12, 48, 300, 3}}, {Cluster: "bb", Amount: Resources{16, 20, 100, 2}}, {Cluster: "cc", Amount: Resources{90, 90, 90, 1}},
	}}
	cases := map[string]struct {
		reason   string
		requests []Request
		want     Resources
	}{
		"None": {reason: "A cluster that is gone has nothing to be moved."},
		"Said": {
			reason:   "The most in each dimension, of the clusters that hold something.",
			requests: []Request{request("aa", &Resources{4, 16, 100, 1}), request("bb", &Resources{8, 10, 50, 1}), request("dd", &Resources{99, 99, 99, 1})},
			want:     Resources{8, 16, 100, 1},
		},
		"NotSaid": {
			reason:   "A machine is no larger than its cluster.",
			requests: []Request{request("aa", &Resources{4, 16, 100, 1}), request("bb", nil)},
			want:     Resources{16, 20, 100, 2},
		},
		"NothingBuilt": {
			reason:   "A cluster whose record has no pools yet has no machine.",
			requests: []Request{request("aa", &Resources{})},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, l.Largest(tc.requests)); diff != "" {
				t.Errorf("%s\nLargest(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
	pool := func(name string, node Resources) AdmittedPool {
		return AdmittedPool{Pool: Pool{Name: name, Count: 3, Node: node}}
	}
	got := LargestNode(
		Record{Pools: []AdmittedPool{pool("a", Resources{4, 8, 60, 1})}, Rolling: []Pool{{Name: "b", Count: 1, Node: Resources{2, 16, 10, 1}}}},
		Record{Pools: []AdmittedPool{pool("a", Resources{6, 8, 10, 1})}},
	)
	if diff := cmp.Diff(Resources{6, 16, 60, 1}, got); diff != "" {
		t.Errorf("LargestNode(...): machines that are rolled away included: -want, +got:\n%s", diff)
	}
}
