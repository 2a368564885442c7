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
	{Rule: "G1", Name: "a backend serves one nonce", Run: generalNonce,
		Says: "A backend serves one nonce. A call with a second nonce returns ErrInvalid."},
	{Rule: "G2", Name: "calls after Close are refused", Run: generalClosed,
		Says: "Close releases no lease, and a second Close does nothing. Every other call after Close returns ErrClosed at once."},
	{Rule: "G4", Name: "calls end with their context", Run: generalContext,
		Says: "Methods return soon after ctx is done, also Listen that waits."},
	{Rule: "G5", Name: "guarantees are constant and consistent", Run: generalGuarantees,
		Says: "Guarantees always returns the same values, and they are consistent."},
	{Rule: "G6", Name: "all methods can run concurrently", Run: generalConcurrent,
		Says: "Methods are safe for concurrent use."},
	{Rule: "G7", Name: "a store that hangs only delays", Run: generalPaused, Fault: FaultPause,
		Says: "While the store hangs, calls end with their context and an error of class ErrUnavailable. Afterwards the leases are as before."},
}

// A verb is a harmless call of a method.
type verb struct {
	name string
	call func(ctx context.Context) error
}

// calls returns a call of each method.
func (c *client) calls() []verb {
	lease := backend.Lease{Election: "verbs", Holder: c.candidate, Term: 1, TTL: c.t.TTL, Renew: c.t.TTL / 3}
	list := []verb{
		{"Acquire", func(ctx context.Context) error { _, err := c.Acquire(ctx, []backend.Bid{c.bid(lease)}); return err }},
		{"Renew", func(ctx context.Context) error { _, err := c.Renew(ctx, []backend.Held{lease.Held()}); return err }},
		{"Release", func(ctx context.Context) error { return c.Release(ctx, []backend.Held{lease.Held()}) }},
		{"Observe", func(ctx context.Context) error { _, err := c.Observe(ctx, []backend.Lease{lease}); return err }},
		{"Request", func(ctx context.Context) error {
			return c.Request(ctx, []backend.Request{{Election: "verbs", Term: 1, Kind: backend.Nominate, ID: "x"}})
		}},
		{"List", func(ctx context.Context) error { _, err := c.List(ctx, "", 1); return err }},
		{"Announce", func(ctx context.Context) error {
			return c.Announce(ctx, backend.Member{Candidate: c.candidate, TTL: c.t.TTL})
		}},
		{"Members", func(ctx context.Context) error { _, err := c.Members(ctx, "", 1); return err }},
	}
	if c.t.Push {
		list = append(list, verb{"Listen", func(ctx context.Context) error {
			return c.Listen(ctx, []backend.Lease{{Election: "never changes"}})
		}})
	}
	return list
}

// outcome makes a call, and reports whether it returned soon.
func (t *Trial) outcome(ctx context.Context, v verb) (err error, returned bool) {
	done := make(chan error, 1)
	go func() { done <- v.call(ctx) }()
	return t.waitForResult(done, t.TTL/4)
}

func generalNonce(t *Trial) {
	a := t.client("a")
	held := a.win("jobs")

	other := *a
	other.candidate = backend.Candidate{ID: "other", Nonce: backend.NewNonce()}
	for _, v := range other.calls() {
		if v.name != "Acquire" && v.name != "Renew" && v.name != "Announce" {
			continue
		}
		ctx, cancel := t.callContext()
		err := v.call(ctx)
		cancel()
		if !errors.Is(err, backend.ErrInvalid) {
			fail("%s with a second nonce: expected ErrInvalid, got %v", v.name, err)
		}
	}

	a.keep(held)
}

func generalClosed(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	for i := range 2 {
		if err := a.Close(); err != nil {
			fail("call %d of Close: expected nil, got %w", i+1, err)
		}
	}
	now := b.read("jobs")
	require(equal("holder after Close of its client", now.Holder, a.candidate), equal("Version", now.Version, held.Version))

	for _, v := range a.calls() {
		ctx, cancel := t.callContext()
		err, ok := t.outcome(ctx, v)
		cancel()
		if !ok || !errors.Is(err, backend.ErrClosed) {
			fail("%s after Close: expected ErrClosed at once, got %v (returned: %v)", v.name, err, ok)
		}
	}
}

func generalContext(t *Trial) {
	a := t.client("a")
	a.win("jobs")
	for _, v := range a.calls() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err, ok := t.outcome(ctx, v)
		if !ok {
			fail("%s with a cancelled context: expected it to return soon, got nothing in %v", v.name, t.TTL/4)
		}
		if err != nil && v.name != "Request" { // Request may find first that its term has ended
			require(expect(backend.Class(err) == backend.ErrUnavailable, v.name+" with a cancelled context to end with an error of class ErrUnavailable", err))
		}
	}
	if !t.Push {
		return
	}

	seen := a.read("jobs")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(t.TTL/20, cancel)
	err, ok := t.outcome(ctx, verb{"Listen", func(ctx context.Context) error { return a.Listen(ctx, []backend.Lease{seen}) }})
	if !ok || err != nil && !errors.Is(err, context.Canceled) { // nil is allowed: Listen may return too early
		fail("expected Listen to return ctx.Err() soon after its context was cancelled, got %v (returned: %v)", err, ok)
	}
}

func generalGuarantees(t *Trial) {
	a, b := t.client("a"), t.client("b")
	g := a.Guarantees()
	a.win("jobs")
	require(
		equal("Guarantees of another client", b.Guarantees(), g), equal("Guarantees later", a.Guarantees(), g),
		expect(g.Name != "", "a name", g.Name),
		expect(g.MinTTL >= 1, "MinTTL of at least 1", g.MinTTL),
		expect(g.MaxTTL == 0 || g.MaxTTL >= g.MinTTL, fmt.Sprintf("MaxTTL 0 or at least MinTTL %v", g.MinTTL), g.MaxTTL),
		expect(g.Push || g.Poll, "Push or Poll: otherwise a manager learns of no change", fmt.Sprintf("%+v", g)),
		expect(slices.Contains([]backend.Expiry{backend.ByChallengers, backend.ByKernel, backend.ByOperator}, g.Expiry), "one of the three kinds of Expiry", g.Expiry),
		expect(t.TTL >= g.MinTTL && (g.MaxTTL == 0 || t.TTL <= g.MaxTTL), "the harness's TTL to be within the guarantees", t.TTL),
	)
}

func generalConcurrent(t *Trial) {
	a, b := t.client("a"), t.client("b")
	var wg sync.WaitGroup
	for _, c := range []*client{a, b} {
		for i, v := range c.calls() {
			if v.name == "Listen" {
				continue
			}
			wg.Go(func() {
				for range t.scaledCount(100) {
					ctx, cancel := t.callContext()
					err := v.call(ctx)
					cancel()
					if err != nil && !errors.Is(err, backend.ErrStale) {
						t.addError(fmt.Errorf("%s beside %d other calls: expected no error, got %w", v.name, i, err))
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

func generalPaused(t *Trial) {
	a := t.client("a")
	held := a.win("jobs")
	t.inject(FaultPause, true, "")

	var errs []error
	for _, v := range a.calls() {
		ctx, cancel := context.WithTimeout(context.Background(), t.TTL/10)
		began := time.Now()
		err := v.call(ctx)
		cancel()
		took := time.Since(began)
		errs = append(errs, expect(err != nil && backend.Class(err) == backend.ErrUnavailable, v.name+" on a store that hangs to end with an error of class ErrUnavailable", err),
			expect(took <= t.TTL/4+t.Late, v.name+" to end with its context", took))
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
