package consul

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// maxOps is how many operations one transaction may have: newer servers allow 128.
const maxOps = 64

// few is how many elections are read in one transaction, with the heartbeat keys of as
// many sessions. More are read as a whole.
const maxSmallRead = (maxOps - 1) / 3

// read reads elections, consistently. For a few it is one transaction, and a
// second if one of them hangs on a session that was not expected. For many it is
// one transaction too, that asks for the heartbeats and whether members have changed
// anything since the last listing: see [Backend.leases].
//
// What it returns need not be of one instant, except for each key by itself: a
// grant is pinned to the index of every key that it rests on.
func (b *Backend) read(ctx context.Context, names []string, sure bool) ([]*entry, error) {
	if len(names) > maxSmallRead {
		return b.readMany(ctx, names, sure)
	}
	ops := api.KVTxnOps{getOp(b.keys.changes)}
	var sessions []string
	for _, name := range names {
		ops = append(ops, getOp(b.keys.lock+name), getOp(b.keys.term+name))
		if s := b.memory.sessionOf(name); s != "" && !slices.Contains(sessions, s) {
			sessions = append(sessions, s)
			ops = append(ops, getOp(b.keys.heartbeat+s))
		}
	}
	pairs, err := b.readKeysAndAnnounce(ctx, ops)
	if err != nil {
		return nil, err
	}
	entries := b.newEntries(names, pairs, pairs[b.keys.changes])
	var more api.KVTxnOps
	for _, e := range entries {
		if s := e.lock.Session; s != "" && !slices.Contains(sessions, s) {
			sessions = append(sessions, s)
			more = append(more, getOp(b.keys.heartbeat+s))
		}
	}
	if more != nil {
		heartbeats, err := b.readKeys(ctx, more)
		if err != nil {
			return nil, err
		}
		maps.Copy(pairs, heartbeats)
	}
	b.classify(entries, pairs)
	return entries, nil
}

// get is an operation that reads a key which may not exist.
func getOp(key string) *api.KVTxnOp { return &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: key} }

// gets runs a transaction that only reads.
func (b *Backend) readKeys(ctx context.Context, ops api.KVTxnOps) (map[string]*api.KVPair, error) {
	ok, answer, err := b.txn(ctx, ops)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, txnError(answer)
	}
	return collect(ops, answer.Results)
}

// readKeysAndAnnounce does the same, and announces this process along with it if it is time. A
// reading must not fail for that: it is made again without, and the next Announce writes
// by itself.
func (b *Backend) readKeysAndAnnounce(ctx context.Context, ops api.KVTxnOps) (map[string]*api.KVPair, error) {
	sent := time.Now()
	piggyback := b.announced.piggyback(b.keys.member, sent)
	if piggyback == nil || len(ops)+len(piggyback) > maxOps {
		return b.readKeys(ctx, ops)
	}
	ok, answer, err := b.txn(ctx, append(piggyback, ops...))
	switch {
	case err == nil && ok:
		b.announced.piggybacked(sent)
		return collect(ops, answer.Results)
	case err != nil && backend.Class(b.wrap("", err)) != backend.ErrDenied:
		return nil, err
	}
	b.announced.stopPiggyback()
	return b.readKeys(ctx, ops)
}

// collect returns the keys that were read. A key that is missing in the answer is
// one that the token may not read.
func collect(ops api.KVTxnOps, results []*api.KVPair) (map[string]*api.KVPair, error) {
	pairs := make(map[string]*api.KVPair, len(results))
	for _, pair := range results {
		if pair != nil {
			pairs[pair.Key] = pair
		}
	}
	for _, op := range ops {
		if op.Verb != api.KVGetOrEmpty {
			continue
		}
		pair := pairs[op.Key]
		if pair == nil {
			return nil, errFiltered
		}
		if pair.ModifyIndex == 0 {
			pairs[op.Key] = nil // there is no such key
		}
	}
	return pairs, nil
}

// gather makes entries of what was read, so far as to know their sessions. The key of
// changes was read with them or before.
func (b *Backend) newEntries(names []string, pairs map[string]*api.KVPair, changes *api.KVPair) []*entry {
	entries := make([]*entry, len(names))
	for i, name := range names {
		e := &entry{name: name, lockPair: pairs[b.keys.lock+name], termPair: pairs[b.keys.term+name], changes: changes}
		e.parse()
		entries[i] = e
	}
	return entries
}

// classify gives each entry its heartbeat key and makes the leases.
func (b *Backend) classify(entries []*entry, pairs map[string]*api.KVPair) {
	self, now := b.owner.Nonce(), time.Now()
	known := make(map[string]*renewals) // one value may be for thousands
	for _, e := range entries {
		if s := e.lock.Session; s != "" {
			e.heartbeatPair = pairs[b.keys.heartbeat+s]
			if _, done := known[s]; !done {
				var r renewals
				if known[s] = nil; decode(e.heartbeatPair, &r) {
					known[s] = &r
				}
			}
			e.renewals = known[s]
		}
		_, may := b.heartbeats.lookup(e.name)
		e.classify(self, may, &b.memory, now)
	}
}

// list reads all keys below a prefix.
func (b *Backend) listKeys(ctx context.Context, prefix string) (map[string]*api.KVPair, uint64, error) {
	found, meta, err := b.client.KV().List(prefix, query(ctx))
	if err != nil {
		return nil, 0, err
	}
	if meta.ResultsFilteredByACLs {
		return nil, 0, errFiltered
	}
	if len(found) == 0 { // who has no token at all is not told that keys were kept back
		if _, err := b.readKeys(ctx, api.KVTxnOps{getOp(prefix)}); err != nil {
			return nil, 0, err
		}
	}
	pairs := make(map[string]*api.KVPair, len(found))
	for _, pair := range found {
		pairs[pair.Key] = pair
	}
	return pairs, meta.LastIndex, nil
}

// readMany reads elections of which there are many. It does not ask whether
// somebody has been at the keys by hand if a call of Listen would have been told,
// unless sure is set.
func (b *Backend) readMany(ctx context.Context, names []string, sure bool) ([]*entry, error) {
	ops := api.KVTxnOps{getOp(b.keys.changes)}
	asked := make(map[string]bool)
	for _, name := range names {
		if s := b.memory.sessionOf(name); s != "" && !asked[s] && len(ops) < maxOps {
			asked[s] = true
			ops = append(ops, getOp(b.keys.heartbeat+s))
		}
	}
	heartbeats, err := b.readKeysAndAnnounce(ctx, ops)
	if err != nil {
		return nil, err
	}
	pairs, err := b.listLeases(ctx, indexOf(heartbeats[b.keys.changes]), sure)
	if err != nil {
		return nil, err
	}
	entries := b.newEntries(names, pairs, heartbeats[b.keys.changes])
	var more api.KVTxnOps
	for _, e := range entries {
		if s := e.lock.Session; s != "" && !asked[s] {
			asked[s] = true
			more = append(more, getOp(b.keys.heartbeat+s))
		}
	}
	switch {
	case len(more) > maxOps:
		heartbeats, _, err = b.listKeys(ctx, b.keys.heartbeat)
	case more != nil:
		var rest map[string]*api.KVPair
		rest, err = b.readKeys(ctx, more)
		maps.Copy(heartbeats, rest)
	}
	if err != nil {
		return nil, err
	}
	b.classify(entries, heartbeats)
	return entries, nil
}
