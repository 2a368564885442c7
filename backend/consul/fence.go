package consul

import (
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// Fence returns an operation to put in front of those of a transaction on the
// caller's own keys in the same Consul: the transaction is then applied only if
// the election is still held by this Backend in that term, and not one write of a
// leader that was stopped and has woken up gets through.
//
//	fence, err := store.Fence("billing", lead.Term)
//	ok, answer, _, err := client.KV().Txn(api.KVTxnOps{fence, {Verb: api.KVSet, Key: "total", Value: sum}}, nil)
//
// It asks nobody. The error is [backend.ErrStale] if this Backend does not know
// that it holds the election in that term. The caller's client must use the same
// datacenter and may need namespace and partition set in the operation; it needs
// the right to read the key.
func (b *Backend) Fence(election string, term uint64) (*api.KVTxnOp, error) {
	h, ok := b.heartbeats.lookup(election)
	if !ok || h.entry == nil || h.lock.Term != term || term == 0 {
		return nil, fmt.Errorf("consul: fence %q in term %d: %w", election, term, backend.ErrStale)
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: b.keys.lock + election, Index: h.lockPair.ModifyIndex}, nil
}
