package election

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func machineFor(t *testing.T, g backend.Guarantees) (*machine, *elec) {
	t.Helper()
	g.Name, g.MinTTL = "test", time.Millisecond
	o, err := (&Options{ID: "me"}).Complete(g)
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(o, g, backend.Candidate{ID: "me", Nonce: "mine"}, rand.New(rand.NewPCG(1, 2)), 0)
	e := &elec{name: "jobs"}
	m.step(0, join{e})
	m.step(0, campaign{e, modeAlways, workNone})
	return m, e
}

// observes hands the machine the answer to its Observe.
func observes(t *testing.T, m *machine, now time.Duration, l backend.Lease) []action {
	t.Helper()
	c := m.inFlight[callObserve]
	if c == nil {
		t.Fatal("no Observe is under way")
	}
	return m.step(now, reply{call: c, changed: []backend.Lease{l}})
}

// After a failover the record may name us although somebody else was granted the
// lease, by a write that was lost. Then it is watched like anybody's.
func TestAnOwnRecordIsObservedIfTheStoreSaysSo(t *testing.T) {
	const watch = 15 * time.Second
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Heartbeat: 1, TTL: 10 * time.Second, ObserveFor: watch, Ref: "b after a"})
	if m.inFlight[callAcquire] != nil {
		t.Fatal("bids at once")
	}
	if at := m.bidAt(e); at != time.Second+watch {
		t.Errorf("bids at %v, want %v", at, time.Second+watch)
	}
}

func TestAnOwnRecordIsBidForAtOnce(t *testing.T) {
	m, _ := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Heartbeat: 1, TTL: 10 * time.Second})
	if m.inFlight[callAcquire] == nil {
		t.Error("does not bid")
	}
}

// A watch survives only what is exactly the same.
func TestEveryChangeRestartsTheObservation(t *testing.T) {
	held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 7, Heartbeat: 1,
		TTL: 10 * time.Second, Renew: 3 * time.Second, ObserveFor: 10 * time.Second, Ref: "server a"}
	for what, change := range map[string]func(*backend.Lease){
		"renewal":            func(l *backend.Lease) { l.Heartbeat = 2 },
		"another leadership": func(l *backend.Lease) { l.Term = 8 },
		"another server":     func(l *backend.Lease) { l.Ref = "server b" },
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

// Who waits in a store's queue asks nothing while it stands there. When somebody else's
// turn comes instead it asks once, since its place may be gone; what a holder renews is no
// reason.
func TestAQueuedCandidateBidsAgainAfterAGrant(t *testing.T) {
	held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "java"}, Term: 7, Heartbeat: 1, ObserveFor: backend.ExpiresInStore, Ref: "a"}
	for what, c := range map[string]struct {
		change func(*backend.Lease)
		bids   bool
	}{
		"renewal":                    {func(l *backend.Lease) { l.Heartbeat = 2 }, false},
		"another node, the same id":  {func(l *backend.Lease) { l.Heartbeat, l.Ref = 2, "b" }, true},
		"another id":                 {func(l *backend.Lease) { l.Heartbeat, l.Holder.ID = 2, "scala" }, true},
		"another leadership of ours": {func(l *backend.Lease) { l.Heartbeat, l.Term = 2, 8 }, true},
	} {
		m, _ := machineFor(t, backend.Guarantees{Push: true})
		refused := func(now time.Duration, l backend.Lease) {
			t.Helper()
			bid := m.inFlight[callAcquire]
			if bid == nil {
				t.Fatalf("%s: no bid is under way at %v", what, now)
			}
			m.step(now, reply{call: bid, answers: []backend.Answer{{Lease: l, Outcome: backend.Refused}}})
			if m.inFlight[callAcquire] != nil {
				t.Fatalf("%s: bids again at once, after an answer at %v that it waits in the queue", what, now)
			}
		}
		observes(t, m, time.Second, held)
		refused(2*time.Second, held)
		next := held
		c.change(&next)
		m.step(20*time.Second, tick{})
		observes(t, m, 20*time.Second, next)
		if bids := m.inFlight[callAcquire] != nil; bids != c.bids {
			t.Errorf("%s: bids: %v, want %v", what, bids, c.bids)
		}
		if c.bids {
			after := next
			after.Heartbeat++ // what the refusal shows may be news as well
			refused(21*time.Second, after)
		}
	}
}

// The answer to a bid may come after the grant was observed.
func TestAChangedHolderKeepsTheObservation(t *testing.T) {
	held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 7, Heartbeat: 1,
		TTL: 10 * time.Second, Renew: 3 * time.Second, ObserveFor: 10 * time.Second}
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, held)
	m.step(9*time.Second, tick{})
	gone := held // its process has died, which the store knows, and it is to be watched on
	gone.Holder, gone.TTL, gone.Renew, gone.End, gone.LastID, gone.LastNonce = backend.Candidate{}, 0, 0, backend.Failed, "other", "theirs"
	actions := observes(t, m, 9*time.Second, gone)
	if !slices.ContainsFunc(actions, func(a action) bool { return a.kind == doEvent && a.state.kind == Vacant }) {
		t.Errorf("watchers are not told that nobody leads: %+v", actions)
	}
	if at := m.bidAt(e); at != 11*time.Second {
		t.Errorf("bids at %v, want 11s: nothing was renewed", at)
	}
	if *e.observed != gone {
		t.Errorf("the store would be asked about %+v, want %+v, or it says so again for ever", *e.observed, gone)
	}
}

func TestAGrantCountsThoughItWasObservedFirst(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Push: true})
	free := backend.Lease{Election: "jobs"}
	observes(t, m, time.Second, free)
	bid := m.inFlight[callAcquire]
	granted := backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Heartbeat: 1, TTL: 10 * time.Second}
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
		t.Error("the grant was not taken for a win")
	}
	if want := bid.sent + 10*time.Second - m.ClockMargin; e.trustedUntil != want {
		t.Errorf("trusted until %v, want %v: from the sending", e.trustedUntil, want)
	}
}

// A locked row or a lost answer must not cost a challenger its watch.
func TestABidWithoutOutcomeKeepsTheObservation(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 7, Heartbeat: 1,
		TTL: 10 * time.Second, Renew: 3 * time.Second, ObserveFor: 10 * time.Second}
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
		t.Error("releases what it is about to bid for again")
	}
	if at := m.bidAt(e); at > bid.sent+time.Second {
		t.Errorf("bids again %v after the first bid", at-bid.sent)
	}

	m.step(bid.sent+2*time.Millisecond, suspend{e, true})
	c := m.inFlight[callRelease]
	if c == nil {
		t.Fatal("paused, and does not release what it may have been granted")
	}
	m.step(bid.sent+3*time.Millisecond, reply{call: c})
	m.step(bid.sent+4*time.Millisecond, suspend{e, false})
	if c := m.inFlight[callObserve]; c != nil {
		m.step(bid.sent+5*time.Millisecond, reply{call: c}) // nothing has changed
	}
	if at := m.bidAt(e); at > bid.sent+time.Second {
		t.Errorf("bids again %v after the first bid: the watch began anew", at-bid.sent)
	}
}

func TestAnOvertakenGrantIsNoWin(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Push: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs"})
	bid := m.inFlight[callAcquire]
	e.highestTerm = 9 // another leadership was seen while the answer was on its way
	actions := m.step(2*time.Second, reply{call: bid, answers: []backend.Answer{{
		Lease: backend.Lease{Election: "jobs", Holder: m.me, Term: 7}, Outcome: backend.Granted, ValidFor: 10 * time.Second}}})
	if e.phase == phaseLeading {
		t.Error("leads in a term that is over")
	}
	for _, a := range actions {
		if a.kind == doEvent {
			t.Errorf("S10: told %v, though the store has kept its promise", a.state.event(a.e.name))
		}
	}
}

func TestAnOvertakenAnswerIsIgnored(t *testing.T) {
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
	other := backend.Candidate{ID: "other", Nonce: "theirs"}
	m.step(2*time.Second, reply{call: bid, answers: []backend.Answer{{Outcome: backend.Refused,
		Lease: backend.Lease{Election: "jobs", Holder: other, Term: 9, Heartbeat: 9, TTL: 10 * time.Second, ObserveFor: 10 * time.Second}}}})
	for _, a := range m.step(2*time.Second+1, reply{call: look, changed: []backend.Lease{
		{Election: "jobs", Holder: backend.Candidate{ID: "past", Nonce: "gone"}, Term: 7, Heartbeat: 7, TTL: 10 * time.Second, ObserveFor: 10 * time.Second}}}) {
		if a.kind == doEvent {
			t.Errorf("S10: told %v by an answer that newer news had overtaken", a.state.event(a.e.name))
		}
	}
	if e.observed.Term != 9 {
		t.Errorf("S13: watches term %d, want 9", e.observed.Term)
	}
}

func TestTryIgnoresAnOvertakenAnswer(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 9, Heartbeat: 9, TTL: 10 * time.Second, ObserveFor: 10 * time.Second}
	observes(t, m, 3*time.Second, held)
	m.step(3*time.Second, withdraw{e, true})
	m.step(3*time.Second, campaign{e, modeTry, workCaller})
	held.Term, held.Heartbeat = 7, 7
	m.observe(4*time.Second, e, &held, 2*time.Second) // the answer to a bid of before
	if e.observed.Term != 9 || e.reported.kind != Elected {
		t.Errorf("S10: watches term %d and has told %v", e.observed.Term, e.reported.event(e.name))
	}
}

// A clock that is coarse, or virtual, does not tell the order of what happens at
// one of its instants.
func TestTryIgnoresAReadSentAtTheSameInstant(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	m.step(0, withdraw{e, true})
	held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 9, Heartbeat: 9, TTL: 10 * time.Second, ObserveFor: 10 * time.Second}
	observes(t, m, time.Second, held)
	e.readAt = 2 * time.Second
	m.timers.set(e, e.readAt)
	m.step(2*time.Second, tick{})
	before := m.inFlight[callObserve]
	m.step(2*time.Second, campaign{e, modeTry, workCaller})
	m.step(2*time.Second, reply{call: before, changed: []backend.Lease{held}})
	if e.mode != modeTry {
		t.Fatal("gave up by what was seen before the attempt")
	}
	m.step(m.next(), tick{})
	observes(t, m, m.next(), backend.Lease{Election: "jobs", Term: 9, Heartbeat: 10})
	if m.inFlight[callAcquire] == nil {
		t.Error("does not bid for a lease that is free")
	}
}

// It would be over before the holder has made room, for nobody.
func TestTryDoesNotAcceptANomination(t *testing.T) {
	for _, try := range []bool{false, true} {
		m, e := machineFor(t, backend.Guarantees{Poll: true})
		held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 9, Heartbeat: 9, TTL: 10 * time.Second, ObserveFor: 10 * time.Second}
		observes(t, m, time.Second, held)
		if try {
			m.step(time.Second, withdraw{e, true})
			e.readAt = time.Second
			m.timers.set(e, e.readAt)
			m.step(time.Second, tick{})
			m.step(time.Second, campaign{e, modeTry, workCaller})
		} else {
			m.step(e.readAt, tick{})
		}
		held.Request = backend.Request{Election: "jobs", Term: 9, Kind: backend.Nominate, ID: m.me.ID}
		observes(t, m, 2*time.Second, held)
		if asks := m.inFlight[callRequest] != nil; asks == try {
			t.Errorf("attempt %v: accepts: %v", try, asks)
		}
	}
}

func TestABidExceedsEveryObservedTerm(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 9, Heartbeat: 1, TTL: 10 * time.Second, ObserveFor: 10 * time.Second})
	m.step(e.readAt, tick{})
	observes(t, m, e.readAt, backend.Lease{Election: "jobs", Term: 4, Heartbeat: 2}) // the store was restored
	bid := m.inFlight[callAcquire]
	if bid == nil {
		t.Fatal("no bid is under way")
	}
	if bid.bids[0].MinTerm != 9 {
		t.Errorf("S4: bids above term %d, but has seen 9", bid.bids[0].MinTerm)
	}
}

// wins makes the machine lead in term 7 and renew.
func wins(t *testing.T, m *machine, e *elec) (renewal *call) {
	t.Helper()
	observes(t, m, time.Second, backend.Lease{Election: "jobs"})
	m.step(time.Second, reply{call: m.inFlight[callAcquire], answers: []backend.Answer{{
		Lease: backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Heartbeat: 1, TTL: 10 * time.Second}, Outcome: backend.Granted, ValidFor: 10 * time.Second}}})
	m.step(e.renewAt, tick{})
	if renewal = m.inFlight[callRenew]; e.phase != phaseLeading || renewal == nil {
		t.Fatal("does not lead and renew")
	}
	return renewal
}

func TestARequestOfAnotherTermIsIgnored(t *testing.T) {
	for _, w := range []backend.Request{
		{Election: "jobs", Term: 6, Kind: backend.Accept, ID: "other", Nonce: "theirs"},
		{Election: "jobs", Term: 8, Kind: backend.Accept, ID: "other", Nonce: "theirs"},
	} {
		m, e := machineFor(t, backend.Guarantees{Poll: true})
		renewal := wins(t, m, e)
		m.step(renewal.sent+time.Millisecond, reply{call: renewal, answers: []backend.Answer{{
			Lease: backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Heartbeat: 2, TTL: 10 * time.Second, Request: w}, Outcome: backend.Granted, ValidFor: 10 * time.Second}}})
		if e.phase != phaseLeading {
			t.Errorf("the leader of term 7 steps down for a request of term %d", w.Term)
		}
	}
}

func TestAnAnswerFromBeforeALeadershipIsIgnored(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	renewal := wins(t, m, e)
	m.step(renewal.sent+time.Millisecond, reply{call: renewal, answers: []backend.Answer{{Outcome: backend.Refused}}})
	m.step(e.trustedUntil, tick{})
	released := e.trustedUntil + time.Second
	m.step(released, reply{call: m.inFlight[callRelease]})
	m.observe(released+1, e, &backend.Lease{Election: "jobs", Term: 5, Heartbeat: 5}, released-time.Second)
	if e.hasObserved || e.reported.reason == ReasonWentBack {
		t.Errorf("S10: takes term 5 for news after its own leadership of term 7: %v", e.reported.event(e.name))
	}
}

func TestTheLeaseIsReadAgainAfterALeadership(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	renewal := wins(t, m, e)
	m.step(renewal.sent+time.Millisecond, reply{call: renewal, answers: []backend.Answer{{Outcome: backend.Refused}}})
	m.step(e.trustedUntil, tick{})
	now := e.trustedUntil + time.Second
	m.step(now, reply{call: m.inFlight[callRelease]})
	if m.inFlight[callAcquire] != nil {
		t.Error("bids over what it saw before its own leadership")
	}
	if m.inFlight[callObserve] == nil {
		t.Error("does not look")
	}
}

func TestImpossibleOptionsAreReportedWithBothValues(t *testing.T) {
	g := backend.Guarantees{Name: "test", MinTTL: time.Second, MaxTTL: time.Minute, MaxSession: 100 * time.Second, ClockMargin: 100 * time.Millisecond}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{TTL: 500 * time.Millisecond}, "TTL is 500ms, the least that backend test can keep is 1s"},
		{Options{TTL: time.Hour}, "TTL is 1h0m0s, the greatest that backend test can keep is 1m0s"},
		{Options{TTL: -1}, "TTL is -1ns, must be at least 1ns"},
		{Options{TTL: 9 * time.Second, RenewEvery: 6 * time.Second}, "must be less than TTL = 9s"},
		{Options{CallTimeout: 6 * time.Second}, "= 3.333s + 6s + 1.667s = 11s, must be less than TTL = 10s"},
		{Options{TTL: time.Minute, RenewEvery: 21 * time.Second}, "TTL + 2 * RenewEvery = 1m0s + 2 * 21s = 1m42s, must be 1m40s at most on backend test"},
		{Options{TTL: 9 * time.Second, ClockMargin: time.Millisecond}, "ClockMargin is 1ms, must be at least 450ms"},
		{Options{TTL: time.Second, ClockMargin: 60 * time.Millisecond}, "ClockMargin is 60ms, backend test needs at least 100ms"},
		{Options{ID: "a\nb"}, "control character"},
		{Options{FailoverDelay: -time.Second}, "FailoverDelay is -1s, must be at least 0s"},
	} {
		_, err := c.o.Complete(g)
		if backend.Class(err) != backend.ErrInvalid || !contains(err, c.want) {
			t.Errorf("%+v: got %v, want an invalid error with %q", c.o, err, c.want)
		}
	}
}

// Package config knows options by other names.
func TestOptionErrorsCanUseOtherNames(t *testing.T) {
	o := Options{TTL: 9 * time.Second, RenewEvery: 6 * time.Second}
	_, err := o.Complete(backend.Guarantees{MinTTL: 1})
	wrong, ok := errors.AsType[*OptionError](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	if got := wrong.Options(); !slices.Equal(got, []string{"RenewEvery", "CallTimeout", "ClockMargin", "TTL"}) {
		t.Errorf("it is about %q", got)
	}
	want := "renewevery + calltimeout + clockmargin = 6s + 2.25s + 1.5s = 9.75s, must be less than ttl = 9s"
	if got := wrong.Text(strings.ToLower); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Elections whose readings are due one shortly after the other are read together,
// and then not again because the moment of the second one came meanwhile.
func TestAReadBeforeItIsDueIsNotRepeated(t *testing.T) {
	m, first := machineFor(t, backend.Guarantees{Poll: true})
	first.mode = modeNone
	observes(t, m, 0, backend.Lease{Election: first.name})
	second := &elec{name: "more jobs"}
	m.step(0, join{second})
	heartbeat := uint64(0)
	both := func(now, age time.Duration) {
		t.Helper()
		c := m.inFlight[callObserve]
		if c == nil {
			t.Fatalf("at %v nothing is read", now)
		}
		var changed []backend.Lease
		for i, l := range c.leases {
			heartbeat++
			changed = append(changed, backend.Lease{Election: l.Election, Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 7, Heartbeat: heartbeat,
				TTL: m.TTL, Renew: m.RenewEvery, ObserveFor: m.TTL, Age: time.Duration(1-i) * age})
		}
		m.step(now, reply{call: c, changed: changed})
	}
	both(0, 0) // the second one alone, for the first time
	m.step(first.wake, tick{})
	both(first.wake, 0)
	m.handleNotification(time.Minute)
	m.step(time.Minute, tick{})
	const apart = 10 * time.Millisecond
	both(time.Minute, apart)
	due := first.wake
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

// A bid that is on its way when the manager closes may be granted: its answer is waited for,
// though what an earlier bid may have been granted has run out.
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
		t.Fatal("it has left while a bid is on its way")
	}
	m.step(now, reply{call: bid, answers: []backend.Answer{{Lease: backend.Lease{Election: "jobs", Holder: m.me, Term: 1}, Outcome: backend.Granted, ValidFor: m.TTL}}})
	if m.inFlight[callRelease] == nil {
		t.Error("what was granted at the end is not released")
	}
}
