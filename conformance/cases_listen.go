package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

var listenCases = []Case{
	{Rule: "N1", Name: "Listen does not return again and again", Run: listenNotBusy, skip: needsListen,
		Says: "Listen waits until a lease may have changed: while nothing changes it does not return again and again."},
	{Rule: "N2", Name: "Listen returns at every change", Run: listenReturns, skip: needsReliableListen,
		Says: "Listen returns nil after a grant, a renewal (unless the store expires leases by itself), a request or a release."},
	{Rule: "N3", Name: "Listen misses no change before the call", Run: listenNothingMissed, skip: needsReliableListen,
		Says: "Listen returns at once if a lease has changed since the caller read it."},
	{Rule: "N4", Name: "Listen ends with its context", Run: listenEnds, skip: needsListen,
		Says: "Listen returns ctx.Err() when ctx ends."},
	{Rule: "N5", Name: "Listen ignores other elections", Run: listenOthers, skip: needsListen,
		Says: "Listen returns for the leases that the caller passed. Changes of other elections do not make it return all the time."},
}

// listen calls Listen in a goroutine and returns a channel with its result.
func (c *client) listen(ctx context.Context, seen ...backend.Lease) chan error {
	result := make(chan error, 1)
	go func() { result <- c.Listen(ctx, seen) }()
	return result
}

// countReturns counts how often Listen returns within some TTLs.
func (t *Trial) countReturns(c *client, ttls int, seen ...backend.Lease) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(ttls)*t.TTL)
	defer cancel()
	returns := 0
	for ctx.Err() == nil && returns < 100*ttls {
		err := c.Listen(ctx, seen)
		if err != nil && ctx.Err() == nil {
			return returns, fmt.Errorf("listen: expected nil or the context's error, got %w", err)
		}
		if err == nil {
			returns++
		}
	}
	return returns, nil
}

func listenNotBusy(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	own := must(a.win("jobs"))
	held := must(b.read("jobs"))
	vacant := must(b.read("never"))

	ttls := 10
	if !t.Virtual {
		ttls = 3
	}
	stop := func() error { return nil }
	if t.Poll { // otherwise the lease expires, which is a change; these renewals are none
		stop = a.keepRenewing(own)
	}
	returns := must(t.countReturns(b, ttls, held, vacant))
	require(stop())
	return expect(returns <= ttls+2, fmt.Sprintf("Listen to return at most once a TTL (%v) while nothing changes", t.TTL),
		fmt.Sprintf("%d times in %d TTLs", returns, ttls))
}

func listenReturns(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	seen := must(b.read("jobs"))
	var held backend.Lease
	for _, s := range []struct {
		what string
		do   func() error
	}{
		{"a grant", func() (err error) { held, err = a.win("jobs"); return err }},
		{"a renewal", func() (err error) { held, err = a.keep(held); return err }},
		{"a request", func() error {
			return a.request(backend.Request{Election: "jobs", Term: held.Term, Kind: backend.Nominate, ID: "b"})
		}},
		{"a release", func() error { return a.release(backend.Released, held) }},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		result := b.listen(ctx, seen)
		t.sleep(t.TTL / 20) // until Listen waits
		err := s.do()
		if err != nil {
			cancel()
			return fmt.Errorf("%s: %w", s.what, err)
		}
		err, ok := t.waitForResult(result, t.TTL/10)
		cancel()
		if !ok || err != nil {
			return fmt.Errorf("after %s: expected Listen to return nil within %v, got %v (returned: %v)", s.what, t.TTL/10, err, ok)
		}
		seen = must(b.read("jobs"))
	}
	return nil
}

func listenNothingMissed(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	other := must(b.read("other"))
	seen := must(b.read("jobs"))
	must(a.keep(held))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err, ok := t.waitForResult(b.listen(ctx, other, seen), t.TTL/10)
	return expect(ok && err == nil, "Listen to return nil at once for a change before the call", fmt.Sprintf("%v (returned: %v)", err, ok))
}

func listenEnds(t *Trial) error {
	a := t.client("a")
	must(a.win("jobs"))
	seen := must(a.read("jobs"))

	ctx, cancel := context.WithCancel(context.Background())
	result := a.listen(ctx, seen)
	t.sleep(t.TTL / 20)
	cancel()
	err, ok := t.waitForResult(result, t.TTL/4)
	if !ok {
		return fmt.Errorf("expected Listen to return soon after its context was cancelled, got nothing in %v", t.TTL/4)
	}
	if err != nil { // nil is allowed: Listen may return too early
		return expect(errors.Is(err, context.Canceled), "ctx.Err()", err)
	}
	return nil
}

func listenOthers(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("busy"))
	seen := must(b.read("quiet"))

	done := make(chan error, 1)
	go func() {
		var err error
		for range 20 {
			t.sleep(t.TTL / 10)
			if held, err = a.keep(held); err != nil {
				break
			}
		}
		done <- err
	}()
	returns := must(t.countReturns(b, 2, seen))
	require(<-done)
	return expect(returns <= 4, "Listen to return at most twice a TTL while only other elections change", fmt.Sprintf("%d times in 2 TTLs", returns))
}
