package ledger

import (
	"cmp"
	"slices"
	"time"
)

// Record is what one cluster keeps of the quota. It is the only writer of it.
type Record struct {
	// Keeps bounds what may exist: the total of the pools that are rendered and those that are still rolling.
	Keeps Resources
	// Fence is the revision of the last offer that was answered.
	Fence int64
	// Generation grows with every change of the rendered machines.
	Generation int64
	// Pools that are rendered, sorted by name.
	Pools []AdmittedPool
	// Rolling bounds what may still exist of earlier pools, beyond the rendered ones.
	Rolling []Pool
	// SettledSince is when the provider was first seen to show exactly the rendered pools, while others are rolling.
	SettledSince time.Time
}

// Exists bounds every pool that may exist.
func (r Record) Exists() []Pool {
	return envelope(r.Rolling, bounds(r.Pools))
}

// Need is what the cluster must keep while it changes into the wanted pools.
func (r Record) Need(wanted []AdmittedPool) Resources {
	return total(envelope(r.Exists(), bounds(wanted)))
}

// covers says whether the record bounds what another one renders. What was rolling then may have settled since.
func (r Record) covers(o Record) bool {
	return r.Need(o.Pools).Within(r.Keeps)
}

// admit changes the rendered pools; what was rendered before keeps rolling.
func (r Record) admit(wanted []AdmittedPool) Record {
	if !sameMachines(wanted, r.Pools) {
		r.Rolling = beyond(r.Exists(), bounds(wanted))
		r.Generation++
		r.SettledSince = time.Time{}
	}
	r.Pools = wanted
	return r
}

// settle lets go of the rolling pools once the provider has shown the rendered ones for the whole delay.
func (r Record) settle(confirmed bool, now time.Time, delay time.Duration) Record {
	switch {
	case len(r.Rolling) == 0 || !confirmed:
		r.SettledSince = time.Time{}
	case r.SettledSince.IsZero():
		r.SettledSince = now
	case now.Sub(r.SettledSince) >= delay:
		r.SettledSince = time.Time{}
		r.Rolling = nil
		r.Keeps = total(bounds(r.Pools))
	}
	return r
}

// Offer of an InfraBlueprint to a cluster: it may keep Amount, all in all.
type Offer struct {
	Amount   Resources
	Revision int64
}

// Sight is what a cluster sees when it runs.
type Sight struct {
	// Record is the observed one, zero when there is none.
	Record Record
	// Release is the record that the observed Release was rendered with, or where somebody deleted it the barrier of a
	// cluster that the provider was seen to hold; nil when there is neither.
	Release *Record
	// Installed says that the provider has acted on the Release.
	Installed bool
	// Started says that something of a cluster that the provider never held was composed already, but for its Release.
	Started bool
	// Wanted pools, sorted by name.
	Wanted []AdmittedPool
	// Offer is the last one made to the cluster, zero when none was.
	Offer Offer
	// Barrier says whether the barrier is observed.
	Barrier bool
	// Confirmed says whether the provider shows exactly what the observed record renders, and has finished.
	Confirmed bool
	// Now is the time of the run.
	Now time.Time
	// SettleDelay is how long the provider must have confirmed before quota is let go of.
	SettleDelay time.Duration
}

// Decision of a cluster.
type Decision struct {
	// Record to be written by compare-and-swap, before anything beyond the observed one is rendered.
	Record Record
	// Rendered is the record that the Release is rendered with. Without pools there is none.
	Rendered Record
	// Paused says that the provider must not act on the Release yet.
	Paused bool
	// Keeps is what the cluster is known to keep now, to be posted in its request.
	Keeps Resources
	// Need is what the cluster must keep to become what is wanted, to be posted in its request.
	Need Resources
	// Admitted says that everything wanted is covered by the record to be written.
	Admitted bool
}

// Gate decides what a cluster keeps and renders.
func Gate(s Sight) Decision {
	observed := s.Record
	if s.Installed && !observed.covers(*s.Release) {
		return rebuild(s)
	}
	d := Decision{Rendered: observed, Keeps: observed.Keeps, Need: observed.Need(s.Wanted)}
	answered := observed
	answered.Fence = max(observed.Fence, s.Offer.Revision)
	switch {
	case d.Need.Within(observed.Keeps):
		d.Admitted = true
		d.Record = answered.admit(s.Wanted)
		if sameMachines(s.Wanted, observed.Pools) {
			d.Record = d.Record.settle(s.Confirmed, s.Now, s.SettleDelay)
		}
		d.Rendered = d.Record
	case s.Offer.Revision > observed.Fence && d.Need.Within(s.Offer.Amount):
		d.Admitted = true
		d.Record = answered.admit(s.Wanted)
		d.Record.Keeps = d.Need
		if len(observed.Pools) == 0 {
			d.Rendered = d.Record
		}
	default:
		d.Record = answered.settle(s.Confirmed, s.Now, s.SettleDelay)
		if len(observed.Pools) == 0 {
			d.Rendered = s.leftover()
		}
	}
	d.Paused = !s.Installed && (!s.Barrier || len(observed.Pools) == 0)
	return d
}

// leftover is what is rendered, paused, of a cluster that keeps nothing but was composed before its record was written.
// It holds nothing. It stays, since what exists is never dropped.
func (s Sight) leftover() Record {
	switch {
	case s.Release != nil:
		return *s.Release
	case s.Started:
		return Record{}.admit(s.Wanted)
	}
	return Record{}
}

// rebuild restores a record that was lost from what is installed, before anything else changes.
func rebuild(s Sight) Decision {
	r := *s.Release
	r.Fence = max(r.Fence, s.Record.Fence)
	r.Generation = max(r.Generation, s.Record.Generation)
	r.Rolling = beyond(envelope(s.Record.Exists(), r.Exists()), bounds(r.Pools))
	r.Keeps = total(r.Exists()).Max(s.Record.Keeps)
	r.SettledSince = time.Time{}
	return Decision{
		Record:   r,
		Rendered: *s.Release,
		Keeps:    r.Keeps,
		Need:     r.Need(s.Wanted),
		Admitted: sameMachines(s.Wanted, r.Pools),
	}
}

// Sort pools by name, as the ledger wants them.
func Sort(pools []AdmittedPool) {
	slices.SortFunc(pools, func(a, b AdmittedPool) int { return cmp.Compare(a.Name, b.Name) })
}
