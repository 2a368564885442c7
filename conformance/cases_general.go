package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

var generalCases = []Case{
	{Rule: "G1", Name: "a backend serves one nonce", calls: generalNonce,
		Says: "A backend serves one nonce. A call with a second nonce returns ErrInvalid."},
	{Rule: "G2", Name: "calls after Close are refused", calls: generalClosed,
		Says: "Close releases no lease, and may be repeated. All other calls then return ErrClosed at once."},
	{Rule: "G4", Name: "calls end with their context", calls: generalContext,
		Says: "Methods return soon after ctx is done, also Listen that waits."},
	{Rule: "G5", Name: "guarantees are constant and consistent", calls: generalGuarantees,
		Says: "Guarantees always returns the same values, and they are consistent."},
	{Rule: "G6", Name: "all methods can run concurrently", calls: generalConcurrent,
		Says: "Methods are safe for concurrent use."},
	{Rule: "G7", Name: "a store that hangs only delays", calls: generalPaused, Fault: FaultPause,
		Says: "While the store hangs, calls end with their context and an error of class ErrUnavailable. " +
			"Afterwards the leases are as before."},
}

// A verb is a harmless call of a method.
type verb struct {
	name string
	call func(ctx context.Context) error
}

// calls returns a call of each method.
func (c *client) calls() []verb {
	lease := backend.Lease{Election: "verbs", Holder: c.candidate, Term: 1, TTL: c.t.TTL, Renew: c.t.TTL / 3}
	bids, held, seen := []backend.Bid{c.bid(lease)}, []backend.Held{lease.Held()}, []backend.Lease{lease}
	requests := []backend.Request{{Election: "verbs", Term: 1, Kind: backend.Nominate, ID: "x"}}
	me := backend.Member{Candidate: c.candidate, TTL: c.t.TTL}
	list := []verb{
		{"Acquire", func(ctx context.Context) error { return failure(c.Acquire(ctx, bids)) }},
		{"Renew", func(ctx context.Context) error { return failure(c.Renew(ctx, held)) }},
		{"Release", func(ctx context.Context) error { return c.Release(ctx, held) }},
		{"Observe", func(ctx context.Context) error { return failure(c.Observe(ctx, seen)) }},
		{"Request", func(ctx context.Context) error { return c.Request(ctx, requests) }},
		{"List", func(ctx context.Context) error { return failure(c.List(ctx, "", 1)) }},
		{"Announce", func(ctx context.Context) error { return c.Announce(ctx, me) }},
		{"Members", func(ctx context.Context) error { return failure(c.Members(ctx, "", 1)) }},
	}
	if c.t.Push {
		list = append(list, c.listening(zero("never changes")))
	}
	return list
}

// failure is the error of a call whose answer does not matter.
func failure[T any](_ T, err error) error { return err }

func (c *client) listening(seen backend.Lease) verb {
	return verb{"Listen", func(ctx context.Context) error { return c.Listen(ctx, []backend.Lease{seen}) }}
}

// outcome makes a call, and reports whether it returned soon.
func (t *Trial) outcome(ctx context.Context, v verb) (err error, returned bool) {
	done := make(chan error, 1)
	go func() { done <- v.call(ctx) }()
	return t.waitForResult(done, t.TTL/4)
}

func generalNonce(t *Trial, a, _ *client) {
	held := a.win("jobs")

	other := *a
	other.candidate = backend.Candidate{ID: "other", Nonce: backend.NewNonce()}
	for _, v := range other.calls() {
		if v.name != "Acquire" && v.name != "Renew" && v.name != "Announce" {
			continue
		}
		if err := v.call(t.callContext()); !errors.Is(err, backend.ErrInvalid) {
			fail("%s with a second nonce: expected ErrInvalid, got %v", v.name, err)
		}
	}

	a.keep(held)
}

func generalClosed(t *Trial, a, b *client) {
	held := a.win("jobs")
	for i := range 2 {
		must(a.Close(), "call %d of Close", i+1)
	}
	b.shows("Close of the holder's client", held)

	for _, v := range a.calls() {
		err, ok := t.outcome(t.callContext(), v)
		if !ok || !errors.Is(err, backend.ErrClosed) {
			fail("%s after Close: expected ErrClosed at once, got %v (returned: %v)", v.name, err, ok)
		}
	}
}

func generalContext(t *Trial, a, _ *client) {
	a.win("jobs")
	for _, v := range a.calls() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err, ok := t.outcome(ctx, v)
		require(expect(ok, "nothing", "%s to return within %v with a cancelled context", v.name, t.TTL/4))
		if err != nil && v.name != "Request" { // Request may find first that its term has ended
			require(expect(backend.Class(err) == backend.ErrUnavailable, err,
				"%s with a cancelled context to end with an error of class ErrUnavailable", v.name))
		}
	}
	if !t.Push {
		return
	}

	seen := a.read("jobs")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(t.TTL/20, cancel)
	err, ok := t.outcome(ctx, a.listening(seen))
	if !ok || err != nil && !errors.Is(err, context.Canceled) { // nil is allowed: Listen may return too early
		fail("expected ctx.Err() from Listen soon after it was cancelled, got %v (returned: %v)", err, ok)
	}
}

func generalGuarantees(t *Trial, a, b *client) {
	g := a.Guarantees()
	a.win("jobs")
	kinds := []backend.Expiry{backend.ByChallengers, backend.ByKernel, backend.ByOperator}
	require(
		equal(b.Guarantees(), g, "Guarantees of another client"),
		equal(a.Guarantees(), g, "Guarantees later"),
		expect(g.Name != "", g.Name, "a name"),
		expect(g.MinTTL >= 1, g.MinTTL, "MinTTL of at least 1"),
		expect(g.MaxTTL == 0 || g.MaxTTL >= g.MinTTL, g.MaxTTL, "MaxTTL 0 or at least MinTTL %v", g.MinTTL),
		expect(g.Push || g.Poll, g, "Push or Poll: otherwise a manager learns of no change"),
		expect(slices.Contains(kinds, g.Expiry), g.Expiry, "one of the three kinds of Expiry"),
		expect(t.TTL >= g.MinTTL, t.TTL, "a TTL in the harness of at least %v", g.MinTTL),
		expect(g.MaxTTL == 0 || t.TTL <= g.MaxTTL, t.TTL, "a TTL in the harness of at most %v", g.MaxTTL),
	)
}

func generalConcurrent(t *Trial, a, b *client) {
	var wg sync.WaitGroup
	for _, c := range []*client{a, b} {
		for _, v := range c.calls() {
			if v.name == "Listen" {
				continue
			}
			wg.Go(func() {
				for range t.scaledCount(100) {
					err := v.call(t.callContext())
					if err != nil && !errors.Is(err, backend.ErrStale) {
						t.addError(fmt.Errorf("%s beside others: expected no error, got %w", v.name, err))
						return
					}
				}
			})
		}
	}
	for i := range 3 {
		wg.Go(func() {
			t.addError(try(func() {
				held := a.win(fmt.Sprintf("own%d", i))
				for range t.scaledCount(100) {
					held = a.keep(held)
				}
				a.release(backend.Released, held)
			}))
		})
	}
	wg.Wait()
}

func generalPaused(t *Trial, a, _ *client) {
	held := a.win("jobs")
	t.inject(FaultPause, true, "")

	var errs []error
	for _, v := range a.calls() {
		ctx, cancel := context.WithTimeout(context.Background(), t.TTL/10)
		began := time.Now()
		err := v.call(ctx)
		cancel()
		took := time.Since(began)
		errs = append(errs, expect(backend.Class(err) == backend.ErrUnavailable, err,
			"%s on a store that hangs to end with an error of class ErrUnavailable", v.name),
			expect(took <= t.TTL/4+t.Late, took, "%s to end with its context", v.name))
	}

	t.inject(FaultPause, false, "")
	require(errs...)
	t.waitUntil(4*t.TTL, "the lease to be renewed after the pause", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), t.TTL)
		defer cancel()
		answers, err := a.Renew(ctx, []backend.Held{held.Held()})
		return err == nil && len(answers) == 1 && answers[0].Outcome == backend.Granted
	})
}
