package election

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// Stats has counters of a manager since New, as plain values. Only the manager's loop counts: one
// addition for each event and call, without a lock, and two clock readings for each call. Package
// electionprom makes metrics of them.
type Stats struct {
	Backend string        // name of the store's backend
	TTL     time.Duration // of this manager's leases, to compare durations with

	Watchers int // registered now
	Waiting  int // events that wait for callbacks now, over all watchers

	// Changes counts the events that watchers got, in a fixed order. The entries for own
	// leaderships and for notices exist from the start, with 0.
	Changes []Change

	// Calls has an entry for each kind of call that the manager makes by itself, in a fixed order, even if
	// there was none. It has no calls that the program asks for (Members, Record, Nominate, Depose).
	Calls []CallStats

	// Remaining is the time that was left until the deadline when a renewal was confirmed: normally TTL -
	// ClockMargin - RenewEvery less the duration of a call. Near 0, the next delay ends a leadership.
	Remaining Histogram
}

// A Change counts the events of one kind and reason.
type Change struct {
	Kind   Kind
	Reason Reason
	Own    bool // a leadership of this manager began or ended, or a notice came while it led
	Count  uint64
}

// CallStats counts the calls of one kind: renew, release, acquire, observe, request, announce,
// members, health or listen. A failed health check counts as unavailable. A listen waits for changes, so its
// duration means nothing.
type CallStats struct {
	Kind string

	// Took has the durations of all calls, failed ones too, as the manager saw them.
	Took Histogram

	// The number of failed calls, and of failed items in calls that succeeded as a whole, by
	// the class of the error (backend.Class).
	Unavailable, Denied, Invalid uint64
}

// A Histogram counts durations. Counts[i] is the number of those above Bounds[i-1] and up to
// Bounds[i]. Count has those above all bounds as well.
type Histogram struct {
	Bounds []time.Duration // ascending
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

func newHistogram(bound func(i int) time.Duration) (h Histogram) {
	for i := range 15 {
		h.Bounds = append(h.Bounds, bound(i))
	}
	h.Counts = make([]uint64, len(h.Bounds))
	return h
}

func (h Histogram) clone() Histogram {
	h.Bounds, h.Counts = slices.Clone(h.Bounds), slices.Clone(h.Counts)
	return h
}

// counters are the loop's counters for Stats.
type counters struct {
	changes   map[Change]uint64 // the keys have Count 0
	calls     [callKinds]CallStats
	remaining Histogram
}

var callNames = [callKinds]string{
	callRenew: "renew", callRelease: "release", callAcquire: "acquire", callObserve: "observe",
	callRequest: "request", callAnnounce: "announce", callMembers: "members", callHealth: "health",
	callListen: "listen",
}

// newCounters has bounds for calls from 1 ms to 16 s, each twice the one before, and bounds for
// remaining times in sixteenths of the TTL.
func newCounters(ttl time.Duration) (c counters) {
	c.changes = make(map[Change]uint64)
	for _, r := range []Reason{ReasonElected, ReasonNominated} {
		c.changes[Change{Kind: Elected, Reason: r, Own: true}] = 0
	}
	for _, r := range []Reason{
		ReasonUnreachable, ReasonDenied, ReasonRefused, ReasonDeadline, ReasonDeposed, ReasonResigned,
		ReasonNominated, ReasonHealth, ReasonPaused, ReasonReturned, ReasonLeft,
	} {
		c.changes[Change{Kind: Vacant, Reason: r, Own: true}] = 0
	}
	for _, r := range []Reason{ReasonSameID, ReasonWentBack, ReasonStuck, ReasonDenied, ReasonInvalid} {
		c.changes[Change{Kind: Notice, Reason: r, Own: true}] = 0
		c.changes[Change{Kind: Notice, Reason: r}] = 0
	}
	for k := range c.calls {
		took := newHistogram(func(i int) time.Duration { return time.Millisecond << i })
		c.calls[k] = CallStats{Kind: callNames[k], Took: took}
	}
	c.remaining = newHistogram(func(i int) time.Duration { return ttl * time.Duration(i+1) / 16 })
	return c
}

func (c *counters) countCall(r *reply, took time.Duration) {
	s := &c.calls[r.call.kind]
	s.Took.add(took)
	switch {
	case r.call.cancelled: // by the machine, so no error
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

// Stats returns the counters. It waits for the manager's loop: milliseconds with ten thousand
// elections. After Close it returns the last values.
func (m *Manager) Stats() (s Stats) {
	if m.ask(func(time.Duration) (input, error) {
		s = m.stats()
		return nil, nil
	}) != nil {
		s = m.stats() // the loop has ended
	}
	return s
}

func (m *Manager) stats() Stats {
	s := Stats{Backend: m.name, TTL: m.opts.TTL, Remaining: m.counters.remaining.clone()}
	for _, c := range m.counters.calls {
		c.Took = c.Took.clone()
		s.Calls = append(s.Calls, c)
	}
	for c, n := range m.counters.changes {
		c.Count = n
		s.Changes = append(s.Changes, c)
	}
	slices.SortFunc(s.Changes, func(a, b Change) int {
		byKind, byReason := cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason)
		return cmp.Or(byKind, byReason, boolInt(a.Own)-boolInt(b.Own))
	})
	watchers := slices.Clone(m.watchers)
	for _, e := range m.machine.elections {
		watchers = append(watchers, e.shell.watchers...)
	}
	s.Watchers = len(watchers)
	for _, w := range watchers {
		w.mu.Lock()
		s.Waiting += w.queue.Len()
		w.mu.Unlock()
	}
	return s
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
