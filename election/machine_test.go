package election

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func machineFor(t *testing.T, g backend.Guarantees) (*machine, *elec) {
	t.Helper()
	g.Name, g.MinTTL = "test", time.Millisecond
	o, err := Options{ID: "me"}.Complete(g)
	noError(t, err)
	m := newMachine(o, g, backend.Candidate{ID: "me", Nonce: "mine"}, rand.New(rand.NewPCG(1, 2)), 0)
	m.impossible = panicIfImpossible
	e := &elec{name: "jobs"}
	m.step(0, join{e})
	m.step(0, campaign{e, modeAlways, workNone})
	return m, e
}

// observes gives the machine the answer to its Observe.
func observes(t *testing.T, m *machine, now time.Duration, l backend.Lease) []action {
	t.Helper()
	c := m.inFlight[callObserve]
	if c == nil {
		t.Fatal("no Observe is under way")
	}
	return m.step(now, reply{call: c, changed: []backend.Lease{l}})
}

func theirs(term uint64, version string) backend.Lease {
	return backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: term, Version: version,
		TTL: 10 * time.Second, Renew: 3 * time.Second, ObserveFor: 10 * time.Second}
}

// granted is the answer to a bid or a renewal of the machine that is granted for 10 s.
func (m *machine) granted(term uint64) backend.Answer {
	l := backend.Lease{Election: "jobs", Holder: m.me, Term: term, Version: "1", TTL: 10 * time.Second}
	return backend.Answer{Lease: l, Outcome: backend.Granted, ValidFor: 10 * time.Second}
}

// lead makes the machine lead in term 7 and renew.
func lead(t *testing.T, m *machine, e *elec) (renewal *call) {
	t.Helper()
	observes(t, m, time.Second, backend.Lease{Election: "jobs"})
	m.step(time.Second, reply{call: m.inFlight[callAcquire], answers: []backend.Answer{m.granted(7)}})
	m.step(e.renewAt, tick{})
	if renewal = m.inFlight[callRenew]; e.phase != phaseLeading || renewal == nil {
		t.Fatal("does not lead and renew")
	}
	return renewal
}

// loses makes the machine lead, and lose the leadership. It returns when the lease has been released.
func loses(t *testing.T, m *machine, e *elec) (released time.Duration) {
	t.Helper()
	renewal := lead(t, m, e)
	m.step(renewal.sent+time.Millisecond, reply{call: renewal, answers: []backend.Answer{{Outcome: backend.Refused}}})
	m.step(e.trustedUntil, tick{})
	released = e.trustedUntil + time.Second
	m.step(released, reply{call: m.inFlight[callRelease]})
	return released
}

func TestARequestOfAnotherTermIsIgnored(t *testing.T) {
	for _, w := range []backend.Request{
		{Election: "jobs", Term: 6, Kind: backend.Accept, ID: "other", Nonce: "theirs"},
		{Election: "jobs", Term: 8, Kind: backend.Accept, ID: "other", Nonce: "theirs"},
	} {
		m, e := machineFor(t, backend.Guarantees{Poll: true})
		renewal := lead(t, m, e)
		m.step(renewal.sent+time.Millisecond, reply{call: renewal, answers: []backend.Answer{{
			Lease: backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Version: "2", TTL: 10 * time.Second, Request: w}, Outcome: backend.Granted, ValidFor: 10 * time.Second}}})
		if e.phase != phaseLeading {
			t.Errorf("the leader of term 7 steps down for a request of term %d", w.Term)
		}
		expires := e.expiresAt
		if m.step(expires, resign{e, w.Term}); e.expiresAt != expires {
			t.Errorf("the lease of term 7 is waited for longer, because term %d is resigned", w.Term)
		}
	}
}

// An answer to a call from before the own leadership must not look like a store that went back. Found
// by the simulation (docs/proof.md).
func TestAnAnswerFromBeforeALeadershipIsIgnored(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	released := loses(t, m, e)
	m.observe(released+1, e, &backend.Lease{Election: "jobs", Term: 5, Version: "5"}, released-time.Second)
	if e.hasObserved || e.reported.reason == ReasonWentBack {
		t.Errorf("S10: uses an answer of term 5 after its own leadership of term 7: %v", e.reported.event(e.name))
	}
}

func TestTheLeaseIsReadAgainAfterALeadership(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	loses(t, m, e)
	if m.inFlight[callAcquire] != nil {
		t.Error("bids with an observation from before its leadership")
	}
	if m.inFlight[callObserve] == nil {
		t.Error("does not read the lease")
	}
}

// A release waited for another Release that hung. Meanwhile this process won and lost the election
// again. Found by the simulation (docs/proof.md).
func TestADelayedReleaseSparesALaterLeadership(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	other := &elec{name: "other"}
	m.step(0, join{other})
	m.step(0, campaign{other, modeAlways, workNone})
	now := time.Second
	end := func(k callKind, r reply) *call {
		t.Helper()
		if r.call = m.inFlight[k]; r.call == nil {
			t.Fatalf("at %v no call of kind %d is under way", now, k)
		}
		now += time.Millisecond
		m.step(now, r)
		return r.call
	}
	unknown := backend.Answer{Err: backend.ErrUnavailable}
	observes(t, m, now, backend.Lease{Election: "jobs"})
	end(callAcquire, reply{answers: []backend.Answer{unknown}})
	end(callObserve, reply{changed: []backend.Lease{{Election: "other"}}})
	end(callAcquire, reply{answers: []backend.Answer{unknown}})
	m.step(now, pause{other, true}) // its release hangs
	m.step(now, pause{e, true})     // and this one waits
	m.step(now, pause{e, false})
	now += time.Second
	m.step(now, tick{})
	end(callAcquire, reply{answers: []backend.Answer{m.granted(7)}})
	if e.phase != phaseLeading {
		t.Fatal("does not lead")
	}
	now = e.renewAt
	m.step(now, tick{})
	end(callRenew, reply{answers: []backend.Answer{{Outcome: backend.Refused}}})
	if e.phase == phaseLeading {
		t.Fatal("still leads")
	}
	end(callRelease, reply{})
	if c := m.inFlight[callRelease]; c != nil && now < e.trustedUntil {
		t.Errorf("S11: releases %v before the deadline of the leadership that it has lost", e.trustedUntil-now)
	}
}

// A bid that is under way when the manager closes may be granted, so its answer is awaited, even if
// the lease that an earlier bid may have won has expired.
func TestCloseWaitsForABidUnderWay(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs"})
	now := time.Second
	m.step(now, reply{call: m.inFlight[callAcquire], err: backend.ErrUnavailable})
	for m.inFlight[callAcquire] == nil && now < time.Minute {
		now = m.next()
		m.step(now, tick{})
	}
	bid := m.inFlight[callAcquire]
	if bid == nil || e.phase != phasePending {
		t.Fatal("no second bid after one without an outcome")
	}
	m.step(now, leave{end: backend.Released})
	now = max(now, e.expiresAt)
	m.step(now, tick{})
	if e.index < 0 {
		t.Fatal("it has left while a bid is under way")
	}
	m.step(now, reply{call: bid, answers: []backend.Answer{m.granted(1)}})
	if m.inFlight[callRelease] == nil {
		t.Error("the late grant is not released")
	}
}

// panicIfImpossible ends a test in which a trigger comes that cannot come.
func panicIfImpossible(p phase, t trigger) {
	panic(fmt.Sprintf("rule violated: trigger %d does not come in phase %d", t, p))
}

func TestATriggerThatCannotComeChangesNothing(t *testing.T) {
	m := newMachine(Options{TTL: time.Second, RenewEvery: time.Second}, backend.Guarantees{}, backend.Candidate{}, rand.New(rand.NewPCG(1, 2)), 0)
	e := new(elec)
	if m.on(e, overdue); e.phase != phaseFollowing {
		t.Errorf("a follower whose function is overdue is in phase %d", e.phase)
	}
}
