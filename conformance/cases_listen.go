package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

var listenCases = []Case{
	{Rule: "N1", Name: "Listen does not return again and again", Run: listenNotBusy, needs: []need{pushes},
		Says: "Listen waits until one of the passed leases may have changed: while others are renewed, or with Guarantees.Poll all, it does not return again and again."},
	{Rule: "N2", Name: "Listen returns at every change", Run: listenReturns, needs: []need{pushesAll},
		Says: "Listen returns nil after a grant, a renewal (unless the store expires leases by itself), a request or a release, and at once if that came before the call."},
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
	own, busy := a.win("jobs"), a.win("busy")
	seen := []backend.Lease{b.read("jobs"), b.read("never")}

	ttls := 10
	if !t.Virtual {
		ttls = 3
	}
	renewed := []backend.Lease{busy}
	if t.Poll { // otherwise the lease expires, which is a change; these renewals are none
		renewed = append(renewed, own)
	}
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- try(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(t.renewEvery()):
					for _, l := range renewed {
						a.keep(l)
					}
				}
			}
		})
	}()
	returns := t.countReturns(b, ttls, seen...)
	close(over)
	require(<-ended)
	require(expect(returns <= ttls+2, fmt.Sprintf("Listen to return at most once a TTL (%v) while leases are only renewed", t.TTL),
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
