package consul

import (
	"fmt"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// Fence returns an operation for the front of a transaction on the caller's own keys in the same
// Consul. The transaction is then applied only if this Backend still holds the election in
// that term. So a leader that was stopped and resumes cannot write.
//
//	fence, err := store.Fence("billing", lead.Term)
//	ok, answer, _, err := client.KV().Txn(api.KVTxnOps{fence, {Verb: api.KVSet, Key: "total", Value: sum}}, nil)
//
// Fence makes no request. The error is [backend.ErrStale] if this Backend does not know that it
// holds the election in that term. The caller's client must use the same datacenter, may have to
// set namespace and partition in the operation, and needs the right to read the key.
func (b *Backend) Fence(election string, term uint64) (*api.KVTxnOp, error) {
	h, ok := b.heartbeats.lookup(election)
	if !ok || h.entry == nil || h.lock.Term != term || term == 0 {
		return nil, fmt.Errorf("consul: fence %q in term %d: %w", election, term, backend.ErrStale)
	}
	return &api.KVTxnOp{Verb: api.KVCheckIndex, Key: b.keys.lock + election, Index: h.lockPair.ModifyIndex}, nil
}
