package conformance

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend"
)

var listenCases = []Case{
	{Rule: "N1", Name: "Listen does not return again and again", calls: listenNotBusy, needs: []need{pushes},
		Says: "Listen waits until one of the passed leases may have changed: while others are renewed, or " +
			"with Guarantees.Poll all, it does not return again and again."},
	{Rule: "N2", Name: "Listen returns at every change", calls: listenReturns, needs: []need{pushesAll},
		Says: "Listen returns nil after a grant, a renewal (unless the store expires leases by itself), a " +
			"request or a release, and at once if that came before the call."},
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

func listenNotBusy(t *Trial, a, b *client) {
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
	var returns int
	ended := make(chan error, 1)
	go func() { ended <- try(func() { returns = t.countReturns(b, ttls, seen...) }) }()
	for range ttls * int(t.TTL/t.renewEvery()) {
		t.sleep(t.renewEvery())
		for _, l := range renewed {
			a.keep(l)
		}
	}
	require(<-ended)
	require(expect(returns <= ttls+2, returns, "Listen to return once in each of %d TTLs at most", ttls))
}

func listenReturns(t *Trial, a, b *client) {
	seen, other := b.read("jobs"), b.read("other")
	for _, s := range a.changes("jobs") {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		result := b.listen(ctx, seen)
		t.sleep(t.TTL / 20) // until Listen waits
		s.do()

		late := b.listen(ctx, other, seen)
		for _, result := range []chan error{result, late} {
			err, ok := t.waitForResult(result, t.TTL/10)
			if !ok || err != nil {
				fail("after %s: expected nil from Listen within %v, got %v (returned: %v)",
					s.what, t.TTL/10, err, ok)
			}
		}
		seen = b.read("jobs")
	}
}
