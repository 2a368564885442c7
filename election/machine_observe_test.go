package election

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// After a failover the record may name this process although the store granted the lease to another
// process, by a write that was lost. Then this process must observe it like any other lease.
func TestAnOwnRecordIsObservedIfTheStoreSaysSo(t *testing.T) {
	const watch = 15 * time.Second
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Version: "1 b after a", TTL: 10 * time.Second, ObserveFor: watch})
	if m.inFlight[callAcquire] != nil {
		t.Fatal("bids at once")
	}
	if at := m.bidAt(e); at != time.Second+watch {
		t.Errorf("bids at %v, want %v", at, time.Second+watch)
	}
}

func TestAnOwnRecordIsBidForAtOnce(t *testing.T) {
	m, _ := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Version: "1", TTL: 10 * time.Second})
	if m.inFlight[callAcquire] == nil {
		t.Error("does not bid")
	}
}

// An observation continues only while the lease is exactly the same.
func TestEveryChangeRestartsTheObservation(t *testing.T) {
	held := theirs(7, "1 server a")
	for what, change := range map[string]func(*backend.Lease){
		"renewal":            func(l *backend.Lease) { l.Version = "2 server a" },
		"another leadership": func(l *backend.Lease) { l.Term = 8 },
		"another server":     func(l *backend.Lease) { l.Version = "1 server b" },
		"a longer promise":   func(l *backend.Lease) { l.ObserveFor = 15 * time.Second },
	} {
		m, e := machineFor(t, backend.Guarantees{Poll: true})
		observes(t, m, time.Second, held)
		m.step(9*time.Second, tick{})
		next := held
		change(&next)
		observes(t, m, 9*time.Second, next)
		if want := 9*time.Second + next.ObserveFor; m.bidAt(e) != want {
			t.Errorf("%s: bids at %v, want %v", what, m.bidAt(e), want)
		}
	}
}

// A store that knows no age says when the lease was written by the clock of the holder's host, which may be hours behind.
func TestAWrongClockOfTheHolderMakesNoReadings(t *testing.T) {
	held := theirs(7, "1")
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, held)
	m.handleNotification(2 * time.Second)
	m.step(2*time.Second, tick{})
	held.Version, held.Age = "2", time.Hour
	observes(t, m, 2*time.Second, held)
	if e.readAt < time.Second+held.Renew {
		t.Errorf("reads at %v; want no reading before %v, when the next renewal may come", e.readAt, time.Second+held.Renew)
	}
}

// The store learns that the holder has crashed: the holder changes, the Version does not.
func TestAChangedHolderKeepsTheObservation(t *testing.T) {
	held := theirs(7, "1")
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, held)
	m.step(9*time.Second, tick{})
	gone := held // the store knows that the process crashed; the observation must continue
	gone.Holder, gone.TTL, gone.Renew, gone.End, gone.LastID = backend.Candidate{}, 0, 0, backend.Failed, "other"
	actions := observes(t, m, 9*time.Second, gone)
	if !slices.ContainsFunc(actions, func(a action) bool { return a.kind == doEvent && a.state.kind == Vacant }) {
		t.Errorf("watchers are not told that nobody leads: %+v", actions)
	}
	if at := m.bidAt(e); at != 11*time.Second {
		t.Errorf("bids at %v, want 11s: nothing was renewed", at)
	}
	if *e.observed != gone {
		t.Errorf("Observe would get %+v, want %+v: otherwise each reading reports the change again", *e.observed, gone)
	}
}

func TestAnOvertakenAnswerIsIgnored(t *testing.T) {
	for name, answered := range map[string]time.Duration{"later": 2 * time.Second, "in the instant of the reading": time.Second} {
		t.Run(name, func(t *testing.T) {
			m, e := machineFor(t, backend.Guarantees{Poll: true})
			observes(t, m, time.Second, backend.Lease{Election: "jobs"})
			bid := m.inFlight[callAcquire]
			e.readAt = time.Second
			m.advance(time.Second, e)
			m.step(time.Second, tick{})
			look := m.inFlight[callObserve]
			if bid == nil || look == nil {
				t.Fatal("no bid or no reading is under way")
			}
			m.step(answered, reply{call: bid, answers: []backend.Answer{{Outcome: backend.Refused, Lease: theirs(9, "9")}}})
			past := theirs(7, "7")
			past.Holder = backend.Candidate{ID: "past", Nonce: "gone"}
			for _, a := range m.step(answered+1, reply{call: look, changed: []backend.Lease{past}}) {
				if a.kind == doEvent {
					t.Errorf("S10: reports %v from an overtaken answer", a.state.event(a.e.name))
				}
			}
			if e.observed.Term != 9 {
				t.Errorf("S13: observes term %d, want 9", e.observed.Term)
			}
		})
	}
}

// One process has led them all, and gives them back. A candidate that was often passed over waits for one turn, and bids for
// all that are still free in one message.
func TestElectionsThatChangeTogetherHaveOneTurn(t *testing.T) {
	m, first := machineFor(t, backend.Guarantees{Poll: true})
	all, names := []*elec{first}, []string{"jobs", "mail", "sums", "logs"}
	for _, name := range names[1:] {
		e := &elec{name: name}
		m.step(0, join{e})
		m.step(0, campaign{e, modeAlways, workNone})
		all = append(all, e)
	}
	now := time.Second
	become := func(lease func(name string) backend.Lease) {
		now += time.Second
		for _, e := range all {
			e.readAt = now
			m.wake(e, now)
		}
		m.step(now, tick{})
		c, changed := m.inFlight[callObserve], []backend.Lease{}
		for _, name := range names {
			changed = append(changed, lease(name))
		}
		m.step(now, reply{call: c, changed: changed})
	}
	m.step(now, reply{call: m.inFlight[callObserve], changed: []backend.Lease{theirs(1, "1")}})
	for term := range uint64(8) {
		become(func(name string) backend.Lease {
			l := theirs(term+2, strconv.Itoa(int(term)+2))
			l.Election = name
			return l
		})
	}
	become(func(name string) backend.Lease { return backend.Lease{Election: name, Term: 9, Version: "free"} })
	for m.inFlight[callAcquire] == nil {
		now = m.next()
		m.step(now, tick{})
	}
	if n := len(m.inFlight[callAcquire].bids); first.turn == 0 || n != len(names) {
		t.Errorf("the turn is %v, and the first message has %d bids; want one with all %d", first.turn, n, len(names))
	}
}

// A store that shows an older term went back. Watchers hear of that, and never of the older term's leader.
func TestAnOlderTermIsReportedAndNotBelieved(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	now := time.Second
	reads := func(l backend.Lease) (told []Event) {
		now += time.Second
		e.readAt = now
		m.wake(e, now)
		m.step(now, tick{})
		for _, a := range observes(t, m, now, l) {
			if a.kind == doEvent {
				told = append(told, a.state.event(e.name))
			}
		}
		return told
	}
	observes(t, m, now, theirs(9, "9"))
	told := reads(theirs(4, "4"))
	isLeader := func(ev Event) bool { return ev.Kind == Elected }
	if len(told) == 0 || told[0].Kind != Notice || told[0].Reason != ReasonWentBack || slices.ContainsFunc(told, isLeader) {
		t.Errorf("after term 9 the store shows term 4, and watchers hear %v; want that it went back, and no leader", told)
	}
	if told = reads(theirs(10, "10")); len(told) != 1 || told[0].Kind != Elected || told[0].Term != 10 {
		t.Errorf("then it shows term 10, and watchers hear %v", told)
	}
}

// Two elections whose readings are due shortly after each other are read in one call. The second must
// not be read again when its own time comes during that call.
func TestAReadBeforeItIsDueIsNotRepeated(t *testing.T) {
	m, first := machineFor(t, backend.Guarantees{Poll: true})
	first.mode = modeNone
	observes(t, m, 0, backend.Lease{Election: first.name})
	second := &elec{name: "more jobs"}
	m.step(0, join{second})
	heartbeat := 0
	both := func(now, age time.Duration) {
		t.Helper()
		c := m.inFlight[callObserve]
		if c == nil {
			t.Fatalf("at %v nothing is read", now)
		}
		var changed []backend.Lease
		for i, l := range c.leases {
			heartbeat++
			changed = append(changed, backend.Lease{Election: l.Election, Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 7, Version: strconv.Itoa(heartbeat),
				TTL: m.TTL, Renew: m.RenewEvery, ObserveFor: m.TTL, Age: time.Duration(1-i) * age})
		}
		m.step(now, reply{call: c, changed: changed})
	}
	both(0, 0) // the second one alone, for the first time
	m.step(m.wakes[first.index], tick{})
	both(m.wakes[first.index], 0)
	m.handleNotification(time.Minute)
	m.step(time.Minute, tick{})
	const apart = 10 * time.Millisecond
	both(time.Minute, apart)
	due := m.wakes[first.index]
	m.step(due, tick{})
	if c := m.inFlight[callObserve]; c == nil || len(c.leases) != 2 {
		t.Fatalf("at %v both should be read: %+v", due, c)
	}
	m.step(due+apart, tick{})
	both(due+apart, 0)
	if c := m.inFlight[callObserve]; c != nil {
		t.Errorf("read again right away: %v", c.leases)
	}
}
