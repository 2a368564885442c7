package election

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// Found by the simulation (docs/proof.md).
func TestALeadershipEndedByTheWallClockStaysEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		e.Lead(nil)
		synctest.Wait()
		leadership := e.Leadership()
		if leadership == nil {
			t.Fatal("does not lead")
		}
		e.manager.clock.ahead.Store(int64(9 * time.Second)) // what check does where there is no boot-time clock
		if leadership.Leading() {
			t.Fatal("trusts a lease that the wall clock says has run out")
		}
		for range 60 {
			time.Sleep(time.Second)
			if leadership.Leading() {
				t.Fatal("S6: an ended leadership leads again")
			}
		}
		if next := e.Leadership(); next == nil || next.Term <= leadership.Term {
			t.Errorf("a minute later it leads in %+v, want a leadership after %d", next, leadership.Term)
		}
	})
}

func TestASuspendedHostDoesNotLeadWhenItWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		e.Lead(nil)
		synctest.Wait()
		if !e.Leading() {
			t.Fatal("does not lead")
		}
		e.manager.clock.suspended.Store(int64(9 * time.Second)) // what check does where there is a boot-time clock
		if e.Leading() {
			t.Error("leads at its first instruction after 9 s of sleep")
		}
	})
}

func TestASetBackWallClockStillShowsASuspension(t *testing.T) {
	c := newClock()
	c.jumped(-int64(time.Hour))        // set back by an hour
	c.jumped(-int64(50 * time.Minute)) // and the machine was suspended for ten minutes
	if ahead := time.Duration(c.ahead.Load()); ahead != 10*time.Minute {
		t.Errorf("a holder believes that %v have passed, want 10m0s", ahead)
	}
}

func TestADetectedSuspensionCancelsTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := alone(t, memory.New().Backend(), Options{})
		l, err := e.Campaign(t.Context())
		noError(t, err)
		ctx := l.Context()
		e.manager.clock.jumped(int64(time.Hour)) // as Leading detects it
		synctest.Wait()                          // no time passes
		if ctx.Err() == nil {
			t.Error("not leading, but the context is not cancelled before a timer fires")
		}
		l.Resign(t.Context())
	})
}

// A process that was stopped past its deadline (SIGSTOP, a debugger, a frozen container) reports
// exactly that. It does not report an unreachable store: it has not called the store.
func TestAStoppedProcessDoesNotBlameTheStore(t *testing.T) {
	for what, c := range map[string]struct {
		step time.Duration // between two steps, after the renewal that hangs
		want Reason
	}{
		"the store hangs":        {time.Second, ReasonUnreachable},
		"the process is stopped": {time.Minute, ReasonDeadline},
	} {
		m, e := machineFor(t, backend.Guarantees{Poll: true})
		observes(t, m, time.Second, backend.Lease{Election: "jobs"})
		m.step(time.Second, reply{call: m.inFlight[callAcquire], answers: []backend.Answer{m.granted(1)}})
		if e.phase != phaseLeading {
			t.Fatalf("%s: not elected", what)
		}
		now := m.next()
		for m.inFlight[callRenew] == nil {
			now = m.next()
			m.step(now, tick{})
		}
		var out []action
		for now < 3*time.Minute && e.phase == phaseLeading {
			if now += c.step; c.step < m.CallTimeout {
				now = min(now, max(m.next(), now-c.step+time.Millisecond)) // its timer fires
			}
			if call := m.inFlight[callRenew]; call != nil && now >= call.sent+call.timeout {
				out = append(out, slices.Clone(m.step(now, reply{call: call, err: backend.ErrUnavailable}))...)
			}
			out = append(out, slices.Clone(m.step(now, tick{}))...)
		}
		for range 3 { // the first steps after it continues
			out = append(out, slices.Clone(m.step(now, tick{}))...)
			now += time.Millisecond
		}
		got := Reason("none")
		for _, a := range out {
			switch {
			case a.kind == doEnd:
				got = a.reason
			case a.kind == doEvent && a.state.kind == Unknown && c.want == ReasonDeadline:
				t.Errorf("%s: watchers are told %q when it continues", what, a.state.reason)
			case a.kind == doLogOutage && c.want == ReasonDeadline:
				t.Errorf("%s: the log says when it continues that calls fail: %v", what, a.err)
			}
		}
		if got != c.want {
			t.Errorf("%s: lost for %q, want %q", what, got, c.want)
		}
	}
}
