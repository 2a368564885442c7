package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A cutShort is a context that ends when it is told to. A call of the store that is in flight does not notice, but a
// Backend that looks before its next call does.
type cutShort struct {
	context.Context
	ended atomic.Bool
}

// Err implements [context.Context].
func (c *cutShort) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// Many leases take several transactions. If the context ends between two of them, the rest is
// still held, and Release must not return nil.
func TestAReleaseThatIsCutShortIsAnError(t *testing.T) {
	const many = 10 * maxByKey
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	ctx, cancel := a.ctx()
	defer cancel()
	seen := make([]backend.Lease, many)
	for i := range seen {
		seen[i].Election = fmt.Sprintf("jobs/%05d", i)
	}
	seen, err := a.Observe(ctx, seen)
	if err != nil {
		t.Fatal(err)
	}
	bids := make([]backend.Bid, many)
	for i, l := range seen {
		bids[i] = backend.Bid{Election: l.Election, Candidate: a.me, TTL: ttl, Renew: ttl / 3, Expected: l}
	}
	answers, err := a.Acquire(ctx, bids)
	if err != nil {
		t.Fatal(err)
	}
	held := make([]backend.Lease, many)
	for i, answer := range answers {
		if held[i] = answer.Lease; answer.Outcome != backend.Granted {
			t.Fatalf("bid %d was not granted: %+v", i, answer)
		}
	}
	short := &cutShort{Context: ctx}
	go func() {
		for !b.read(bids[0].Election).Vacant() {
		}
		short.ended.Store(true)
	}()
	err = a.Release(short, testbed.Held(held...))
	if err == nil && !b.read(bids[many-1].Election).Vacant() {
		t.Errorf("Release of %d leases returned nil, and the last is still held", many)
	}
}
