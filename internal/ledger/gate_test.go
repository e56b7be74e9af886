package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

const gib = 1 << 30

// node of so many cpus, with 4Gi of memory and 10Gi of disk each.
func node(cpus int64) Resources {
	return Resources{CPU: cpus * 1000, Memory: cpus * 4 * gib, Disk: cpus * 10 * gib, Nodes: 1}
}

// cluster of so many nodes.
func cluster(nodes, cpus int64) Resources {
	r := node(cpus).Times(nodes)
	if !r.IsZero() {
		r[Clusters] = 1
	}
	return r
}

func pool(name string, count, cpus int64) AdmittedPool {
	return AdmittedPool{
		Pool: Pool{Name: name, Count: count, Node: node(cpus)},
		Spec: v1alpha1.AdmittedPool{Pool: v1alpha1.Pool{Name: name, Count: count}, Size: node(cpus).Node(), Node: node(cpus).Node()},
	}
}

func pools(p ...AdmittedPool) []AdmittedPool { return p }

func TestGate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	delay := 10 * time.Second
	three := Record{Keeps: cluster(3, 4), Fence: 5, Generation: 1, Pools: pools(pool("a", 3, 4))}
	labelled := pool("a", 3, 4)
	labelled.Spec.Labels = map[string]string{"tier": "web"}

	shrinking := Record{
		Keeps: cluster(3, 4), Fence: 5, Generation: 2, Pools: pools(pool("a", 1, 4)), Rolling: []Pool{{Name: "a", Count: 3, Node: node(4)}},
	}
	settling := shrinking
	settling.SettledSince = now.Add(-5 * time.Second)

	cases := map[string]struct {
		reason string
		sight  Sight
		want   Decision
	}{
		"NothingOffered": {
			reason: "A claim that was offered nothing renders nothing and posts what it needs.",
			sight:  Sight{Wanted: pools(pool("a", 3, 4))},
			want:   Decision{Need: cluster(3, 4), Paused: true},
		},
		"FirstOffer": {
			reason: "A first offer is recorded; its Release is shown, but paused until the record is observed.",
			sight:  Sight{Wanted: pools(pool("a", 3, 4)), Offer: Offer{Amount: cluster(3, 4), Revision: 5}},
			want:   Decision{Record: three, Rendered: three, Paused: true, Need: cluster(3, 4), Admitted: true},
		},
		"FirstOfferWithBarrier": {
			reason: "The barrier alone does not unpause a Release whose record was not observed.",
			sight:  Sight{Wanted: pools(pool("a", 3, 4)), Offer: Offer{Amount: cluster(3, 4), Revision: 5}, Barrier: true, Release: &three},
			want:   Decision{Record: three, Rendered: three, Paused: true, Need: cluster(3, 4), Admitted: true},
		},
		"RecordedWithoutBarrier": {
			reason: "A recorded first Release stays paused until the barrier is observed.",
			sight:  Sight{Record: three, Release: &three, Wanted: pools(pool("a", 3, 4))},
			want:   Decision{Record: three, Rendered: three, Paused: true, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true},
		},
		"RecordedWithBarrier": {
			reason: "Record and barrier observed: the provider may act.",
			sight:  Sight{Record: three, Release: &three, Barrier: true, Wanted: pools(pool("a", 3, 4))},
			want:   Decision{Record: three, Rendered: three, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true},
		},
		"InstalledStaysUnpaused": {
			reason: "A Release that the provider acted on is not paused again, also while the barrier is missing.",
			sight:  Sight{Record: three, Release: &three, Installed: true, Wanted: pools(pool("a", 3, 4))},
			want:   Decision{Record: three, Rendered: three, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true},
		},
		"OfferTooSmall": {
			reason: "An offer that does not suffice is declined by answering it.",
			sight:  Sight{Wanted: pools(pool("a", 4, 4)), Offer: Offer{Amount: cluster(3, 4), Revision: 5}},
			want:   Decision{Record: Record{Fence: 5}, Need: cluster(4, 4), Paused: true},
		},
		"DeadOffer": {
			reason: "An offer that was answered is never used, however large.",
			sight:  Sight{Record: Record{Fence: 5}, Wanted: pools(pool("a", 3, 4)), Offer: Offer{Amount: cluster(9, 4), Revision: 5}},
			want:   Decision{Record: Record{Fence: 5}, Need: cluster(3, 4), Paused: true},
		},
		"SurplusReturns": {
			reason: "Only what is needed is kept of an offer.",
			sight:  Sight{Wanted: pools(pool("a", 3, 4)), Offer: Offer{Amount: cluster(9, 4), Revision: 5}},
			want:   Decision{Record: three, Rendered: three, Paused: true, Need: cluster(3, 4), Admitted: true},
		},
		"NeverInstalledIsKept": {
			reason: "A paused Release whose offer is gone holds nothing, but is not dropped.",
			sight:  Sight{Record: Record{Fence: 5}, Release: &three, Barrier: true, Wanted: pools(pool("a", 4, 4))},
			want:   Decision{Record: Record{Fence: 5}, Rendered: three, Paused: true, Need: cluster(4, 4)},
		},
		"PartlyComposed": {
			reason: "What was composed before the first record was written stays, with a paused Release that holds nothing.",
			sight:  Sight{Started: true, Barrier: true, Wanted: pools(pool("a", 4, 4)), Offer: Offer{Amount: cluster(3, 4), Revision: 5}},
			want: Decision{
				Record: Record{Fence: 5}, Rendered: Record{Generation: 1, Pools: pools(pool("a", 4, 4))}, Paused: true, Need: cluster(4, 4),
			},
		},
		"GrowthWaits": {
			reason: "What is admitted goes on while more is asked for.",
			sight:  Sight{Record: three, Release: &three, Installed: true, Wanted: pools(pool("a", 5, 4))},
			want:   Decision{Record: three, Rendered: three, Keeps: cluster(3, 4), Need: cluster(5, 4)},
		},
		"GrowthIsWrittenAhead": {
			reason: "Growth is recorded first and rendered in the next run.",
			sight: Sight{
				Record: three, Release: &three, Installed: true, Wanted: pools(pool("a", 5, 4)), Offer: Offer{Amount: cluster(5, 4), Revision: 6},
			},
			want: Decision{
				Record:   Record{Keeps: cluster(5, 4), Fence: 6, Generation: 2, Pools: pools(pool("a", 5, 4))},
				Rendered: three, Keeps: cluster(3, 4), Need: cluster(5, 4), Admitted: true,
			},
		},
		"Shrink": {
			reason: "A shrink is rendered at once and keeps everything until the provider confirms.",
			sight:  Sight{Record: three, Release: &three, Installed: true, Wanted: pools(pool("a", 1, 4))},
			want:   Decision{Record: shrinking, Rendered: shrinking, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true},
		},
		"ShrinkDeclinesAnOffer": {
			reason: "An open offer is answered also when nothing of it is needed.",
			sight: Sight{
				Record: three, Release: &three, Installed: true, Wanted: pools(pool("a", 1, 4)), Offer: Offer{Amount: cluster(5, 4), Revision: 6},
			},
			want: func() Decision {
				declined := shrinking
				declined.Fence = 6
				return Decision{Record: declined, Rendered: declined, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true}
			}(),
		},
		"FirstConfirmation": {
			reason: "The first confirmation starts the delay.",
			sight: Sight{
				Record: shrinking, Release: &shrinking, Installed: true, Wanted: pools(pool("a", 1, 4)), Confirmed: true, Now: now, SettleDelay: delay,
			},
			want: func() Decision {
				started := shrinking
				started.SettledSince = now
				return Decision{Record: started, Rendered: started, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true}
			}(),
		},
		"ConfirmationLost": {
			reason: "A provider that is at work again starts the delay anew.",
			sight: Sight{
				Record: settling, Release: &shrinking, Installed: true, Wanted: pools(pool("a", 1, 4)), Now: now, SettleDelay: delay,
			},
			want: Decision{Record: shrinking, Rendered: shrinking, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true},
		},
		"StillSettling": {
			reason: "Nothing is let go of before the delay is over.",
			sight: Sight{
				Record: settling, Release: &shrinking, Installed: true, Wanted: pools(pool("a", 1, 4)), Confirmed: true, Now: now, SettleDelay: delay,
			},
			want: Decision{Record: settling, Rendered: settling, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true},
		},
		"Settled": {
			reason: "Confirmed for the whole delay: the rest returns.",
			sight: Sight{
				Record: settling, Release: &shrinking, Installed: true, Wanted: pools(pool("a", 1, 4)), Confirmed: true,
				Now: now.Add(delay), SettleDelay: delay,
			},
			want: func() Decision {
				r := Record{Keeps: cluster(1, 4), Fence: 5, Generation: 2, Pools: pools(pool("a", 1, 4))}
				return Decision{Record: r, Rendered: r, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true}
			}(),
		},
		"SettlesWhileGrowthWaits": {
			reason: "An earlier shrink is let go of although something else is wanted meanwhile.",
			sight: Sight{
				Record: settling, Release: &shrinking, Installed: true, Wanted: pools(pool("a", 9, 4)), Confirmed: true,
				Now: now.Add(delay), SettleDelay: delay,
			},
			want: Decision{
				Record:   Record{Keeps: cluster(1, 4), Fence: 5, Generation: 2, Pools: pools(pool("a", 1, 4))},
				Rendered: settling, Keeps: cluster(3, 4), Need: cluster(9, 4),
			},
		},
		"ChangeOfMindBeforeConfirmation": {
			reason: "Growing back into what is still kept needs no offer.",
			sight:  Sight{Record: shrinking, Release: &shrinking, Installed: true, Wanted: pools(pool("a", 2, 4))},
			want: func() Decision {
				r := Record{
					Keeps: cluster(3, 4), Fence: 5, Generation: 3, Pools: pools(pool("a", 2, 4)), Rolling: []Pool{{Name: "a", Count: 3, Node: node(4)}},
				}
				return Decision{Record: r, Rendered: r, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true}
			}(),
		},
		"RenamedPoolNeedsBoth": {
			reason: "A renamed pool exists twice while it rolls.",
			sight:  Sight{Record: three, Release: &three, Installed: true, Wanted: pools(pool("b", 3, 4))},
			want:   Decision{Record: three, Rendered: three, Keeps: cluster(3, 4), Need: cluster(6, 4)},
		},
		"SmallerNodesButMore": {
			reason: "While a pool of three large nodes becomes six small ones, up to six nodes of up to the large size may exist.",
			sight:  Sight{Record: three, Release: &three, Installed: true, Wanted: pools(pool("a", 6, 2))},
			want:   Decision{Record: three, Rendered: three, Keeps: cluster(3, 4), Need: cluster(6, 4)},
		},
		"Labels": {
			reason: "Labels change in place: nothing rolls, nothing is asked for.",
			sight:  Sight{Record: three, Release: &three, Installed: true, Wanted: pools(labelled)},
			want: func() Decision {
				r := three
				r.Pools = pools(labelled)
				return Decision{Record: r, Rendered: r, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true}
			}(),
		},
		"LostRecord": {
			reason: "A lost record is rebuilt from the Release before anything changes.",
			sight:  Sight{Release: &three, Installed: true, Wanted: pools(pool("a", 1, 4)), Offer: Offer{Amount: cluster(9, 4), Revision: 9}},
			want:   Decision{Record: three, Rendered: three, Keeps: cluster(3, 4), Need: cluster(3, 4)},
		},
		"OlderRecord": {
			reason: "A record that is older than the Release is raised to it, and its answers are not taken back.",
			sight: Sight{
				Record:  Record{Keeps: cluster(1, 4), Fence: 7, Generation: 4, Pools: pools(pool("a", 1, 4))},
				Release: &three, Installed: true, Wanted: pools(pool("a", 3, 4)),
			},
			want: Decision{
				Record:   Record{Keeps: cluster(3, 4), Fence: 7, Generation: 4, Pools: pools(pool("a", 3, 4))},
				Rendered: three, Keeps: cluster(3, 4), Need: cluster(3, 4), Admitted: true,
			},
		},
		"ReleaseBehindRecord": {
			reason: "A cached Release that still shows what has settled since does not raise the record again.",
			sight: Sight{
				Record:  Record{Keeps: cluster(1, 4), Fence: 5, Generation: 2, Pools: pools(pool("a", 1, 4))},
				Release: &shrinking, Installed: true, Wanted: pools(pool("a", 1, 4)),
			},
			want: func() Decision {
				r := Record{Keeps: cluster(1, 4), Fence: 5, Generation: 2, Pools: pools(pool("a", 1, 4))}
				return Decision{Record: r, Rendered: r, Keeps: cluster(1, 4), Need: cluster(1, 4), Admitted: true}
			}(),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Gate(tc.sight)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nGate(...): -want, +got:\n%s", tc.reason, diff)
			}
			if again := Gate(tc.sight); !cmp.Equal(got, again) {
				t.Errorf("%s\nGate(...) decides differently the second time:\n%s", tc.reason, cmp.Diff(got, again))
			}
			if !got.Rendered.Keeps.Within(tc.sight.Record.Keeps) && !got.Paused && !tc.sight.Installed {
				t.Errorf("%s\nGate(...) renders more than is recorded", tc.reason)
			}
		})
	}
}

func TestRecordRoundTrip(t *testing.T) {
	want := Record{
		Keeps: cluster(3, 4), Fence: 5, Generation: 2, Pools: pools(pool("a", 1, 4), pool("b", 1, 2)),
		Rolling: []Pool{{Name: "a", Count: 3, Node: node(4)}}, SettledSince: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	got, errs := ParseRecord(nil, want.API())
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParseRecord(API()): -want, +got:\n%s", diff)
	}
}
