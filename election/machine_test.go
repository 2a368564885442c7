package election

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func machineFor(t *testing.T, g backend.Guarantees) (*machine, *elec) {
	t.Helper()
	g.Name, g.MinTTL = "test", time.Millisecond
	o, err := (&Options{ID: "me"}).withDefaults(g)
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(o, g, backend.Candidate{ID: "me", Nonce: "mine"}, rand.New(rand.NewPCG(1, 2)), 0)
	e := &elec{name: "jobs"}
	m.step(0, join{e})
	m.step(0, campaign{e, modeAlways, false, false})
	return m, e
}

// observes hands the machine the answer to its Observe.
func observes(t *testing.T, m *machine, now time.Duration, l backend.Lease) []action {
	t.Helper()
	c := m.flying[callObserve]
	if c == nil {
		t.Fatal("no Observe is under way")
	}
	return m.step(now, reply{call: c, changed: []backend.Lease{l}})
}

// After a fail-over the record may name us although somebody else was granted the
// lease, by a write that was lost. Then it is watched like anybody's.
func TestALeftoverOfOursIsWatchedIfTheStoreSaysSo(t *testing.T) {
	const watch = 15 * time.Second
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Beat: 1, TTL: 10 * time.Second, Watch: watch, Ref: "b after a"})
	if m.flying[callAcquire] != nil {
		t.Fatal("bids at once")
	}
	if at := m.bidAt(e); at != time.Second+watch {
		t.Errorf("bids at %v, want %v", at, time.Second+watch)
	}
}

func TestALeftoverOfOursIsBidForAtOnce(t *testing.T) {
	m, _ := machineFor(t, backend.Guarantees{Poll: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Beat: 1, TTL: 10 * time.Second})
	if m.flying[callAcquire] == nil {
		t.Error("does not bid")
	}
}

// A watch survives only what is exactly the same.
func TestAWatchBeginsAnewWithEveryChange(t *testing.T) {
	held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 7, Beat: 1,
		TTL: 10 * time.Second, Renew: 3 * time.Second, Watch: 10 * time.Second, Ref: "server a"}
	for what, change := range map[string]func(*backend.Lease){
		"renewal":          func(l *backend.Lease) { l.Beat = 2 },
		"another reign":    func(l *backend.Lease) { l.Term = 8 },
		"another server":   func(l *backend.Lease) { l.Ref = "server b" },
		"a longer promise": func(l *backend.Lease) { l.Watch = 15 * time.Second },
	} {
		m, e := machineFor(t, backend.Guarantees{Poll: true})
		observes(t, m, time.Second, held)
		m.step(9*time.Second, tick{})
		next := held
		change(&next)
		observes(t, m, 9*time.Second, next)
		if want := 9*time.Second + next.Watch; m.bidAt(e) != want {
			t.Errorf("%s: bids at %v, want %v", what, m.bidAt(e), want)
		}
	}
}

// The answer to a bid may come after the grant was observed.
func TestAGrantIsAWinThoughItWasSeenFirst(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Push: true})
	free := backend.Lease{Election: "jobs"}
	observes(t, m, time.Second, free)
	bid := m.flying[callAcquire]
	granted := backend.Lease{Election: "jobs", Holder: m.me, Term: 7, Beat: 1, TTL: 10 * time.Second}
	e.lookAt = time.Second
	m.step(1500*time.Millisecond, tick{})
	if m.flying[callObserve] == nil {
		e.lookAt = 0
		m.settle(1500*time.Millisecond, e)
		m.dispatch(1500 * time.Millisecond)
	}
	observes(t, m, 1600*time.Millisecond, granted)
	m.step(2*time.Second, reply{call: bid, answers: []backend.Answer{{Lease: granted, Outcome: backend.Granted, Trust: 10 * time.Second}}})
	if !e.leading {
		t.Error("the grant was not taken for a win")
	}
	if want := bid.sent + 10*time.Second - m.Margin; e.until != want {
		t.Errorf("trusted until %v, want %v: from the sending", e.until, want)
	}
}

// A locked row or a lost answer must not cost a challenger its watch.
func TestABidWithoutAnOutcomeIsRepeatedSoonAndTheWatchGoesOn(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	held := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: "other", Nonce: "theirs"}, Term: 7, Beat: 1,
		TTL: 10 * time.Second, Renew: 3 * time.Second, Watch: 10 * time.Second}
	observes(t, m, time.Second, held)
	for now := time.Second; m.flying[callAcquire] == nil; now = m.next() {
		if now > 12*time.Second {
			t.Fatal("does not bid")
		}
		m.step(now, tick{})
		if c := m.flying[callObserve]; c != nil {
			m.step(now, reply{call: c})
		}
	}
	bid := m.flying[callAcquire]
	m.step(bid.sent+time.Millisecond, reply{call: bid, answers: []backend.Answer{{Err: backend.ErrUnavailable}}})
	if m.flying[callRelease] != nil {
		t.Error("releases what it is about to bid for again")
	}
	if at := m.bidAt(e); at > bid.sent+time.Second {
		t.Errorf("bids again %v after the first bid", at-bid.sent)
	}

	m.step(bid.sent+2*time.Millisecond, suspend{e, true})
	c := m.flying[callRelease]
	if c == nil {
		t.Fatal("paused, and does not release what it may have been granted")
	}
	m.step(bid.sent+3*time.Millisecond, reply{call: c})
	m.step(bid.sent+4*time.Millisecond, suspend{e, false})
	if c := m.flying[callObserve]; c != nil {
		m.step(bid.sent+5*time.Millisecond, reply{call: c}) // nothing has changed
	}
	if at := m.bidAt(e); at > bid.sent+time.Second {
		t.Errorf("bids again %v after the first bid: the watch began anew", at-bid.sent)
	}
}

func TestAGrantThatWasOvertakenIsNoWin(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Push: true})
	observes(t, m, time.Second, backend.Lease{Election: "jobs"})
	bid := m.flying[callAcquire]
	e.maxTerm = 9 // another reign was seen while the answer was on its way
	m.step(2*time.Second, reply{call: bid, answers: []backend.Answer{{
		Lease: backend.Lease{Election: "jobs", Holder: m.me, Term: 7}, Outcome: backend.Granted, Trust: 10 * time.Second}}})
	if e.leading {
		t.Error("leads in a term that is over")
	}
}

func TestImpossibleTimingsAreNamedWithBothValues(t *testing.T) {
	g := backend.Guarantees{Name: "test", MinTTL: time.Second, MaxTTL: time.Minute, Margin: 100 * time.Millisecond}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{TTL: 500 * time.Millisecond}, "TTL is 500ms, the least that backend test can keep is 1s"},
		{Options{TTL: time.Hour}, "TTL is 1h0m0s, the greatest that backend test can keep is 1m0s"},
		{Options{TTL: -1}, "TTL is -1ns, must be at least 1ns"},
		{Options{TTL: 9 * time.Second, RenewEvery: 6 * time.Second}, "must be less than TTL = 9s"},
		{Options{TTL: 9 * time.Second, Margin: time.Millisecond}, "Margin is 1ms, must be at least 450ms"},
		{Options{TTL: time.Second, Margin: 60 * time.Millisecond}, "Margin is 60ms, backend test needs at least 100ms"},
		{Options{ID: "a\nb"}, "control character"},
		{Options{Silence: -time.Second}, "Silence is -1s, must be at least 0s"},
	} {
		_, err := c.o.withDefaults(g)
		if backend.Class(err) != backend.ErrInvalid || !contains(err, c.want) {
			t.Errorf("%+v: got %v, want an invalid error with %q", c.o, err, c.want)
		}
	}
}
