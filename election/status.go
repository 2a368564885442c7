package election

import (
	"time"

	"github.com/go-election/go-election/backend"
)

// A Status is a picture of a manager and its elections at about one instant, for
// pages, metrics and logs. Nothing in it is to be acted on: ask [Election.Leading].
type Status struct {
	ID              string // of this candidate
	Backend         string // the store, by the name of its backend
	Location        string // where the store is, as [backend.Where] says; empty if that is not known
	TTL, RenewEvery time.Duration
	Observer        bool // this manager never campaigns
	Paused          bool // by Manager.Pause, and so will be what is joined later
	Unhealthy       bool // Options.Health has failed, so nothing is led or campaigned for
	Closed          bool // Close has been called; the rest may be empty

	// Contact is how long ago the store last answered a call; how long ago the
	// manager was made if it never has. Unreachable says that this is longer than
	// TTL, and so watchers were told. Err is what the store has said since, nil if
	// it has answered its last call.
	Contact     time.Duration
	Unreachable bool
	Err         error

	Elections []ElectionStatus // that are joined, in no particular order
}

// An ElectionStatus is a manager's picture of one election.
type ElectionStatus struct {
	Event            // the state, as Election.Current has it; Time is when it was learned
	Campaigning bool // for this process, by Lead, Run, Campaign or Try
	Paused      bool
	Stuck       bool            // the lead function ignores its cancelled context
	Request     backend.Request // beside the lease, as last seen; not known of a lease that is ours

	// Left is how long the lease lasts if it is never renewed again: for the
	// leader as long as it trusts it, for others until they could take it. It is
	// negative where that is not known: nobody leads, or the store decides.
	Left time.Duration
}

// Status returns the manager's status. It costs its loop a fraction of a
// microsecond for each election, and does not ask the store.
func (m *Manager) Status() Status {
	s := Status{ID: m.me.ID, Backend: m.name, Location: backend.Where(m.backend), TTL: m.opts.TTL, RenewEvery: m.opts.RenewEvery, Observer: m.opts.Observer, Closed: true}
	var list []*Election
	done := make(chan struct{})
	if !m.send(func(now time.Duration) input {
		defer close(done)
		x := m.machine
		s.Paused, s.Unhealthy, s.Closed = x.paused, x.unhealthy, x.closing
		s.Contact, s.Unreachable, s.Err = now-x.lastContact, x.unreachableReported, x.lastContactErr
		list, s.Elections = make([]*Election, len(x.elections)), make([]ElectionStatus, len(x.elections))
		for i, e := range x.elections {
			list[i], s.Elections[i] = e.shell, ElectionStatus{
				Campaigning: e.mode != modeNone, Paused: e.paused, Stuck: e.phase == phaseStuck || e.phase == phaseAbandoned, Left: -1,
			}
			if l := e.observed; e.hasObserved && !x.mayBeOurs(now, e) {
				s.Elections[i].Request = l.Request
				if !l.Vacant() && l.ObserveFor >= 0 && l.TTL > 0 {
					s.Elections[i].Left = max(0, e.unchangedSince+max(l.TTL, l.ObserveFor)-now)
				}
			}
		}
		return nil
	}) {
		return s
	}
	<-done
	for i, e := range list {
		p := &s.Elections[i]
		switch p.Event = e.Current(); {
		case p.Leading:
			p.Left = 0
			if l := e.Leadership(); l != nil {
				p.Left = l.Remaining()
			}
		case p.Kind != Elected:
			p.Left = -1
		}
	}
	return s
}

// Done returns a channel that is closed when the manager has ended: nothing leads
// here any more, and nothing will.
func (m *Manager) Done() <-chan struct{} { return m.ended }
