package ledger

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rig-gateway/function-rig/apis/v1alpha1"
)

// The model explores every interleaving of the real Settle and Gate with caches that lag, mailboxes that lag and go
// back, crashes between what is composed and the status write, deletions by hand, lost status, and machines that go
// late. It stops at the first state in which existing machines exceed the quota, or from which a waiting cluster that
// fits is never admitted, and prints the shortest way there.

var modelOps = flag.Int("model.ops", 0, "edits that the model explores; 0 for the bound of the gate") //nolint:gochecknoglobals // A flag.

const (
	modelClusters = 3
	modelLag      = 3 // versions of an object from the one that a cache shows to the newest, at most
	modelPast     = 4 // versions of a mailbox that may show up again
)

var (
	modelEpoch  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // A constant that Go cannot express as one.
	modelQuotas = [2]Resources{                               //nolint:gochecknoglobals // A constant that Go cannot express as one.
		{CPU: 3, Memory: 4, Disk: Unlimited, Nodes: Unlimited, Clusters: Unlimited},
		{CPU: 4, Memory: 5, Disk: Unlimited, Nodes: Unlimited, Clusters: Unlimited},
	}
	// modelSpecs are what users may want: small, larger, and another pool of another shape.
	modelSpecs = [][]AdmittedPool{ //nolint:gochecknoglobals // A constant that Go cannot express as one.
		nil,
		{modelPool("a", 1, 1, 1)},
		{modelPool("a", 2, 1, 1)},
		{modelPool("b", 1, 1, 3)},
	}
)

func modelPool(name string, count, cpu, memory int64) AdmittedPool {
	return AdmittedPool{
		Pool: Pool{Name: name, Count: count, Node: Resources{CPU: cpu, Memory: memory, Nodes: 1}},
		Spec: v1alpha1.AdmittedPool{Pool: v1alpha1.Pool{Name: name, Count: count}},
	}
}

// rules that can be removed, to see that the checker reports each of them.
type rules struct {
	casLedger, reserveOffers, evidence, quarantine, seeding, confirmation, fence, declining, writeAhead, casRecord bool
}

func allRules() rules {
	return rules{true, true, true, true, true, true, true, true, true, true}
}

// interned values are told apart by a small number, so that a state of the model is a comparable array.
type interned[T any] struct {
	ids  map[string]int16
	vals []T
	show func(T) string
}

func newInterned[T any](show func(T) string, zero T) *interned[T] {
	i := &interned[T]{ids: map[string]int16{}, show: show}
	i.id(zero)
	return i
}

func (i *interned[T]) id(v T) int16 {
	key := i.show(v)
	if id, ok := i.ids[key]; ok {
		return id
	}
	id := int16(len(i.vals))
	i.ids[key], i.vals = id, append(i.vals, v)
	return id
}

func showPools(pools []Pool) string {
	var parts []string
	for _, p := range pools {
		parts = append(parts, fmt.Sprintf("%d%s(%d,%d)", p.Count, p.Name, p.Node[CPU], p.Node[Memory]))
	}
	return strings.Join(parts, "+")
}

func showRecord(r Record) string {
	s := fmt.Sprintf("keeps=%d,%d fence=%d gen=%d pools=%s rolling=%s", r.Keeps[CPU], r.Keeps[Memory], r.Fence, r.Generation, showPools(bounds(r.Pools)), showPools(r.Rolling))
	if !r.SettledSince.IsZero() {
		s += " settling"
	}
	return s
}

func showLedger(l *Ledger) string {
	if l == nil {
		return "lost"
	}
	var parts []string
	for _, g := range l.Grants {
		s := fmt.Sprintf("%s=%d,%d@%d", g.Cluster, g.Amount[CPU], g.Amount[Memory], g.Revision)
		if g.Releasing {
			s += "releasing"
		}
		if !g.GoneSince.IsZero() {
			s += "gone"
		}
		parts = append(parts, s)
	}
	return fmt.Sprintf("rev=%d %s", l.Revision, strings.Join(parts, " "))
}

func showOffer(o Offer) string {
	return fmt.Sprintf("%d,%d@%d", o.Amount[CPU], o.Amount[Memory], o.Revision)
}

func showRequest(r Request) string {
	return fmt.Sprintf("need=%d,%d keeps=%d,%d fence=%d", r.Need[CPU], r.Need[Memory], r.Keeps[CPU], r.Keeps[Memory], r.Fence)
}

// modelXR is a composite: what its user wants and the record in its status.
type modelXR struct {
	wanted int8 // 0: not there
	record int16
}

// modelComposed is what a cluster composes: the records that its Release and its barrier were rendered with.
type modelComposed struct {
	release   int16 // record, plus one
	barrier   int16 // record, plus one
	installed bool
	held      bool // the provider was seen to hold the cluster
}

// modelLog is an object with the version that a cache shows and, behind it, newer ones up to the one that is stored.
type modelLog[T comparable] struct {
	n int8
	v [modelLag]T
}

func (l modelLog[T]) cached() T { return l.v[0] }
func (l modelLog[T]) stored() T { return l.v[l.n] }

func (l modelLog[T]) push(v T, lag int8) (modelLog[T], bool) {
	if v == l.stored() {
		return l, true
	}
	if l.n == lag {
		return l, false
	}
	l.n++
	l.v[l.n] = v
	return l, true
}

// write a version; one that ignores what was stored meanwhile replaces it.
func (l modelLog[T]) write(v T, lag int8) (modelLog[T], bool) {
	if l.n > 0 {
		l.v[l.n] = v
		return l, true
	}
	return l.push(v, lag)
}

func (l modelLog[T]) see() modelLog[T] {
	copy(l.v[:], l.v[1:])
	var zero T
	l.v[l.n] = zero
	l.n--
	return l
}

// modelPastSet are the versions of a mailbox that may show up, sorted; latest is the stored one.
type modelPastSet struct {
	n      int8
	ids    [modelPast]int16
	latest int16
}

func (p modelPastSet) add(id int16) (modelPastSet, bool) {
	p.latest = id
	at, found := slices.BinarySearch(p.ids[:p.n], id)
	if found {
		return p, true
	}
	if p.n == modelPast {
		return p, false
	}
	copy(p.ids[at+1:], p.ids[at:])
	p.ids[at] = id
	p.n++
	return p, true
}

type modelCluster struct {
	dead     bool
	xr       modelLog[modelXR]
	composed modelLog[modelComposed]
	machines int16 // pools that exist
	requests modelPastSet
	offers   modelPastSet
}

type modelState struct {
	clusters [modelClusters]modelCluster
	ledger   modelLog[int16]
	quota    int8
	ops      int8
}

// modelBounds say how much is explored.
type modelBounds struct {
	clusters int    // at most modelClusters
	start    []int8 // of modelSpecs, what the clusters want before the first edit
	ops      int8   // edits by users and operators
	specs    int8   // of modelSpecs that users choose from
	lag      int8   // versions that a cache is behind, at most modelLag - 1
	raises   bool   // of the quota
	restores bool   // lose records and the ledger
	deletes  bool   // Releases are deleted by hand
}

// model of one InfraBlueprint and its clusters.
type model struct {
	modelBounds
	rules    rules
	records  *interned[Record]
	pools    *interned[[]Pool]
	ledgers  *interned[*Ledger]
	offers   *interned[Offer]
	requests *interned[Request]
	gates    map[gateKey]gateResult
	settles  map[settleKey]int16
	drained  map[modelState]bool

	seen  map[modelState]int32
	nodes []modelNode
	fault string
}

type modelNode struct {
	state modelState
	from  int32
	act   string
}

type gateKey struct {
	record, release, offer int16
	wanted                 int8
	installed, barrier     bool
	confirmed              bool
}

type gateResult struct {
	record, rendered, request int16
	paused                    bool
}

type settleKey struct {
	ledger   int16
	quota    int8
	requests [modelClusters]int16 // plus one; zero: not seen
	evidence [modelClusters]int16 // what is held, as pools plus one; zero: nothing seen
	offers   [modelClusters]int16
	later    bool
}

func newModel(r rules, b modelBounds) *model {
	return &model{
		rules: r, modelBounds: b,
		records: newInterned(showRecord, Record{}), pools: newInterned(showPools, nil), ledgers: newInterned(showLedger, &Ledger{}),
		offers: newInterned(showOffer, Offer{}), requests: newInterned(showRequest, Request{}),
		gates: map[gateKey]gateResult{}, settles: map[settleKey]int16{}, drained: map[modelState]bool{},
		seen: map[modelState]int32{},
	}
}

func clusterName(c int) string { return string(rune('x' + c)) }

// gate runs the real Gate.
func (m *model) gate(k gateKey) gateResult {
	if r, ok := m.gates[k]; ok {
		return r
	}
	s := Sight{
		Record: m.records.vals[k.record], Wanted: modelSpecs[k.wanted], Offer: m.offers.vals[k.offer],
		Installed: k.installed, Barrier: k.barrier, Confirmed: k.confirmed, Now: modelEpoch.Add(time.Hour), SettleDelay: time.Second,
	}
	if !s.Record.SettledSince.IsZero() {
		s.Record.SettledSince = modelEpoch
	}
	if k.release > 0 {
		release := m.records.vals[k.release-1]
		s.Release = &release
	}
	fence := s.Record.Fence
	if !m.rules.fence {
		s.Record.Fence = 0
	}
	if !m.rules.confirmation {
		s.Confirmed = true
		if s.Record.SettledSince.IsZero() && len(s.Record.Rolling) > 0 {
			s.Record.SettledSince = modelEpoch
		}
	}
	d := Gate(s)
	if !m.rules.fence {
		d.Record.Fence = max(d.Record.Fence, fence)
	}
	if !m.rules.declining && d.Record.Keeps == s.Record.Keeps {
		d.Record.Fence = fence
	}
	if !m.rules.writeAhead && d.Admitted {
		d.Rendered, d.Paused = d.Record, false
	}
	d.Rendered.SettledSince = time.Time{}
	if d.Need.Within(d.Keeps) && !d.Admitted && sameMachines(d.Rendered.Pools, s.Record.Pools) {
		m.fault = "a change that needs nothing more is blocked"
	}
	r := gateResult{record: m.records.id(d.Record), rendered: m.records.id(d.Rendered), paused: d.Paused}
	r.request = m.requests.id(Request{Need: d.Need, Keeps: d.Keeps, Fence: fence})
	m.gates[k] = r
	return r
}

// settle runs the real Settle.
func (m *model) settle(k settleKey) int16 {
	if id, ok := m.settles[k]; ok {
		return id
	}
	b := Books{
		Ledger: m.ledgers.vals[k.ledger], Policy: Policy{Limits: modelQuotas[k.quota]}, Evidence: map[string]Evidence{}, Now: modelEpoch,
		Quarantine: time.Second, UnprovisionedQuarantine: time.Second,
	}
	if k.later {
		b.Now = modelEpoch.Add(time.Hour)
	}
	if !m.rules.quarantine {
		b.Quarantine, b.UnprovisionedQuarantine = 0, 0
	}
	if b.Ledger == nil {
		b.Offers = map[string]Offer{}
	}
	for c := range modelClusters {
		if k.requests[c] > 0 {
			r := m.requests.vals[k.requests[c]-1]
			r.Cluster, r.Created = clusterName(c), modelEpoch
			b.Requests = append(b.Requests, r)
		}
		if k.evidence[c] > 0 && m.rules.evidence && k.requests[c] == 0 && (b.Ledger != nil || m.rules.seeding) {
			b.Evidence[clusterName(c)] = Evidence{Barrier: true, Holds: total(m.pools.vals[k.evidence[c]-1])}
		}
		if b.Ledger == nil && k.offers[c] > 0 && m.rules.seeding {
			b.Offers[clusterName(c)] = m.offers.vals[k.offers[c]]
		}
	}
	if b.Ledger != nil && !m.rules.reserveOffers {
		forgotten := *b.Ledger
		forgotten.Grants = slices.Clone(forgotten.Grants)
		for i := range forgotten.Grants {
			forgotten.Grants[i].Revision = 0
		}
		b.Ledger = &forgotten
	}
	s := Settle(b)
	if b.Ledger != nil {
		m.checkAnswers(b, s)
	}
	for i := range s.Ledger.Grants {
		if g := &s.Ledger.Grants[i]; !g.GoneSince.IsZero() {
			g.GoneSince = modelEpoch
		}
	}
	id := m.ledgers.id(&s.Ledger)
	m.settles[k] = id
	return id
}

// checkAnswers says whether something reserved was taken back from a cluster that has not answered.
func (m *model) checkAnswers(b Books, s Settlement) {
	for c, o := range b.Ledger.Open(b.Requests) {
		i := slices.IndexFunc(s.Ledger.Grants, func(g Grant) bool { return g.Cluster == c })
		if m.rules.reserveOffers && (i < 0 || !o.Amount.Within(s.Ledger.Grants[i].Amount)) {
			m.fault = "an open offer was taken back"
		}
	}
}

// exists is everything that exists in a state.
func (m *model) exists(s modelState) (sum Resources) {
	for _, c := range s.clusters {
		sum = sum.Plus(total(m.pools.vals[c.machines]))
	}
	return sum
}

// run explores breadth first and returns the fault, with the shortest way to it.
func (m *model) run(liveness bool) string {
	start := modelState{}
	for c, w := range m.start {
		start.clusters[c].xr.v[0].wanted = w
	}
	m.seen[start] = 0
	m.nodes = append(m.nodes, modelNode{state: start, from: -1, act: "start"})
	for i := int32(0); int(i) < len(m.nodes); i++ {
		m.expand(m.nodes[i].state, func(s modelState, act string) {
			if _, dup := m.seen[s]; dup {
				return
			}
			m.seen[s] = int32(len(m.nodes))
			m.nodes = append(m.nodes, modelNode{state: s, from: i, act: act})
			switch {
			case m.fault != "":
			case !m.exists(s).Within(modelQuotas[s.quota]):
				m.fault = "existing machines exceed the quota"
			case liveness && !m.admitsAll(s):
				m.fault = "a cluster that fits waits for ever"
			}
		})
		if m.fault != "" {
			return m.fault + "\n" + m.trace(int32(len(m.nodes)-1))
		}
	}
	return ""
}

func (m *model) trace(i int32) string {
	var lines []string
	for ; i >= 0; i = m.nodes[i].from {
		n := m.nodes[i]
		lines = append(lines, "      ledger "+showLedger(m.ledgers.vals[n.state.ledger.stored()]))
		for c, cl := range n.state.clusters {
			if x := cl.xr.stored(); x.wanted > 0 || cl.machines > 0 {
				lines = append(lines, fmt.Sprintf("      %s wants %s, %s; exists %s", clusterName(c), showPools(bounds(modelSpecs[x.wanted])),
					showRecord(m.records.vals[x.record]), showPools(m.pools.vals[cl.machines])))
			}
		}
		lines = append(lines, n.act)
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// expand a state by everything that can happen next.
func (m *model) expand(s modelState, add func(modelState, string)) {
	if s.ledger.n > 0 {
		n := s
		n.ledger = s.ledger.see()
		add(n, "the cache sees the ledger")
	}
	for c := range m.clusters {
		m.see(s, c, add)
		m.edit(s, c, add)
		m.provider(s, c, add)
		m.gatekeeper(s, c, add)
	}
	if s.ops < m.ops {
		if n := s; m.raises && n.quota == 0 {
			n.quota, n.ops = 1, n.ops+1
			add(n, "the quota is raised")
		}
		if lost := m.ledgers.id(nil); m.restores && s.ledger.n == 0 && s.ledger.stored() != 0 && s.ledger.stored() != lost {
			n := s
			n.ops++
			n.ledger.v[0] = lost // a restore restarts everything, caches included
			add(n, "the ledger is lost")
		}
	}
	m.accountant(s, add)
}

func (m *model) see(s modelState, c int, add func(modelState, string)) {
	if s.clusters[c].xr.n > 0 {
		n := s
		n.clusters[c].xr = s.clusters[c].xr.see()
		add(n, "the cache sees "+clusterName(c))
	}
	if s.clusters[c].composed.n > 0 {
		n := s
		n.clusters[c].composed = s.clusters[c].composed.see()
		add(n, "the cache sees what "+clusterName(c)+" composed")
	}
}

// edit by a user or an operator.
func (m *model) edit(s modelState, c int, add func(modelState, string)) {
	cl := s.clusters[c]
	if s.ops >= m.ops || cl.dead {
		return
	}
	s.ops++
	x := cl.xr.stored()
	if x.wanted == 0 && c > 0 && s.clusters[c-1].xr.stored().wanted == 0 && !s.clusters[c-1].dead {
		return // clusters that do not exist yet are alike
	}
	for w := int8(1); w <= m.specs; w++ {
		n := s
		var ok bool
		if n.clusters[c].xr, ok = cl.xr.push(modelXR{wanted: w, record: x.record}, m.lag); ok && w != x.wanted {
			add(n, fmt.Sprintf("%s is to be %s", clusterName(c), showPools(bounds(modelSpecs[w]))))
		}
	}
	if x.wanted == 0 {
		return
	}
	n := s
	var ok bool
	n.clusters[c].dead = true
	if n.clusters[c].xr, ok = cl.xr.push(modelXR{}, m.lag); ok {
		add(n, clusterName(c)+" is deleted")
	}
	if e := cl.composed.stored(); m.deletes && e.installed {
		n := s
		e.release, e.installed = 0, false
		if n.clusters[c].composed, ok = cl.composed.push(e, m.lag); ok {
			add(n, "somebody deletes the Release of "+clusterName(c))
		}
	}
	if m.restores && x.record != 0 && cl.xr.n == 0 && cl.composed.n == 0 {
		n := s
		n.clusters[c].xr.v[0].record = 0 // a restore restarts everything, caches included
		add(n, "the record of "+clusterName(c)+" is lost")
	}
}

// provider and garbage collector.
func (m *model) provider(s modelState, c int, add func(modelState, string)) {
	cl := s.clusters[c]
	e := cl.composed.stored()
	live := int16(0)
	if e.release > 0 && e.installed {
		live = m.pools.id(bounds(m.records.vals[e.release-1].Pools))
	}
	if cl.machines != live && (live != 0 || e.release == 0 || cl.dead) {
		n := s
		n.clusters[c].machines = live
		add(n, "the provider finishes "+clusterName(c))
	}
	if !cl.dead {
		return
	}
	n := s
	var ok bool
	switch {
	case e.release > 0:
		e.release, e.installed = 0, false
		if n.clusters[c].composed, ok = cl.composed.push(e, m.lag); ok {
			add(n, "the Release of "+clusterName(c)+" is uninstalled")
		}
	case e.barrier > 0 && cl.machines == 0:
		e.barrier, e.held = 0, false
		if n.clusters[c].composed, ok = cl.composed.push(e, m.lag); ok {
			add(n, "the barrier of "+clusterName(c)+" is gone")
		}
	}
}

// gatekeeper runs with what the caches show, and any page that it may see.
func (m *model) gatekeeper(s modelState, c int, add func(modelState, string)) {
	cl := s.clusters[c]
	if cl.dead || cl.xr.cached().wanted == 0 {
		return
	}
	for o := int8(-1); o < cl.offers.n; o++ {
		offer := int16(0)
		if o >= 0 {
			offer = cl.offers.ids[o]
		}
		for _, confirmed := range []bool{false, true} {
			if confirmed && !m.confirms(cl) {
				continue
			}
			n, r, ok := m.apply(s, c, offer, confirmed)
			if !ok {
				continue
			}
			act := fmt.Sprintf("%s runs (offer %s, confirmed %v)", clusterName(c), showOffer(m.offers.vals[offer]), confirmed)
			add(n, act+", its status write is lost")
			x := cl.xr.cached()
			if r.record == x.record || m.rules.casRecord && cl.xr.n > 0 {
				continue // there is nothing to write, or it is refused
			}
			stored := cl.xr.stored()
			if m.records.vals[r.record].Fence < m.records.vals[stored.record].Fence {
				m.fault = "an answered offer is alive again"
			}
			stored.record = r.record
			if n.clusters[c].xr, ok = cl.xr.write(stored, m.lag); ok {
				add(n, act)
			}
		}
	}
}

// confirms says whether the provider shows exactly what the observed record renders.
func (m *model) confirms(cl modelCluster) bool {
	seen, e := cl.composed.cached(), cl.composed.stored()
	if seen.release == 0 || e.release == 0 || !e.installed {
		return false
	}
	r, rendered := m.records.vals[cl.xr.cached().record], m.records.vals[e.release-1]
	return len(r.Rolling) > 0 && m.records.vals[seen.release-1].Generation == r.Generation && rendered.Generation == r.Generation &&
		sameMachines(rendered.Pools, r.Pools) && cl.machines == m.pools.id(bounds(r.Pools))
}

// apply what a run composes.
func (m *model) apply(s modelState, c int, offer int16, confirmed bool) (modelState, gateResult, bool) {
	cl := s.clusters[c]
	x, seen, e := cl.xr.cached(), cl.composed.cached(), cl.composed.stored()
	if seen.release == 0 {
		seen = e // what a cache does not have is read from the API server
	}
	evidence, installed := seen.release, seen.installed
	if evidence == 0 && seen.held && m.rules.writeAhead {
		evidence, installed = seen.barrier, true
	}
	r := m.gate(gateKey{
		record: x.record, release: evidence, offer: offer, wanted: x.wanted, installed: installed, barrier: seen.barrier > 0, confirmed: confirmed,
	})
	var ok bool
	if rendered := m.records.vals[r.rendered]; len(rendered.Pools) > 0 {
		e.release, e.barrier = r.rendered+1, r.rendered+1
		if !r.paused {
			e.installed, e.held = true, true
			cl.machines = m.pools.id(envelope(m.pools.vals[cl.machines], bounds(rendered.Pools)))
		}
	}
	if cl.composed, ok = cl.composed.push(e, m.lag); !ok {
		return s, r, false
	}
	if cl.requests, ok = cl.requests.add(r.request); !ok {
		return s, r, false
	}
	s.clusters[c] = cl
	return s, r, true
}

// accountant runs with the ledger that its cache shows, and any version of every request.
func (m *model) accountant(s modelState, add func(modelState, string)) {
	if m.rules.casLedger && s.ledger.n > 0 {
		return // the write is refused
	}
	k := settleKey{ledger: s.ledger.cached(), quota: s.quota, later: true}
	if m.ledgers.vals[k.ledger] == nil {
		for c, cl := range s.clusters {
			k.offers[c] = cl.offers.latest
		}
	}
	views := []settleKey{k}
	for c := range s.clusters {
		var next []settleKey
		for _, k := range views {
			next = append(next, m.views(s.clusters[c], c, k)...)
		}
		views = next
	}
	for _, k := range views {
		l := m.settle(k)
		n := s
		var ok bool
		if n.ledger, ok = s.ledger.write(l, m.lag); ok && l != s.ledger.stored() && m.post(&n, l) {
			add(n, "the accountant settles")
		}
	}
}

// views that the accountant may have of a cluster: any version of its request, or what it composed.
func (m *model) views(cl modelCluster, c int, k settleKey) []settleKey {
	restored := m.ledgers.vals[k.ledger] == nil
	if cl.composed.n > 0 {
		if restored {
			return nil // after a restore every cache is new
		}
		k.later = false // a cache is never further behind than the quarantine lasts
	}
	var out []settleKey
	for _, r := range cl.requests.ids[:cl.requests.n] {
		if !restored || r == cl.requests.latest {
			next := k
			next.requests[c] = r + 1
			out = append(out, next)
		}
	}
	if cl.dead || cl.requests.n == 0 {
		k.evidence[c] = m.evidence(cl.composed.cached())
		out = append(out, k)
	}
	return out
}

// evidence of a cluster that has no request, as it is annotated.
func (m *model) evidence(e modelComposed) int16 {
	switch {
	case e.release > 0:
		return m.pools.id(m.records.vals[e.release-1].Exists()) + 1
	case e.barrier > 0:
		return m.pools.id(m.records.vals[e.barrier-1].Exists()) + 1
	}
	return 0
}

// post the offers of a ledger on the pages.
func (m *model) post(s *modelState, l int16) bool {
	for _, g := range m.ledgers.vals[l].Grants {
		c := int(g.Cluster[0] - 'x')
		if g.Revision == 0 {
			continue
		}
		var ok bool
		id := m.offers.id(Offer{Amount: g.Amount, Revision: g.Revision})
		if s.clusters[c].offers, ok = s.clusters[c].offers.add(id); !ok {
			return false
		}
	}
	return true
}

// truth of a state: nothing stale, no past.
func truth(s modelState) modelState {
	for c := range s.clusters {
		cl := &s.clusters[c]
		cl.xr = modelLog[modelXR]{v: [modelLag]modelXR{cl.xr.stored()}}
		cl.composed = modelLog[modelComposed]{v: [modelLag]modelComposed{cl.composed.stored()}}
		cl.requests, cl.offers = modelPastSet{}, modelPastSet{latest: cl.offers.latest}
	}
	s.ledger = modelLog[int16]{v: [modelLag]int16{s.ledger.stored()}}
	s.ops = 0
	return s
}

// admitsAll says whether everything that fits is admitted when all run in turn, with nothing stale, until nothing moves.
func (m *model) admitsAll(s modelState) bool {
	s = truth(s)
	if ok, known := m.drained[s]; known {
		return ok
	}
	from := s
	for range 40 {
		was := s
		s = m.fair(s)
		if s == was {
			break
		}
	}
	free := modelQuotas[s.quota]
	var waiting []Resources
	for _, cl := range s.clusters {
		if cl.dead {
			continue
		}
		x := cl.xr.stored()
		r := m.records.vals[x.record]
		free = free.Minus(r.Keeps)
		if need := r.Need(modelSpecs[x.wanted]); !need.Within(r.Keeps) {
			waiting = append(waiting, need.Minus(r.Keeps))
		}
	}
	ok := !slices.ContainsFunc(waiting, func(more Resources) bool { return more.shortOf(free).IsZero() })
	m.drained[from] = ok
	return ok
}

// fair lets everybody move once.
func (m *model) fair(s modelState) modelState {
	k := settleKey{ledger: s.ledger.stored(), quota: s.quota, later: true}
	for c := range s.clusters {
		m.provider(s, c, func(n modelState, _ string) { s = truth(n) })
		cl := s.clusters[c]
		k.offers[c] = cl.offers.latest
		if cl.dead || cl.xr.stored().wanted == 0 {
			k.evidence[c] = m.evidence(cl.composed.stored())
			continue
		}
		offer := int16(0)
		if l := m.ledgers.vals[s.ledger.stored()]; l != nil {
			for _, g := range l.Grants {
				if g.Cluster == clusterName(c) && g.Revision > 0 {
					offer = m.offers.id(Offer{Amount: g.Amount, Revision: g.Revision})
				}
			}
		}
		n, r, _ := m.apply(s, c, offer, m.confirms(cl))
		k.requests[c] = r.request + 1
		latest := n.clusters[c].offers.latest
		n.clusters[c].xr.v[0].record = r.record
		s = truth(n)
		s.clusters[c].offers.latest = latest
		m.provider(s, c, func(n modelState, _ string) { s = truth(n) })
	}
	l := m.settle(k)
	s.ledger.v[0] = l
	for _, g := range m.ledgers.vals[l].Grants {
		if g.Revision > 0 {
			s.clusters[int(g.Cluster[0]-'x')].offers.latest = m.offers.id(Offer{Amount: g.Amount, Revision: g.Revision})
		}
	}
	return s
}

// skipUnderRaceDetector leaves the model, which has one goroutine, to a run of its own: it takes minutes longer there.
func skipUnderRaceDetector(t *testing.T) {
	t.Helper()
	if raceDetector || testing.Short() {
		t.Skip("make test runs the model check without the race detector")
	}
}

func TestModel(t *testing.T) {
	skipUnderRaceDetector(t)
	cases := map[string]struct {
		reason string
		bounds modelBounds
	}{
		"ThreeClusters": {
			reason: "Three clusters compete; everything may happen.",
			bounds: modelBounds{clusters: 3, ops: 3, specs: 3, lag: 1, raises: true, restores: true, deletes: true},
		},
		"TwoClusters": {
			reason: "Two clusters change into everything; everything may happen.",
			bounds: modelBounds{clusters: 2, ops: 3, specs: 3, lag: 1, raises: true, restores: true, deletes: true},
		},
		"OneCluster": {
			reason: "One cluster changes often, far ahead of every cache.",
			bounds: modelBounds{clusters: 1, ops: 4, specs: 3, lag: 2, raises: true, restores: true, deletes: true},
		},
		"SlowCaches": {
			reason: "Caches are further behind.",
			bounds: modelBounds{clusters: 2, ops: 3, specs: 2, lag: 2, raises: true, deletes: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := tc.bounds
			b.ops = cmp.Or(int8(*modelOps), b.ops)
			m := newModel(allRules(), b)
			began := time.Now()
			if fault := m.run(true); fault != "" {
				t.Errorf("%s\n%s", tc.reason, fault)
			}
			t.Logf("%d states in %s", len(m.nodes), time.Since(began).Round(time.Millisecond))
		})
	}
}

func TestModelWithoutRule(t *testing.T) {
	skipUnderRaceDetector(t)
	over, waits := "existing machines exceed the quota", "a cluster that fits waits for ever"
	two := modelBounds{clusters: 2, ops: 3, specs: 3, lag: 1}
	cases := map[string]struct {
		reason string
		remove func(*rules)
		bounds func(*modelBounds)
		want   string
	}{
		"R2OpenOffers": {
			reason: "An offer that is not reserved until it is answered is made twice.",
			remove: func(r *rules) { r.reserveOffers = false },
			bounds: func(b *modelBounds) { b.start, b.ops, b.deletes = []int8{2, 2}, 2, true },
			want:   over,
		},
		"R2Evidence": {
			reason: "A deleted cluster holds quota while anything of it is seen.",
			remove: func(r *rules) { r.evidence = false },
			want:   over,
		},
		"R2Quarantine": {
			reason: "What a cache does not show may exist.",
			remove: func(r *rules) { r.quarantine = false },
			bounds: func(b *modelBounds) { b.lag = 2 },
			want:   over,
		},
		"R4Seeding": {
			reason: "A lost ledger is rebuilt from everything that is seen.",
			remove: func(r *rules) { r.seeding = false },
			bounds: func(b *modelBounds) { b.restores = true },
			want:   over,
		},
		"R5LedgerCompareAndSwap": {
			reason: "A stale run must not write the ledger.",
			remove: func(r *rules) { r.casLedger = false },
			want:   over,
		},
		"R6Confirmation": {
			reason: "Nothing is let go of before the provider confirms.",
			remove: func(r *rules) { r.confirmation = false },
			want:   over,
		},
		"R7Fence": {
			reason: "An offer that was answered is dead.",
			remove: func(r *rules) { r.fence = false },
			bounds: func(b *modelBounds) { b.start, b.ops, b.specs = []int8{2, 2}, 2, 2 },
			want:   over,
		},
		"R7Declining": {
			reason: "An offer that cannot be used is answered too.",
			remove: func(r *rules) { r.declining = false },
			want:   waits,
		},
		"R9WriteAhead": {
			reason: "Nothing is rendered before it is recorded. The barrier would know, if it said what it was rendered with.",
			remove: func(r *rules) { r.writeAhead = false },
			bounds: func(b *modelBounds) { b.deletes = true },
			want:   over,
		},
		"R9RecordCompareAndSwap": {
			reason: "A stale run must not write the record.",
			remove: func(r *rules) { r.casRecord = false },
			bounds: func(b *modelBounds) { b.clusters, b.ops, b.lag = 1, 4, 2 },
			want:   "an answered offer is alive again",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, b := allRules(), two
			tc.remove(&r)
			if tc.bounds != nil {
				tc.bounds(&b)
			}
			b.ops = cmp.Or(int8(*modelOps), b.ops)
			m := newModel(r, b)
			began := time.Now()
			fault := m.run(tc.want == waits)
			if !strings.HasPrefix(fault, tc.want) {
				t.Errorf("%s\nthe model without this rule: want %q, got %q", tc.reason, tc.want, fault)
			}
			t.Logf("%d states in %s\n%s", len(m.nodes), time.Since(began).Round(time.Millisecond), fault)
		})
	}
}
