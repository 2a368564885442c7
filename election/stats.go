package election

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// Stats is what a manager has done since it was started, as plain values. They
// are counted by the shell around the state machine, on its one goroutine: an
// addition for each event and each call, no lock and no clock but the two readings
// that time a call. Package electionprom makes metrics of them.
type Stats struct {
	Backend string        // name of the store's backend
	TTL     time.Duration // of this manager's leases: what the rest is to be judged by

	Watchers int // that are registered now
	Waiting  int // events that wait for their callbacks now, of all watchers together

	// Changes counts what watchers were told, by what it was, in a fixed order. What
	// a manager can tell of its own leaderships, and notices, are there from the start, with 0.
	Changes []Change

	// Calls has an entry for each kind of call that the manager makes by itself,
	// in a fixed order, whether or not there was one. What a program asks for
	// (Members, Record, Nominate, Depose) is not in it.
	Calls []CallStats

	// Remaining says how much of its trust a lease had left when a renewal of it
	// was confirmed. In good order that is TTL - ClockMargin - RenewEvery less a call, and
	// near 0 the next hiccup ends a leadership. Leaderships that were lost are in Changes.
	Remaining Histogram
}

// A Change is how often events of one sort came up.
type Change struct {
	Kind   Kind
	Reason Reason
	Own    bool // about a leadership of this manager: it began, or ended, or a notice while it led
	Count  uint64
}

// CallStats is about calls of one kind: renew, release, acquire, observe, ask,
// announce, health or listen. A health check has no errors of classes: that it
// failed counts as unavailable. That a listen takes long says nothing.
type CallStats struct {
	Kind string

	// Took is how long calls took, as their caller saw it, whatever came of them.
	Took Histogram

	// How many calls failed, by the class of the error (backend.Class), and how
	// many items of calls that did not fail as a whole.
	Unavailable, Denied, Invalid uint64
}

// A Histogram counts durations. Counts[i] counts those of at most Bounds[i] and
// more than Bounds[i-1]; those above all bounds are in Count alone.
type Histogram struct {
	Bounds []time.Duration // rising
	Counts []uint64
	Count  uint64
	Sum    time.Duration
}

func (h *Histogram) add(d time.Duration) {
	h.Count++
	h.Sum += d
	if i, _ := slices.BinarySearch(h.Bounds, d); i < len(h.Counts) {
		h.Counts[i]++
	}
}

func newHistogram(n int, bound func(i int) time.Duration) Histogram {
	h := Histogram{Bounds: make([]time.Duration, n), Counts: make([]uint64, n)}
	for i := range h.Bounds {
		h.Bounds[i] = bound(i)
	}
	return h
}

func (h Histogram) clone() Histogram {
	h.Bounds, h.Counts = slices.Clone(h.Bounds), slices.Clone(h.Counts)
	return h
}

// counters is what the loop keeps.
type counters struct {
	changes   map[Change]uint64 // by Kind, Reason and Own
	calls     [calls]CallStats
	remaining Histogram
}

var callNames = [calls]string{
	callRenew: "renew", callRelease: "release", callAcquire: "acquire", callObserve: "observe",
	callRequest: "ask", callAnnounce: "announce", callHealth: "health", callListen: "listen",
}

// newCounters: calls are counted in steps of two from a millisecond to 16 s, and
// what remains of a trust in sixteenths of the TTL.
func newCounters(ttl time.Duration) (c counters) {
	c.changes = make(map[Change]uint64)
	zero := func(kind Kind, reasons ...Reason) {
		for _, r := range reasons {
			c.changes[Change{Kind: kind, Reason: r, Own: true}] = 0
		}
	}
	zero(Elected, ReasonElected, ReasonNominated)
	zero(Vacant, ReasonUnreachable, ReasonRefused, ReasonDeadline, ReasonDeposed, ReasonResigned,
		ReasonNominated, ReasonHealth, ReasonPaused, ReasonReturned, ReasonLeft)
	notices := []Reason{ReasonSameID, ReasonWentBack, ReasonStuck, ReasonDenied, ReasonInvalid}
	zero(Notice, notices...)
	for _, r := range notices {
		c.changes[Change{Kind: Notice, Reason: r}] = 0
	}
	for k := range c.calls {
		c.calls[k] = CallStats{Kind: callNames[k], Took: newHistogram(15, func(i int) time.Duration { return time.Millisecond << i })}
	}
	c.remaining = newHistogram(15, func(i int) time.Duration { return ttl * time.Duration(i+1) / 16 })
	return c
}

// called counts a call that has ended.
func (c *counters) countCall(r *reply, took time.Duration) {
	s := &c.calls[r.call.kind]
	s.Took.add(took)
	switch {
	case r.call.cancelled: // by ourselves
	case r.err != nil:
		s.countError(r.err)
	default:
		for i := range r.answers {
			s.countError(r.answers[i].Err)
		}
	}
}

func (s *CallStats) countError(err error) {
	switch backend.Class(err) {
	case nil:
	case backend.ErrInvalid:
		s.Invalid++
	case backend.ErrDenied:
		s.Denied++
	default:
		s.Unavailable++
	}
}

// Stats returns what the manager has done so far. It takes a step of the
// manager's loop, and so may wait for one that is under way: milliseconds with
// ten thousand elections. After Close it returns what it was in the end.
func (m *Manager) Stats() (s Stats) {
	done := make(chan struct{})
	if m.send(func(time.Duration) input {
		defer close(done)
		s = m.stats()
		return nil
	}) {
		<-done
		return s
	}
	return m.stats() // the loop has ended
}

func (m *Manager) stats() Stats {
	s := Stats{Backend: m.name, TTL: m.opts.TTL, Remaining: m.counters.remaining.clone()}
	for _, c := range m.counters.calls {
		c.Took = c.Took.clone()
		s.Calls = append(s.Calls, c)
	}
	for c, n := range maps.All(m.counters.changes) {
		c.Count = n
		s.Changes = append(s.Changes, c)
	}
	slices.SortFunc(s.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason), boolInt(a.Own)-boolInt(b.Own))
	})
	for _, w := range m.watchers {
		s.addWatcher(w)
	}
	for _, e := range m.machine.elections {
		for _, w := range e.shell.watchers {
			s.addWatcher(w)
		}
	}
	return s
}

func (s *Stats) addWatcher(w *watcher) {
	s.Watchers++
	w.mu.Lock()
	s.Waiting += len(w.queue) - w.obsolete
	w.mu.Unlock()
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Elections returns the elections that this manager has joined and not left, in
// byte order of their names. After Close it returns none.
func (m *Manager) Elections() []*Election {
	m.mu.Lock()
	list := slices.Collect(maps.Values(m.elections))
	m.mu.Unlock()
	slices.SortFunc(list, func(a, b *Election) int { return cmp.Compare(a.elec.name, b.elec.name) })
	return list
}
