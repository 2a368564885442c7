package election

import (
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// A process that was stopped (SIGSTOP, a debugger, a frozen container) past its deadline is
// told so, and not that the store is unreachable: nobody has asked the store.
func TestAStoppedProcessDoesNotBlameTheStore(t *testing.T) {
	for what, c := range map[string]struct {
		step time.Duration // between two steps, from the renewal that hangs on
		want Reason
	}{
		"the store hangs":        {time.Second, ReasonUnreachable},
		"the process is stopped": {time.Minute, ReasonDeadline},
	} {
		m, e := machineFor(t, backend.Guarantees{Poll: true})
		observes(t, m, time.Second, backend.Lease{Election: "jobs"})
		m.step(time.Second, reply{call: m.inFlight[callAcquire], answers: []backend.Answer{{Lease: backend.Lease{Election: "jobs", Holder: m.me, Term: 1}, Outcome: backend.Granted, ValidFor: m.TTL}}})
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
				now = min(now, max(m.next(), now-c.step+time.Millisecond)) // its timer is heeded
			}
			if call := m.inFlight[callRenew]; call != nil && now >= call.sent+call.timeout {
				out = append(out, slices.Clone(m.step(now, reply{call: call, err: backend.ErrUnavailable}))...)
			}
			out = append(out, slices.Clone(m.step(now, tick{}))...)
		}
		for range 3 { // what it does next, on waking
			out = append(out, slices.Clone(m.step(now, tick{}))...)
			now += time.Millisecond
		}
		got := Reason("none")
		for _, a := range out {
			switch {
			case a.kind == doLose:
				got = a.reason
			case a.kind == doEvent && a.state.kind == Unknown && c.want == ReasonDeadline:
				t.Errorf("%s: watchers are told %q on waking", what, a.state.reason)
			}
		}
		if got != c.want {
			t.Errorf("%s: lost for %q, want %q", what, got, c.want)
		}
	}
}
