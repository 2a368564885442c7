package election

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// Each of these was a defect once.

func manage(t *testing.T, b backend.Backend, o Options) *Manager {
	t.Helper()
	m, err := New(b, &o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func joined(t *testing.T, m *Manager, name string) *Election {
	t.Helper()
	e, err := m.Join(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// inBubble runs f in virtual time; whatever it leaves running fails the test.
func inBubble(t *testing.T, what string, f func(t *testing.T)) {
	t.Run(what, func(t *testing.T) { synctest.Test(t, f) })
}

func closes(t *testing.T, managers ...*Manager) {
	t.Helper()
	for _, m := range managers {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Second)
}

func TestResignEndsOneLeadershipOnly(t *testing.T) {
	wait := func(ctx context.Context, _ *Leadership) error { <-ctx.Done(); return nil }

	inBubble(t, "a handle of Lead(nil) resigns its leadership", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		e.Lead(nil)
		synctest.Wait()
		l := e.Leadership()
		ctx, cancel := soon()
		defer cancel()
		if err := l.Resign(ctx); err != nil || l.Leading() {
			t.Errorf("Resign: %v, still leading: %v", err, l.Leading())
		}
		closes(t, m)
	})
	inBubble(t, "an old handle does not resign a newer leadership", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		e.Lead(wait)
		synctest.Wait()
		old := e.Leadership()
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		next := e.Leadership()
		if next == nil || next.Term <= old.Term {
			t.Fatal("not elected again")
		}
		if err := old.Resign(t.Context()); err != nil || !next.Leading() {
			t.Errorf("Resign of a leadership that is over: %v, the next one goes on: %v", err, next.Leading())
		}
		closes(t, m)
	})
	inBubble(t, "a second Resign returns at once", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		first, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := soon()
		defer cancel()
		if err := first.Resign(ctx); err != nil {
			t.Error(err)
		}
		closes(t, m)
	})
	inBubble(t, "a candidate whose bid is on its way has nothing to resign", func(t *testing.T) {
		m := manage(t, slow{memory.New().Backend()}, Options{})
		e := joined(t, m, "x")
		e.Lead(nil)
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := soon()
		defer cancel()
		if err := e.Resign(ctx); err != nil {
			t.Error(err)
		}
		closes(t, m)
	})
}

// slow answers bids late.
type slow struct{ backend.Backend }

func (b slow) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	a, err := b.Backend.Acquire(ctx, bids)
	time.Sleep(300 * time.Millisecond)
	return a, err
}

func TestAWatcherOfALeftElectionEnds(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		if err := e.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.Watch(func(Event) {})
		closes(t, m)
	})
}

func TestWatchAndCloseDoNotRace(t *testing.T) {
	for range 300 {
		m := manage(t, memory.New().Backend(), Options{})
		joined(t, m, "x")
		done := make(chan struct{})
		go func() { m.Watch(func(Event) {}); close(done) }()
		closes(t, m)
		<-done
	}
}

func TestAPausedManagerPausesLaterJoins(t *testing.T) {
	inBubble(t, "", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		m.Pause()
		e := joined(t, m, "x")
		e.Lead(nil)
		time.Sleep(time.Minute)
		if e.Leading() {
			t.Error("leads")
		}
		m.Resume()
		time.Sleep(time.Minute)
		if !e.Leading() {
			t.Error("does not lead after Resume")
		}
		closes(t, m)
	})
}

// A slow watcher of thousands of elections once held the loop up until all of
// them were lost.
func TestASlowWatcherDoesNotBlockTheLoop(t *testing.T) {
	const n = 3000
	m := manage(t, memory.New().Backend(), Options{})
	elections := make([]*Election, n)
	for i := range elections {
		elections[i] = joined(t, m, fmt.Sprint("election/number/", i))
		elections[i].Lead(nil)
	}
	for _, e := range elections {
		for !e.Leading() {
			m.send(func(time.Duration) input { return nil })
		}
	}
	hold := make(chan struct{})
	m.Watch(func(Event) { <-hold })
	began := time.Now()
	m.send(func(time.Duration) input { return nil }) // the loop is free again
	if d := time.Since(began); d > 8*time.Second {   // of a TTL of ten; a busy machine may stand still
		t.Errorf("the loop was busy for %v", d)
	}
	close(hold)
	closes(t, m)
}

func TestAWallClockStepCostsOneLeadershipAtMost(t *testing.T) {
	inBubble(t, "where there is no boot-time clock", func(t *testing.T) {
		m := manage(t, memory.New().Backend(), Options{})
		e := joined(t, m, "x")
		e.Lead(nil)
		time.Sleep(time.Minute)
		m.clock.ahead.Store(int64(time.Hour)) // what check does then
		if e.Leading() {
			t.Error("trusts a lease that the wall clock says has run out")
		}
		time.Sleep(time.Minute)
		if !e.Leading() {
			t.Error("a minute later it does not lead")
		}
		closes(t, m)
	})
}

func TestHugeDurationsInTheStoreDoNoHarm(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	plant := func(t *testing.T, store *memory.Store, ttl, renew time.Duration) (backend.Backend, backend.Lease) {
		raw := store.Backend()
		a, err := raw.Acquire(t.Context(), []backend.Bid{{Election: "x", Candidate: backend.Candidate{ID: "r", Nonce: backend.NewNonce()}, TTL: ttl, Renew: renew, Expected: backend.Lease{Election: "x"}}})
		if err != nil || a[0].Outcome != backend.Granted {
			t.Fatal(a, err)
		}
		return raw, a[0].Lease
	}
	inBubble(t, "an enormous TTL", func(t *testing.T) {
		store := memory.New()
		plant(t, store, 1<<63-1, 3*time.Second)
		m := manage(t, polled{store.Backend()}, Options{})
		e := joined(t, m, "x")
		e.Lead(nil)
		time.Sleep(24 * time.Hour)
		if e.Leading() {
			t.Error("took over a lease of centuries within a day")
		}
		closes(t, m)
	})
	inBubble(t, "an enormous Renew", func(t *testing.T) {
		store := memory.New()
		raw, held := plant(t, store, century, century-time.Hour)
		m := manage(t, polled{store.Backend()}, Options{})
		e := joined(t, m, "x")
		e.Lead(nil)
		time.Sleep(time.Second)
		again := backend.Bid{Election: "x", Candidate: held.Holder, TTL: 10 * time.Second, Renew: 3 * time.Second, Expected: held}
		if a, err := raw.Acquire(t.Context(), []backend.Bid{again}); err != nil || a[0].Outcome != backend.Granted { // repaired, and then its holder dies
			t.Fatal(a, err)
		}
		time.Sleep(time.Minute)
		if !e.Leading() {
			t.Error("a minute after the last renewal of a lease of 10 s nobody leads")
		}
		closes(t, m)
	})
}

func TestAForgedTermIsIgnored(t *testing.T) {
	m, e := machineFor(t, backend.Guarantees{Poll: true})
	other := backend.Candidate{ID: "other", Nonce: "theirs"}
	observes(t, m, time.Second, backend.Lease{Election: "jobs", Holder: other, Term: 1<<63 + 5, Heartbeat: 1, TTL: 10 * time.Second, ObserveFor: 10 * time.Second})
	if e.reported.kind == Elected || e.highestTerm != 0 {
		t.Errorf("told %v, greatest term %d", e.reported.event(e.name), e.highestTerm)
	}
}

func TestAWaitingResignReturnsWhenTheManagerEnds(t *testing.T) {
	m := manage(t, memory.New().Backend(), Options{StepDownTimeout: time.Hour})
	e := joined(t, m, "x")
	stuck := make(chan struct{})
	defer close(stuck)
	started := make(chan struct{})
	e.Lead(func(context.Context, *Leadership) error { close(started); <-stuck; return nil })
	<-started
	done := make(chan error, 1)
	go func() { done <- e.Resign(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := m.Close(ctx); err == nil {
		t.Error("Close says that all is well while a lead function runs")
	}
	<-done // or the test hangs
}

func TestCallsOfAFailingStoreBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broken{Backend: polled{memory.New().Backend()}}
		m := manage(t, b, Options{})
		e := joined(t, m, "x")
		b.down.Store(true)
		e.Lead(nil)
		time.Sleep(time.Minute)
		if n := b.calls.Load(); n > 60 {
			t.Errorf("%d calls in a minute of outage", n)
		}
		b.down.Store(false)
		time.Sleep(20 * time.Second)
		if !e.Leading() {
			t.Error("does not lead after the outage")
		}
		closes(t, m)
	})
}

// polled is a store that must be polled: it tells nobody of changes.
type polled struct{ backend.Backend }

func (p polled) Guarantees() backend.Guarantees {
	g := p.Backend.Guarantees()
	g.Push, g.Poll = false, true
	return g
}

// broken answers with an error for each item, as the MySQL backend does.
type broken struct {
	backend.Backend
	down  atomic.Bool
	calls atomic.Int64
}

func (b *broken) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if !b.down.Load() {
		return b.Backend.Acquire(ctx, bids)
	}
	b.calls.Add(1)
	answers := make([]backend.Answer, len(bids))
	for i := range answers {
		answers[i].Err = backend.ErrUnavailable
	}
	return answers, backend.ErrUnavailable
}

func (b *broken) Release(ctx context.Context, held []backend.Held) error {
	if !b.down.Load() {
		return b.Backend.Release(ctx, held)
	}
	b.calls.Add(1)
	return backend.ErrUnavailable
}

// slowEyes is a store whose readings are under way for a second.
type slowEyes struct{ backend.Backend }

func (s slowEyes) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	changed, err = s.Backend.Observe(ctx, seen)
	time.Sleep(time.Second)
	return changed, err
}

func TestTryIgnoresAReadFromBeforeIt(t *testing.T) {
	inBubble(t, "a lease that was released while it was being read", func(t *testing.T) {
		store := memory.New()
		a, b := manage(t, store.Backend(), Options{}), manage(t, slowEyes{store.Backend()}, Options{})
		l, err := joined(t, a, "x").Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e := joined(t, b, "x") // its first reading is under way now, and says that a leads
		time.Sleep(time.Second / 2)
		ctx, cancel := soon()
		defer cancel()
		if err := l.Resign(ctx); err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if l, err := e.Try(ctx); err != nil || l == nil {
			t.Errorf("expected an attempt at a free lease to win, got %v, %v", l, err)
		}
		closes(t, a, b)
	})
}
