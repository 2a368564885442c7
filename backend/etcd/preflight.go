package etcd

import (
	"context"
	"errors"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

var _ backend.Preflighter = (*Backend)(nil)

// Preflight implements [backend.Preflighter]. It sends the writes of grants in transactions
// whose condition is never met: etcd checks the rights for all operations of a transaction
// before its conditions.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	if err := b.enter(bids[0].Candidate.Nonce); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	names := make([]string, len(bids))
	for i, bid := range bids {
		names[i] = bid.Election
	}
	done := 0
	for part := range slices.Chunk(names, maxByKey) {
		err := b.preflight(ctx, part)
		for i, name := range part {
			if errors.Is(err, backend.ErrDenied) && len(part) > 1 { // rights may be missing for some of them only
				errs[done+i] = b.preflight(ctx, []string{name})
			} else {
				errs[done+i] = err
			}
		}
		done += len(part)
	}
	return errs
}

func (b *Backend) preflight(ctx context.Context, names []string) error {
	never := clientv3.Compare(clientv3.Version(b.keys.layout()), "=", -1)
	keys := []string{b.keys.layout(), b.keys.heartbeat("prove"), b.keys.candidate("prove")}
	for _, name := range names {
		keys = append(keys, b.keys.record(name), b.keys.request(name))
	}
	var then []clientv3.Op
	for _, key := range keys {
		then = append(then, clientv3.OpPut(key, "", clientv3.WithIgnoreValue())) // even if the condition were met, no value would change
	}
	_, err := b.txn(ctx, []clientv3.Cmp{never}, then, true)
	return b.fail(about("preflight", len(names), names[0]), err)
}
