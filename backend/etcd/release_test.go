package etcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// endsLater is a context that ends when ended is set, unnoticed by a call that is in flight.
type endsLater struct {
	context.Context
	ended atomic.Bool
}

func (c *endsLater) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// Many leases take several transactions. If the context ends between two of them, the rest is
// still held, and Release must not return nil.
func TestAReleaseThatIsCutShortIsAnError(t *testing.T) {
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	bids := make([]backend.Bid, 10*maxByKey)
	for i := range bids {
		name := fmt.Sprintf("jobs/%04d", i)
		bids[i] = backend.Bid{Election: name, Candidate: a.me, TTL: ttl, Renew: ttl / 3, Expected: backend.Lease{Election: name}}
	}
	ctx, cancel := a.ctx()
	defer cancel()
	answers, err := a.Acquire(ctx, bids)
	if err != nil {
		t.Fatal(err)
	}
	held := make([]backend.Lease, len(answers))
	for i, answer := range answers {
		held[i] = answer.Lease
	}
	late := &endsLater{Context: ctx}
	go func() {
		for !b.read(held[0].Election).Vacant() {
		}
		late.ended.Store(true)
	}()
	err = a.Release(late, testbed.Held(held...))
	if last := b.read(held[len(held)-1].Election); err == nil && !last.Vacant() {
		t.Errorf("Release returned nil, and the last of %d leases is %+v", len(held), last)
	}
}
