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
	for _, req := range requests {
		if err := b.writeRequest(ctx, req); err != nil {
			if ctx.Err() != nil || backend.Class(b.wrap("", err)) != backend.ErrInvalid {
				return b.wrap(what, err)
			}
			stale = err
		}
	}
	return b.wrap(what, stale)
}

func (b *Backend) writeRequest(ctx context.Context, req backend.Request) error {
	for range maxAttempts {
		entries, err := b.read(ctx, []string{req.Election}, true)
		if err != nil {
			return err
		}
		e := entries[0]
		if e.term.Term == 0 || e.lease.Term != req.Term || req.Term == 0 {
			return fmt.Errorf("election %q has term %d, not %d: %w", req.Election, e.lease.Term, req.Term, backend.ErrStale)
		}
		record := e.term
		if record.Request = nil; req.Kind != "" {
			record.Request = &request{req.Term, req.Kind, req.ID, string(req.Nonce)}
		}
		ok, answer, err := b.agent.Txn(ctx, api.KVTxnOps{
			{Verb: api.KVCAS, Key: b.keys.term + req.Election, Index: e.termPair.ModifyIndex, Value: encode(record)}, b.changesOp(),
		})
		if err != nil || ok {
			return err
		}
		if err := Refusal(answer); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return ErrConflict
}
