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
				Limits: Resources{CPU: 64000, Memory: gib, Disk: 640 * gib, Nodes: Unlimited, Clusters: Unlimited},
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
				Limits: Resources{CPU: 64000, Memory: 256 * gib, Disk: 640 * gib, Nodes: Unlimited, Clusters: 1}, Requests: []Request{request("a", 1, 1, 4), request("b", 0, 1, 0)},
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
				Ledger: &Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}}, Limits: Resources{CPU: 4000, Memory: 256 * gib, Disk: 640 * gib, Nodes: Unlimited, Clusters: Unlimited},
				Requests: []Request{request("a", 3, 3, 4), request("b", 0, 1, 0)},
			},
			want: Settlement{
				Ledger: Ledger{Revision: 4, Grants: []Grant{grant("a", 3, 4)}}, Used: cluster(3, 4),
				Free:  Resources{CPU: -8000, Memory: 208 * gib, Disk: 520 * gib, Nodes: Unlimited, Clusters: Unlimited},
				Queue: []Waiting{{Request: request("b", 0, 1, 0), Short: Resources{CPU: 12000}, Reason: ReasonQuotaExceeded}},
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
			b.Now, b.Quarantine, b.UnprovisionedQuarantine = now, time.Minute, 15*time.Minute
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
