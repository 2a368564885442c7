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
		Says: "Listen returns nil after a grant, a renewal (unless the store expires leases by itself), a request or a release, and at once if that came before the call."},
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
func (t *Trial) countReturns(c *client, ttls int, seen ...backend.Lease) (returns int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(ttls)*t.TTL)
	defer cancel()
	for ctx.Err() == nil && returns < 100*ttls {
		err := c.Listen(ctx, seen)
		switch {
		case err == nil:
			returns++
		case ctx.Err() == nil:
			fail("listen: expected nil or the context's error, got %w", err)
		}
	}
	return returns
}

func listenNotBusy(t *Trial) {
	a, b := t.client("a"), t.client("b")
	own := a.win("jobs")
	held := b.read("jobs")
	vacant := b.read("never")

	ttls := 10
	if !t.Virtual {
		ttls = 3
	}
	stop := func() {}
	if t.Poll { // otherwise the lease expires, which is a change; these renewals are none
		stop = a.keepRenewing(own)
	}
	returns := t.countReturns(b, ttls, held, vacant)
	stop()
	require(expect(returns <= ttls+2, fmt.Sprintf("Listen to return at most once a TTL (%v) while nothing changes", t.TTL),
		fmt.Sprintf("%d times in %d TTLs", returns, ttls)))
}

func listenReturns(t *Trial) {
	a, b := t.client("a"), t.client("b")
	seen, other := b.read("jobs"), b.read("other")
	for _, s := range a.changes("jobs") {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		result := b.listen(ctx, seen)
		t.sleep(t.TTL / 20) // until Listen waits
		s.do()

		for _, result := range []chan error{result, b.listen(ctx, other, seen)} { // the second began after the change
			err, ok := t.waitForResult(result, t.TTL/10)
			if !ok || err != nil {
				fail("after %s: expected Listen to return nil within %v, got %v (returned: %v)", s.what, t.TTL/10, err, ok)
			}
		}
		seen = b.read("jobs")
	}
}

func listenEnds(t *Trial) {
	a := t.client("a")
	a.win("jobs")
	seen := a.read("jobs")

	ctx, cancel := context.WithCancel(context.Background())
	result := a.listen(ctx, seen)
	t.sleep(t.TTL / 20)
	cancel()
	err, ok := t.waitForResult(result, t.TTL/4)
	if !ok {
		fail("expected Listen to return soon after its context was cancelled, got nothing in %v", t.TTL/4)
	}
	if err != nil { // nil is allowed: Listen may return too early
		require(expect(errors.Is(err, context.Canceled), "ctx.Err()", err))
	}
}

func listenOthers(t *Trial) {
	a, b := t.client("a"), t.client("b")
	stop := a.keepRenewing(a.win("busy"))
	seen := b.read("quiet")

	returns := t.countReturns(b, 3, seen) // nine renewals
	stop()
	require(expect(returns <= 6, "Listen to return at most twice a TTL while only other elections change", fmt.Sprintf("%d times in 3 TTLs", returns)))
}
