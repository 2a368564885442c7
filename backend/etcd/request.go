package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// Request implements [backend.Backend]: one read, and for each request a transaction that
// writes it if the record still has its term.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.enter(""); err != nil {
		return err
	}
	var failed error
	for part := range slices.Chunk(requests, maxByKey) {
		failed = errors.Join(failed, b.fail(about("request", len(part), part[0].Election), b.writeRequests(ctx, part)))
	}
	return failed
}

func (b *Backend) writeRequests(ctx context.Context, part []backend.Request) error {
	var stale error
	for range 5 {
		names := make([]string, len(part))
		for n, w := range part {
			names[n] = w.Election
		}
		_, entries, err := b.readElections(ctx, names)
		if err != nil {
			return errors.Join(stale, err)
		}
		var retry []backend.Request
		for n, w := range part {
			e := &entries[n]
			if w.Term == 0 || e.Term != w.Term {
				stale = errors.Join(stale, fmt.Errorf("election %q has term %d, not %d: %w", w.Election, e.Term, w.Term, backend.ErrStale))
				continue
			}
			key := b.keys.request(w.Election)
			then := clientv3.OpDelete(key)
			if w.Kind != "" {
				then = clientv3.OpPut(key, encode(request{w.Term, w.Kind, w.ID, string(w.Nonce)}))
			}
			resp, err := b.txn(ctx, b.unchanged([]change{{entry: e}}), []clientv3.Op{then}, false)
			if err != nil {
				return errors.Join(stale, err)
			}
			if !resp.Succeeded {
				retry = append(retry, w)
			}
		}
		if part = retry; part == nil {
			return stale
		}
	}
	return errors.Join(stale, errBusy)
}
