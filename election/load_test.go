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

func TestCallsOfAFailingStoreBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &failing{Backend: polled{memory.New().Backend()}}
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

// failing answers with an error for each item, as the MySQL backend does.
type failing struct {
	backend.Backend
	down  atomic.Bool
	calls atomic.Int64
}

func (b *failing) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
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

func (b *failing) Release(ctx context.Context, held []backend.Held) error {
	if !b.down.Load() {
		return b.Backend.Release(ctx, held)
	}
	b.calls.Add(1)
	return backend.ErrUnavailable
}

// A bid can be refused though the lease is free and stays so. mysqltable answers that way while clocks
// spring forward within a TTL.
func TestARefusedBidIsRepeatedOnlyAfterAPause(t *testing.T) {
	for what, why := range map[string]error{"unavailable": backend.ErrUnavailable, "denied": backend.ErrDenied, "the lease is free all the same": nil} {
		inBubble(t, what, func(t *testing.T) {
			s := &script{Backend: memory.New().Backend(), lag: time.Millisecond}
			s.acquire = func(_ context.Context, bids []backend.Bid) ([]backend.Answer, error) {
				return []backend.Answer{{Lease: bids[0].Expected, Outcome: backend.Refused, Err: why}}, nil
			}
			m := manage(t, s, Options{})
			joined(t, m, "x").Lead(nil)
			time.Sleep(10 * time.Second)
			if n := s.n[callAcquire].Load(); n > 30 {
				t.Errorf("%d bids in 10 s", n)
			}
			closes(t, m)
		})
	}
}

// A grant can be expired when its answer comes, because the store's session ends soon.
func TestAnExpiredGrantIsRepeatedOnlyAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{Backend: memory.New().Backend(), lag: time.Millisecond}
		s.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
			a, err := s.Backend.Acquire(ctx, bids)
			for i := range a {
				a[i].ValidFor = time.Second // less than ClockMargin
			}
			return a, err
		}
		m := manage(t, s, Options{})
		joined(t, m, "x").Lead(nil)
		time.Sleep(10 * time.Second)
		if n := s.n[callAcquire].Load(); n > 30 {
			t.Errorf("%d grants and %d releases in 10 s, and nobody led", n, s.n[callRelease].Load())
		}
		closes(t, m)
	})
}

// A notifier fires without a change. The store returns an election without a record at each reading,
// which must not count as a change.
func TestEmptyNotificationsMakeListenLessFrequent(t *testing.T) {
	for _, held := range []bool{true, false} {
		inBubble(t, fmt.Sprint("held ", held), func(t *testing.T) {
			store := memory.New()
			s := &script{Backend: store.Backend(), lag: time.Millisecond}
			s.listen = func(context.Context, []backend.Lease) error { time.Sleep(time.Millisecond); return nil }
			m := manage(t, s, Options{})
			joined(t, m, "x") // an observer
			other := manage(t, store.Backend(), Options{})
			e := joined(t, other, "x")
			if held {
				e.Lead(nil)
			}
			time.Sleep(10 * time.Second)
			if n := s.n[callListen].Load(); n > 100 {
				t.Errorf("%d listens and %d readings in 10 s", n, s.n[callObserve].Load())
			}
			closes(t, m, other)
		})
	}
}

// Failing renewals of many leases are repeated in one call, not one by one.
func TestFailingRenewalsStayBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		s := &script{Backend: memory.New().Backend(), lag: 100 * time.Microsecond}
		m := manage(t, s, Options{})
		for i := range n {
			joined(t, m, fmt.Sprint("e", i)).Lead(nil)
		}
		time.Sleep(time.Minute)
		before := s.n[callRenew].Load()
		time.Sleep(10 * time.Second)
		good := s.n[callRenew].Load() - before
		s.set(func() {
			s.renew = func(context.Context, []backend.Held) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
			s.acquire = func(context.Context, []backend.Bid) ([]backend.Answer, error) { return nil, backend.ErrUnavailable }
			s.observe = func(context.Context, []backend.Lease) ([]backend.Lease, error) {
				return nil, backend.ErrUnavailable
			}
			s.release = func(context.Context, []backend.Held) error { return backend.ErrUnavailable }
		})
		before = s.n[callRenew].Load()
		time.Sleep(10 * time.Second)
		bad := s.n[callRenew].Load() - before
		if bad > 20*good {
			t.Errorf("%d elections: %d calls of Renew in 10 s when all is well, %d in 10 s when they fail", n, good, bad)
		}
		s.set(func() { s.renew, s.acquire, s.observe, s.release = nil, nil, nil, nil })
		time.Sleep(time.Minute)
		closes(t, m)
	})
}

// The promise "live": a leader within TTL + RenewEvery + CallTimeout after the last fault ended.
func TestTheFailoverBoundHoldsAfterADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worst := time.Duration(0)
		for i := range 40 {
			store := memory.New()
			plant(t, store, 10*time.Second, 3*time.Second)
			s := &script{Backend: polled{store.Backend()}}
			s.observe = func(context.Context, []backend.Lease) ([]backend.Lease, error) {
				return nil, backend.ErrDenied
			}
			m := manage(t, s, Options{})
			e := joined(t, m, "x")
			e.Lead(nil)
			time.Sleep(time.Minute + time.Duration(i)*time.Second/4)
			s.set(func() { s.observe = nil })
			began := time.Now()
			for !e.Leading() {
				time.Sleep(10 * time.Millisecond)
			}
			worst = max(worst, time.Since(began))
			closes(t, m)
		}
		if bound := DefaultTTL + DefaultTTL/3 + DefaultTTL/4; worst > bound {
			t.Errorf("up to %v without a leader after the denial ended; the bound is %v", worst, bound)
		}
	})
}
