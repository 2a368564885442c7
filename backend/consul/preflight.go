package consul

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

var (
	_ backend.Preflighter = (*Backend)(nil)
	_ backend.Preflighter = (*Firefly)(nil)
)

// Preflight implements [backend.Preflighter]. It sends writes of the keys of a grant, on condition of
// an index that no key has. Consul checks the rights of all operations before it tries any. It
// also makes the session, as for a bid.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	return b.preflight(ctx, bids, func(name string) []string { return []string{b.keys.lock + name, b.keys.term + name, b.keys.changes} },
		func() error {
			_, err := b.openSession(ctx, bids[0].Candidate, min(bids[0].TTL, maxTTL))
			return err
		})
}

// Preflight implements [backend.Preflighter], as [Backend.Preflight] does.
func (f *Firefly) Preflight(ctx context.Context, bids []backend.Bid) []error {
	return f.base.preflight(ctx, bids, func(name string) []string { return []string{f.lock(name), f.record(name)} },
		func() error {
			_, err := f.ensureSession(ctx, bids[0].Candidate)
			return err
		})
}

func (b *Backend) preflight(ctx context.Context, bids []backend.Bid, keys func(election string) []string, session func() error) []error {
	errs := make([]error, len(bids))
	what := describe("preflight", len(bids), bids[0].Election)
	err := b.enter(ctx, what, bids[0].Candidate.Nonce)
	if err == nil {
		err = b.wrap(what, session())
	}
	all := make([]int, len(bids))
	for i := range all {
		all[i] = i
	}
	for part := range slices.Chunk(all, maxOps/len(keys(""))) {
		var ops api.KVTxnOps
		var of []int // bid by operation
		for _, i := range part {
			for _, key := range keys(bids[i].Election) {
				ops, of = append(ops, &api.KVTxnOp{Verb: api.KVCAS, Key: key, Index: math.MaxInt64}), append(of, i)
			}
		}
		var answer *api.KVTxnResponse
		if err == nil {
			_, answer, err = b.txn(ctx, ops)
			err = b.wrap(what, err)
		}
		for _, i := range part {
			errs[i] = err
		}
		if err != nil {
			continue
		}
		for _, e := range answer.Errors {
			if strings.Contains(e.What, "ermission denied") && e.OpIndex >= 0 && e.OpIndex < len(of) {
				errs[of[e.OpIndex]] = b.wrap(describe("preflight", 1, bids[of[e.OpIndex]].Election), txnError(&api.KVTxnResponse{Errors: api.TxnErrors{e}}))
			}
		}
	}
	return errs
}
