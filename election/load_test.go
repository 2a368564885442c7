package election

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// A bid can be refused though the lease is free and stays so: mysqltable answers that way while clocks spring
// forward within a TTL. A grant can be expired when its answer comes, because the store's session ends soon.
func TestARefusedBidIsRepeatedOnlyAfterAPause(t *testing.T) {
	for what, change := range map[string]func(a *backend.Answer, free backend.Lease){
		"unavailable": func(a *backend.Answer, free backend.Lease) {
			*a = backend.Answer{Lease: free, Outcome: backend.Refused, Err: backend.ErrUnavailable}
		},
		"denied": func(a *backend.Answer, free backend.Lease) {
			*a = backend.Answer{Lease: free, Outcome: backend.Refused, Err: backend.ErrDenied}
		},
		"free all the same": func(a *backend.Answer, free backend.Lease) {
			*a = backend.Answer{Lease: free, Outcome: backend.Refused}
		},
		"an expired grant": func(a *backend.Answer, _ backend.Lease) { a.ValidFor = time.Second }, // less than ClockMargin
	} {
		inBubble(t, what, func(t *testing.T) {
			s := scripted()
			s.lag = time.Millisecond
			s.acquire = func(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
				answers, err := s.Backend.Acquire(ctx, bids)
				change(&answers[0], bids[0].Expected)
				return answers, err
			}
			alone(t, s, Options{}).Lead(nil)
			time.Sleep(10 * time.Second)
			if n := s.n[callAcquire].Load(); n > 30 {
				t.Errorf("%d bids and %d releases in 10 s, and nobody led", n, s.n[callRelease].Load())
			}
		})
	}
}

// A notifier fires without a change. The store returns an election without a record at each reading,
// which must not count as a change.
func TestEmptyNotificationsMakeListenLessFrequent(t *testing.T) {
	for _, held := range []bool{true, false} {
		inBubble(t, fmt.Sprint("held ", held), func(t *testing.T) {
			store := memory.New()
			s := &script{Backend: store.Backend(), lag: time.Millisecond}
			s.listen = func(context.Context, []backend.Lease) error { time.Sleep(time.Millisecond); return nil }
			alone(t, s, Options{}) // an observer
			if e := alone(t, store.Backend(), Options{}); held {
				e.Lead(nil)
			}
			time.Sleep(10 * time.Second)
			if n := s.n[callListen].Load(); n > 100 {
				t.Errorf("%d listens and %d readings in 10 s", n, s.n[callObserve].Load())
			}
		})
	}
}

// Failing renewals of many leases are repeated in one call, not one by one.
func TestFailingRenewalsStayBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		s := scripted()
		s.lag = 100 * time.Microsecond
		m := manage(t, s, Options{})
		for i := range n {
			joined(t, m, fmt.Sprint("e", i)).Lead(nil)
		}
		renewals := func() int64 {
			s.n[callRenew].Store(0)
			time.Sleep(10 * time.Second)
			return s.n[callRenew].Load()
		}
		time.Sleep(time.Minute)
		good := renewals()
		s.fail(backend.ErrUnavailable)
		if bad := renewals(); bad > 20*good {
			t.Errorf("%d elections: %d calls of Renew in 10 s when all is well, %d in 10 s when they fail", n, good, bad)
		}
		s.heal()
		time.Sleep(time.Minute)
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
			s.fail(backend.ErrDenied, callObserve)
			e := alone(t, s, Options{})
			e.Lead(nil)
			time.Sleep(time.Minute + time.Duration(i)*time.Second/4)
			s.heal()
			began := time.Now()
			for !e.Leading() {
				time.Sleep(10 * time.Millisecond)
			}
			worst = max(worst, time.Since(began))
		}
		if bound := DefaultTTL + DefaultTTL/3 + DefaultTTL/4; worst > bound {
			t.Errorf("up to %v without a leader after the denial ended; the bound is %v", worst, bound)
		}
	})
}
