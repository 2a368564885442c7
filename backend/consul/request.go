package consul

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// Request implements [backend.Backend]. Each request takes one read, and one write of the record
// on condition that it is as it was read.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	what := describe("request", len(requests), requests[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	var stale error
	for _, w := range requests {
		if err := b.writeRequest(ctx, w); err != nil {
			if ctx.Err() != nil || backend.Class(b.wrap("", err)) != backend.ErrInvalid {
				return b.wrap(what, err)
			}
			stale = err
		}
	}
	return b.wrap(what, stale)
}

func (b *Backend) writeRequest(ctx context.Context, w backend.Request) error {
	for range maxAttempts {
		entries, err := b.read(ctx, []string{w.Election}, true)
		if err != nil {
			return err
		}
		e := entries[0]
		if e.term.Term == 0 || e.lease.Term != w.Term || w.Term == 0 {
			return fmt.Errorf("election %q has term %d, not %d: %w", w.Election, e.lease.Term, w.Term, backend.ErrStale)
		}
		record := e.term
		if record.Request = nil; w.Kind != "" {
			record.Request = &request{w.Term, w.Kind, w.ID, w.Nonce}
		}
		ok, answer, err := b.txn(ctx, api.KVTxnOps{
			{Verb: api.KVCAS, Key: b.keys.term + w.Election, Index: e.termPair.ModifyIndex, Value: encode(record)}, b.changesOp(),
		})
		if err != nil || ok {
			return err
		}
		if err := txnError(answer); !errors.Is(err, errConflict) {
			return err
		}
	}
	return errConflict
}
