package election

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// Nobody bids for a lease that the store itself will free, whatever happens to it, until it is free.
func TestALeaseThatTheStoreFreesIsWaitedFor(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Push: true})
	held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "b", Nonce: "b1"}, Term: 7, Version: "1", ObserveFor: backend.ExpiresInStore}
	now := time.Second
	observes(t, m, now, held)
	for _, change := range []func(){
		func() { held.Version = "renewed" },
		func() {
			held.Holder, held.Version, held.Term = backend.Candidate{ID: "c", Nonce: "c1"}, "another leader", 8
		},
		func() {},
	} {
		if m.inFlight[callAcquire] != nil {
			t.Fatalf("at %v it bids for %+v", now, held)
		}
		change()
		now = e.readAt
		m.step(now, tick{})
		observes(t, m, now, held)
	}
	now = e.readAt
	m.step(now, tick{})
	observes(t, m, now, backend.Lease{Election: "jobs", Term: 8, Version: "free"})
	if m.inFlight[callAcquire] == nil {
		t.Error("the lease is free, and it does not bid")
	}
}

// The answer to a bid may come after a reading has shown its grant.
func TestAGrantCountsThoughItWasObservedFirst(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Push: true})
	free := backend.Lease{Election: "jobs"}
	observes(t, m, time.Second, free)
	bid := m.inFlight[callAcquire]
	granted := backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Version: "1", TTL: 10 * time.Second}
	e.readAt = time.Second
	m.step(1500*time.Millisecond, tick{})
	if m.inFlight[callObserve] == nil {
		e.readAt = 0
		m.advance(1500*time.Millisecond, e)
		m.dispatch(1500 * time.Millisecond)
	}
	observes(t, m, 1600*time.Millisecond, granted)
	m.step(2*time.Second, reply{call: bid, answers: []backend.Answer{{Lease: granted, Outcome: backend.Granted, ValidFor: 10 * time.Second}}})
	if e.phase != phaseLeading {
		t.Error("the grant did not begin a leadership")
	}
	if want := bid.sent + 10*time.Second - m.ClockMargin; e.trustedUntil != want {
		t.Errorf("trusted until %v, want %v: from the sending", e.trustedUntil, want)
	}
}

// A locked row or a lost answer must not make a challenger begin its observation again.
func TestABidWithoutOutcomeKeepsTheObservation(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	held := theirs(7, "1")
	observes(t, m, time.Second, held)
	for now := time.Second; m.inFlight[callAcquire] == nil; now = m.next() {
		if now > 12*time.Second {
			t.Fatal("does not bid")
		}
		m.step(now, tick{})
		if c := m.inFlight[callObserve]; c != nil {
			m.step(now, reply{call: c})
		}
	}
	bid := m.inFlight[callAcquire]
	m.step(bid.sent+time.Millisecond, reply{call: bid, answers: []backend.Answer{{Err: backend.ErrUnavailable}}})
	if m.inFlight[callRelease] != nil {
		t.Error("releases a lease for which it will bid again")
	}
	if at := m.bidAt(e); at > bid.sent+time.Second {
		t.Errorf("bids again %v after the first bid", at-bid.sent)
	}

	m.step(bid.sent+2*time.Millisecond, pause{e, true})
	c := m.inFlight[callRelease]
	if c == nil {
		t.Fatal("paused, and does not release the possible grant")
	}
	m.step(bid.sent+3*time.Millisecond, reply{call: c})
	m.step(bid.sent+4*time.Millisecond, pause{e, false})
	if c := m.inFlight[callObserve]; c != nil {
		m.step(bid.sent+5*time.Millisecond, reply{call: c}) // nothing has changed
	}
	if at := m.bidAt(e); at > bid.sent+time.Second {
		t.Errorf("bids again %v after the first bid: the observation began again", at-bid.sent)
	}
}

func TestAnOvertakenGrantIsNoWin(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Push: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs"})
	bid := m.inFlight[callAcquire]
	e.highestTerm = 9 // another leadership was observed while the answer was under way
	actions := m.step(2*time.Second, reply{call: bid, answers: []backend.Answer{m.granted(7)}})
	if e.phase == phaseLeading {
		t.Error("leads in a term that is over")
	}
	for _, a := range actions {
		if a.kind == doEvent {
			t.Errorf("S10: told %v, though the store has kept its promise", a.state.event(a.e.name))
		}
	}
}

func TestABidExceedsEveryObservedTerm(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, theirs(9, "1"))
	m.step(e.readAt, tick{})
	observes(t, m, e.readAt, backend.Lease{Election: "jobs", Term: 4, Version: "2"}) // the store was restored
	bid := m.inFlight[callAcquire]
	if bid == nil {
		t.Fatal("no bid is under way")
	}
	if bid.bids[0].MinTerm != 9 {
		t.Errorf("S4: bids above term %d, but has seen 9", bid.bids[0].MinTerm)
	}
}

// A coarse or virtual clock does not order the events of one instant.
func TestTryIgnoresAReadSentAtTheSameInstant(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	m.step(0, withdraw{e})
	held := theirs(9, "9")
	observes(t, m, time.Second, held)
	e.readAt = 2 * time.Second
	m.wake(e, e.readAt)
	m.step(2*time.Second, tick{})
	before := m.inFlight[callObserve]
	m.step(2*time.Second, campaign{e, modeTry, workCaller})
	m.step(2*time.Second, reply{call: before, changed: []backend.Lease{held}})
	if e.mode != modeTry {
		t.Fatal("gave up because of a reading from before the Try")
	}
	m.step(m.next(), tick{})
	observes(t, m, m.next(), backend.Lease{Election: "jobs", Term: 9, Version: "10"})
	if m.inFlight[callAcquire] == nil {
		t.Error("does not bid for a lease that is free")
	}
}

// A Try ends before the holder has stepped down, so the nomination would leave no leader. Found by the
// simulation (docs/proof.md).
func TestTryDoesNotAcceptANomination(t *testing.T) {
	for _, try := range []bool{false, true} {
		m, e := machineFor(t, backend.Guarantees{Poll: true})
		held := theirs(9, "9")
		observes(t, m, time.Second, held)
		if try {
			m.step(time.Second, withdraw{e})
			e.readAt = time.Second
			m.wake(e, e.readAt)
			m.step(time.Second, tick{})
			m.step(time.Second, campaign{e, modeTry, workCaller})
		} else {
			m.step(e.readAt, tick{})
		}
		held.Request = backend.Request{Election: "jobs", Term: 9, Kind: backend.Nominate, ID: m.me.ID}
		observes(t, m, 2*time.Second, held)
		if asks := m.inFlight[callRequest] != nil; asks == try {
			t.Errorf("Try: %v, accepts: %v", try, asks)
		}
	}
}
