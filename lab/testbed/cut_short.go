package testbed

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// A CutShort is a context that ends when End is called. A call of the store that is in flight
// does not notice, but a Backend that looks before its next call does.
type CutShort struct {
	context.Context
	ended atomic.Bool
}

func (c *CutShort) End() { c.ended.Store(true) }

// Err implements [context.Context].
func (c *CutShort) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return c.Context.Err()
}

// ReleaseCutShort has holder acquire many leases and release them. The context ends as soon as
// the first is vacant. If any lease is still held then, Release must not return nil.
func ReleaseCutShort(t *testing.T, holder backend.Backend, me backend.Candidate, many int, vacant func(election string) bool) {
	t.Helper()
	const ttl = 10 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := make([]backend.Lease, many)
	for i := range seen {
		seen[i].Election = fmt.Sprintf("jobs/%05d", i)
	}
	seen, err := holder.Observe(ctx, seen)
	if err != nil || len(seen) != many {
		t.Fatalf("%d leases observed, want %d: %v", len(seen), many, err)
	}
	bids := make([]backend.Bid, many)
	for i, l := range seen {
		bids[i] = backend.Bid{Election: l.Election, Candidate: me, TTL: ttl, Renew: ttl / 3, Expected: l}
	}
	answers, err := holder.Acquire(ctx, bids)
	if err != nil {
		t.Fatal(err)
	}
	held := make([]backend.Lease, len(answers))
	for i, answer := range answers {
		if held[i] = answer.Lease; answer.Outcome != backend.Granted {
			t.Fatalf("bid %d was not granted: %+v", i, answer)
		}
	}
	short := &CutShort{Context: ctx}
	go func() {
		for !vacant("jobs/00000") {
		}
		short.End()
	}()
	err = holder.Release(short, Held(held...))
	if err == nil && !vacant(fmt.Sprintf("jobs/%05d", many-1)) {
		t.Errorf("Release of %d leases returned nil, and the last is still held", many)
	}
}
