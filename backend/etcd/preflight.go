package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

var _ backend.Preflighter = (*Backend)(nil)

// Preflight implements [backend.Preflighter]. It sends the writes of grants in transactions
// whose condition is never met: etcd checks the rights for all operations of a transaction
// before its conditions.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) (errs []error) {
	if err := b.Enter(bids[0].Candidate.Nonce); err != nil {
		return slices.Repeat([]error{err}, len(bids))
	}
	for part := range slices.Chunk(bids, maxByKey) {
		err := b.driver.preflight(ctx, part)
		for i := range part {
			if errors.Is(err, backend.ErrDenied) && len(part) > 1 { // rights may be missing for some of them only
				errs = append(errs, b.driver.preflight(ctx, part[i:i+1]))
			} else {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

func (d *driver) preflight(ctx context.Context, bids []backend.Bid) error {
	keys := []lease.Key{{Kind: lease.Metas}, {Kind: lease.Sessions, Name: "preflight"}}
	for _, bid := range bids {
		keys = append(keys, lease.Key{Kind: lease.Records, Name: bid.Election})
	}
	var then []clientv3.Op
	for _, k := range keys {
		then = append(then, clientv3.OpPut(d.keys.Key(k), "", clientv3.WithIgnoreValue())) // even if the condition were met, no value would change
	}
	never := clientv3.Compare(clientv3.Version(d.keys.Key(keys[0])), "=", -1)
	if _, _, err := d.txn(ctx, []clientv3.Cmp{never}, then); err != nil {
		return fmt.Errorf("etcd: preflight %q: %w", bids[0].Election, err)
	}
	return nil
}
