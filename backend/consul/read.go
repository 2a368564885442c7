package consul

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// maxSmallRead is how many elections one transaction reads, with the heartbeat keys of as many
// sessions. For more elections all keys are listed.
const maxSmallRead = (MaxOps - 1) / 3

// read reads elections consistently. A few take one transaction, and a second one if a lease
// belongs to a session that this process did not expect. More are read by readMany.
//
// The keys need not be of one instant. A grant is pinned to the index of every key on which it
// depends.
func (b *Backend) read(ctx context.Context, names []string, verify bool) ([]*entry, error) {
	if len(names) > maxSmallRead {
		return b.readMany(ctx, names, verify)
	}
	ops := api.KVTxnOps{GetOp(b.keys.changes)}
	var sessions []string
	for _, name := range names {
		ops = append(ops, GetOp(b.keys.lock+name), GetOp(b.keys.term+name))
		if s := b.memory.sessionOf(name); s != "" && !slices.Contains(sessions, s) {
			sessions = append(sessions, s)
			ops = append(ops, GetOp(b.keys.heartbeat+s))
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
			more = append(more, GetOp(b.keys.heartbeat+s))
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

// readKeys runs a transaction that only reads.
func (b *Backend) readKeys(ctx context.Context, ops api.KVTxnOps) (map[string]*api.KVPair, error) {
	ok, answer, err := b.agent.Txn(ctx, ops)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, Refusal(answer)
	}
	return collect(ops, answer.Results)
}

// readKeysAndAnnounce is readKeys with the announcement of this process, if that is due. If the
// announcement is refused, the read is repeated without it, and the next Announce writes in a
// request of its own.
func (b *Backend) readKeysAndAnnounce(ctx context.Context, ops api.KVTxnOps) (map[string]*api.KVPair, error) {
	sent := time.Now()
	piggyback := b.announced.piggyback(b.keys.member, sent)
	if piggyback == nil || len(ops)+len(piggyback) > MaxOps {
		return b.readKeys(ctx, ops)
	}
	ok, answer, err := b.agent.Txn(ctx, append(piggyback, ops...))
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

// newEntries makes entries of what was read, so that their sessions are known. changes was read
// with the other keys or before.
func (b *Backend) newEntries(names []string, pairs map[string]*api.KVPair, changes *api.KVPair) []*entry {
	entries := make([]*entry, len(names))
	for i, name := range names {
		e := &entry{name: name, lockPair: pairs[b.keys.lock+name], termPair: pairs[b.keys.term+name], changes: changes}
		e.parse()
		entries[i] = e
	}
	return entries
}

// classify adds the heartbeat key to each entry and derives the leases.
func (b *Backend) classify(entries []*entry, pairs map[string]*api.KVPair) {
	self, now := b.owner.Nonce(), time.Now()
	known := make(map[string]*lease.Session) // one value may belong to thousands of leases
	for _, e := range entries {
		if s := e.lock.Session; s != "" {
			e.heartbeatPair = pairs[b.keys.heartbeat+s]
			if _, done := known[s]; !done {
				var r lease.Session
				if known[s] = nil; decode(e.heartbeatPair, &r) {
					known[s] = &r
				}
			}
			e.renewals = known[s]
		}
		_, mayHold := b.heartbeats.lookup(e.name)
		e.classify(self, mayHold, &b.memory, now)
	}
}

// listKeys reads all keys below a prefix.
func (b *Backend) listKeys(ctx context.Context, prefix string) (map[string]*api.KVPair, uint64, error) {
	found, meta, err := b.agent.Client.KV().List(prefix, consistent(ctx))
	if err != nil {
		return nil, 0, err
	}
	if meta.ResultsFilteredByACLs {
		return nil, 0, errFiltered
	}
	if len(found) == 0 { // without a token, the servers do not say that they left out keys
		if _, err := b.readKeys(ctx, api.KVTxnOps{GetOp(prefix)}); err != nil {
			return nil, 0, err
		}
	}
	pairs := make(map[string]*api.KVPair, len(found))
	for _, pair := range found {
		pairs[pair.Key] = pair
	}
	return pairs, meta.LastIndex, nil
}

// readMany reads many elections. One transaction reads the heartbeats and election/changes, which
// tells whether members have changed anything since the last listing: see [Backend.listLeases].
// Without verify it relies on a Listen under way for manual edits.
func (b *Backend) readMany(ctx context.Context, names []string, verify bool) ([]*entry, error) {
	ops := api.KVTxnOps{GetOp(b.keys.changes)}
	asked := make(map[string]bool)
	for _, name := range names {
		if s := b.memory.sessionOf(name); s != "" && !asked[s] && len(ops) < MaxOps {
			asked[s] = true
			ops = append(ops, GetOp(b.keys.heartbeat+s))
		}
	}
	heartbeats, err := b.readKeysAndAnnounce(ctx, ops)
	if err != nil {
		return nil, err
	}
	pairs, err := b.listLeases(ctx, indexOf(heartbeats[b.keys.changes]), verify)
	if err != nil {
		return nil, err
	}
	entries := b.newEntries(names, pairs, heartbeats[b.keys.changes])
	var more api.KVTxnOps
	for _, e := range entries {
		if s := e.lock.Session; s != "" && !asked[s] {
			asked[s] = true
			more = append(more, GetOp(b.keys.heartbeat+s))
		}
	}
	switch {
	case len(more) > MaxOps:
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
