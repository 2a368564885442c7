package election

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// Each of these was found by the simulation; docs/proof.md has the seeds.

func TestALeadershipEndedByTheWallClockStaysEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		e.Lead(nil)
		synctest.Wait()
		leadership := e.Leadership()
		if leadership == nil {
			t.Fatal("does not lead")
		}
		m.clock.ahead.Store(int64(9 * time.Second)) // what check does where there is no boot-time clock
		if leadership.Leading() {
			t.Fatal("trusts a lease that the wall clock says has run out")
		}
		for range 60 {
			time.Sleep(time.Second)
			if leadership.Leading() {
				t.Fatal("S6: a leadership that had run out goes on")
			}
		}
		if next := e.Leadership(); next == nil || next.Term <= leadership.Term {
			t.Errorf("a minute later it leads in %+v, want a leadership after %d", next, leadership.Term)
		}
		closes(t, m)
	})
}

func TestASuspendedHostDoesNotLeadWhenItWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		e.Lead(nil)
		synctest.Wait()
		if !e.Leading() {
			t.Fatal("does not lead")
		}
		m.clock.suspended.Store(int64(9 * time.Second)) // what check does where there is a boot-time clock
		if e.Leading() {
			t.Error("leads at its first instruction after 9 s of sleep")
		}
		closes(t, m)
	})
}

func TestBidsForALockedRowBackOff(t *testing.T) {
	m, _ := machineFor(t, backend.Guarantees{Poll: true})
	free := backend.Lease{Election: "jobs"}
	observes(t, m, time.Second, free)
	bids := 0
	for now := time.Second; now < 31*time.Second; now = max(m.next(), now+1) {
		m.step(now, tick{})
		if c := m.inFlight[callAcquire]; c != nil {
			bids++
			// No error of the call: the other rows of the batch are not locked.
			m.step(now, reply{call: c, answers: []backend.Answer{{Err: backend.ErrUnavailable}}})
		}
		for _, k := range []callKind{callObserve, callAnnounce} {
			if c := m.inFlight[k]; c != nil {
				m.step(now, reply{call: c})
			}
		}
	}
	if bids > 20 {
		t.Errorf("Q1: %d bids in half a minute for a row that is locked", bids)
	}
}

// A release was waiting for another that hung, when its election was led and lost.
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
	m.step(now, suspend{other, true}) // its release hangs
	m.step(now, suspend{e, true})     // and this one waits
	m.step(now, suspend{e, false})
	now += time.Second
	m.step(now, tick{})
	granted := backend.Answer{Lease: backend.Lease{Election: "jobs", Holder: m.me, Term: 7}, Outcome: backend.Granted, ValidFor: 10 * time.Second}
	end(callAcquire, reply{answers: []backend.Answer{granted}})
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

// It was renewed once more: the answer came when nobody waited for the function any more.
func TestAStuckFunctionsLeaseExpiresBeforeItsRelease(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	e.work = workFunction
	renewal := wins(t, m, e)
	granted := reply{answers: []backend.Answer{{Lease: backend.Lease{Election: "jobs", Holder: m.me, Term: 7}, Outcome: backend.Granted, ValidFor: 10 * time.Second}}}
	now := renewal.sent
	m.step(now, resign{e, 7})
	lasts := time.Duration(0)
	for e.phase != phaseStuck {
		if c := m.inFlight[callRenew]; c != nil && now < e.stuckAt-m.RenewEvery {
			granted.call, lasts = c, c.sent+10*time.Second
			m.step(now, granted)
		}
		now = m.next()
		m.step(now, tick{})
	}
	if c := m.inFlight[callRenew]; c != nil {
		granted.call, lasts = c, c.sent+10*time.Second
		m.step(now, granted)
	}
	for m.inFlight[callRelease] == nil && now < time.Hour {
		now = m.next()
		m.step(now, tick{})
	}
	if m.inFlight[callRelease] == nil {
		t.Error("never released")
	}
	if now < lasts {
		t.Errorf("S11: released %v before it has run out, while the function runs", lasts-now)
	}
}
