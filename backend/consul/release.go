package consul

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Release implements [backend.Backend]. It reads the leases once, unless it knows them. Then it
// makes one transaction for each chunk, which unlocks, without a lock-delay, and writes how the
// leaderships ended, if the keys are as they were read or written.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	what := describe("release", len(held), held[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	if b.owner.Nonce() == "" {
		return nil // this Backend has never held anything
	}
	for part := range slices.Chunk(held, 16*grantChunk) {
		if err := b.release(ctx, part); err != nil {
			return b.wrap(what, err)
		}
	}
	return nil
}

func (b *Backend) release(ctx context.Context, held []backend.Held) error {
	entries := b.knownEntries(held)
	for range maxAttempts {
		if entries == nil {
			names := make([]string, len(held))
			for i, l := range held {
				names[i] = l.Election
			}
			var err error
			if entries, err = b.read(ctx, names, true); err != nil {
				return err
			}
		}
		var again []backend.Held
		type item struct {
			lease backend.Held
			ops   api.KVTxnOps
		}
		var items []item
		for i, e := range entries {
			l := held[i]
			if ops := b.releaseOps(e, l); ops != nil {
				items = append(items, item{l, ops})
			} else {
				b.recordNotHeld(e, l)
			}
		}
		for part := range slices.Chunk(items, grantChunk) {
			var ops api.KVTxnOps
			for _, it := range part {
				ops = append(ops, it.ops...)
			}
			ok, answer, err := b.agent.Txn(ctx, append(ops, b.changesOp()))
			if err != nil {
				return err
			}
			if !ok {
				if err := Refusal(answer); !errors.Is(err, ErrConflict) {
					return err
				}
			}
			for _, it := range part {
				if ok {
					b.heartbeats.remove(it.lease.Election)
				} else {
					again = append(again, it.lease)
				}
			}
		}
		if held = again; len(held) == 0 {
			return nil
		}
		entries = nil
	}
	return ErrConflict
}

// knownEntries returns the leases as they were last read or written, if this process then held
// all of them in these terms. If one has changed since, Consul refuses the release.
func (b *Backend) knownEntries(held []backend.Held) []*entry {
	session, self := b.session.get(), b.owner.Nonce()
	entries := make([]*entry, len(held))
	for i, l := range held {
		h, _ := b.heartbeats.lookup(l.Election)
		if h.entry == nil || !h.heldBy(session, self, l.Term) {
			return nil
		}
		entries[i] = h.entry
	}
	return entries
}

// recordNotHeld notes that a lease is not held, unless it is held in another term.
func (b *Backend) recordNotHeld(e *entry, l backend.Held) {
	if h, ok := b.heartbeats.lookup(l.Election); ok && (l.Term == 0 || h.entry == nil || h.lock.Term == l.Term) && !e.mine {
		b.heartbeats.remove(l.Election)
	}
}

// releaseOps returns one release, or nil if there is nothing to release. If a bid of this process
// may still be on its way, it rewrites the record, or the lock of an election that was never
// led, so that the bid finds another index and fails.
func (b *Backend) releaseOps(e *entry, l backend.Held) api.KVTxnOps {
	key, recordKey := b.keys.lock+e.name, b.keys.term+e.name
	self := b.owner.Nonce()
	locked := e.lock.Holder.Nonce == string(self) && e.lockPair != nil
	recorded := e.term.Nonce == string(self) && e.term.Term > 0 && e.term.End == ""
	latest := max(e.term.Term, e.lock.Term)
	if !locked && !recorded || l.Term != 0 && l.Term != latest {
		h, ok := b.heartbeats.lookup(e.name)
		switch {
		case !ok || h.entry != nil || l.Term != 0:
		case e.term.Term > 0:
			touched := e.term
			touched.Touch = lease.NewHeartbeat() // Consul ignores a write that changes nothing
			return api.KVTxnOps{{Verb: api.KVCAS, Key: recordKey, Index: e.termPair.ModifyIndex, Value: encode(touched)}}
		case e.termPair == nil && e.lockPair == nil: // never led
			return api.KVTxnOps{{Verb: api.KVCAS, Key: key, Value: encode(lock{Heartbeat: lease.NewHeartbeat()})}}
		case e.termPair == nil && e.lockPair.Session == "":
			return api.KVTxnOps{{Verb: api.KVCAS, Key: key, Index: e.lockPair.ModifyIndex, Value: encode(lock{Term: e.lock.Term, Heartbeat: lease.NewHeartbeat()})}}
		}
		return nil
	}
	now := time.Now().UTC().Round(0)
	record := e.term
	if !recorded { // it was deleted, or contradicts the lock
		record = term{Term: latest, ID: e.lease.Holder.ID, Nonce: string(self), TTL: e.lock.TTL, From: e.lock.At, History: record.History, Request: record.Request,
			MovedTo: record.MovedTo, Moved: record.Moved}
	}
	record.close(l.End, now, l.ExpiredFor())
	record.Heartbeat = lease.NewHeartbeat()
	vacant := encode(lock{Term: record.Term, Heartbeat: lease.NewHeartbeat(), At: now})
	ops := api.KVTxnOps{pin(key, e.lockPair)}
	switch {
	case e.lockPair == nil, !locked && e.lockPair.Session == "":
		// It was deleted or overwritten. A lease is vacant only if lock and record agree.
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCAS, Key: key, Index: indexOf(e.lockPair), Value: vacant})
	case !locked:
	case e.lockPair.Session != "":
		ops = append(ops, &api.KVTxnOp{Verb: api.KVUnlock, Key: key, Session: e.lockPair.Session, Value: vacant})
	default: // the session has ended
		ops = append(ops, &api.KVTxnOp{Verb: api.KVCAS, Key: key, Index: e.lockPair.ModifyIndex, Value: vacant})
	}
	return append(ops, &api.KVTxnOp{Verb: api.KVCAS, Key: recordKey, Index: indexOf(e.termPair), Value: encode(record)})
}
