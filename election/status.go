package election

import (
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A Status is a snapshot of a manager and its elections, for pages, metrics and logs. Do not act
// on it: call [Election.Leading].
type Status struct {
	ID              string        // of this candidate
	Backend         string        // name of the store's backend
	Location        string        // address of the store (clean.Where); empty if not known
	TTL, RenewEvery time.Duration // as in Options
	Observer        bool          // this manager never campaigns
	Paused          bool          // by Manager.Pause; elections joined later are paused, too
	Unhealthy       bool          // Options.Health has failed: this process leads and campaigns for nothing
	Closed          bool          // Close was called; the rest may be empty

	// Contact is the time since the store last answered a call, or since New if it never did.
	// Unreachable says that Contact exceeds the TTL and watchers were told. Err is the last
	// error since then; nil if the store answered the last call.
	Contact     time.Duration
	Unreachable bool
	Err         error

	Elections []ElectionStatus // the joined elections, in no particular order
}

// An ElectionStatus is a snapshot of one election, as the manager knows it.
type ElectionStatus struct {
	Event                       // the state, as Election.Current returns it
	Campaigning bool            // this process campaigns, by Lead, Run, Campaign or Try
	Paused      bool            // by either Pause
	Stuck       bool            // the lead function ignores its cancelled context
	Request     backend.Request // beside the lease, as last read; zero for a lease of this process

	// Remaining is the time until the lease ends if it is not renewed again. For the leader it ends
	// when the leader stops trusting it, for others when they could take it. Negative if that
	// is not known: nobody leads, or the store decides.
	Remaining time.Duration
}

// Status returns the manager's status. It makes no call of the store. It waits for the manager's
// loop, which needs about a microsecond for each election.
func (m *Manager) Status() Status {
	s := Status{ID: m.me.ID, Backend: m.name, Location: clean.Where(m.backend), Closed: true}
	s.TTL, s.RenewEvery, s.Observer = m.opts.TTL, m.opts.RenewEvery, m.opts.Observer
	m.ask(func(now time.Duration) (input, error) {
		x := m.machine
		s.Paused, s.Unhealthy, s.Closed = x.paused, x.unhealthy, x.closing
		s.Contact, s.Unreachable, s.Err = now-x.lastContact, x.unreachableReported, x.lastContactErr
		for _, e := range x.elections {
			s.Elections = append(s.Elections, e.shell.status(now))
		}
		return nil, nil
	})
	return s
}

func (e *Election) status(now time.Duration) ElectionStatus {
	x := &e.elec
	s := ElectionStatus{
		Event: e.Current(), Campaigning: x.mode != modeNone, Paused: x.paused, Remaining: -1,
		Stuck: x.phase == phaseStuck || x.phase == phaseAbandoned,
	}
	if s.Leading {
		s.Remaining = e.leadership.Load().Remaining()
	}
	if x.hasObserved && !e.manager.machine.mayBeOurs(now, x) {
		l := x.observed
		s.Request = l.Request
		if s.Kind == Elected && !l.Vacant() && l.ObserveFor >= 0 && l.TTL > 0 {
			s.Remaining = max(0, x.unchangedSince+max(l.TTL, l.ObserveFor)-now)
		}
	}
	return s
}
