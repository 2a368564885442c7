package consul

import (
	"context"
	"sync"
	"time"

	"github.com/go-election/go-election/backend/lease"

	"github.com/hashicorp/consul/api"
)

// changesOp is part of every transaction in which a member changes a lock or a record: a
// grant, a release, a request. So the index of that key tells whether a member has changed
// any lease. The write is unconditional, so unrelated transactions do not conflict. Manual
// edits do not write this key; they show in the index of the leases' keys.
func (b *Backend) changesOp() *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVSet, Key: b.keys.changes, Value: encode(lease.NewHeartbeat())} // Consul ignores a write that changes nothing
}

// A snapshot has all lock and term keys as they were at an index.
type snapshot struct {
	mu           sync.Mutex
	index        uint64
	changesIndex uint64                 // of election/changes: the snapshot has those changes
	at           time.Time              // when it was last confirmed, or earlier
	pairs        map[string]*api.KVPair // not modified
}

// maxSnapshotAge is how long a snapshot may be used without being confirmed. The index of a
// prefix goes back when the tombstone of a deleted key is removed, a quarter of an hour after
// the deletion. Then it may repeat.
const maxSnapshotAge = 5 * time.Minute

// listLeases returns all lock and term keys. changesIndex is the index of election/changes, read
// before this call. If it has not changed, no member has changed a lease, and the snapshot is
// used, unless a manual edit may be missing from it. That is excluded if a blocking query of
// Listen waits for changes after the snapshot. Otherwise, or with verify, the index of all
// these keys is compared, which moves with every write below the prefix.
func (b *Backend) listLeases(ctx context.Context, changesIndex uint64, verify bool) (map[string]*api.KVPair, error) {
	b.snapshot.mu.Lock()
	snapshotIndex := b.snapshot.index
	pairs, at, same := b.snapshot.pairs, b.snapshot.at, changesIndex != 0 && b.snapshot.changesIndex == changesIndex
	b.snapshot.mu.Unlock()
	usable := pairs != nil && within(at, maxSnapshotAge)
	if usable && same && !verify && b.listenIndex.waitingAfter() == snapshotIndex {
		return pairs, nil
	}
	asked := time.Now()
	if usable {
		index, err := b.leasesIndex(ctx)
		if err != nil {
			return nil, err
		}
		usable = index == snapshotIndex
	}
	if !usable {
		var err error
		if pairs, snapshotIndex, err = b.listKeys(ctx, b.keys.leases); err != nil {
			return nil, err
		}
	}
	b.snapshot.mu.Lock()
	defer b.snapshot.mu.Unlock()
	b.snapshot.index, b.snapshot.changesIndex, b.snapshot.at, b.snapshot.pairs = snapshotIndex, changesIndex, asked, pairs
	return pairs, nil
}

// leasesIndex returns the index of the lock and term keys. Because of the separator, the answer
// has only two keys.
func (b *Backend) leasesIndex(ctx context.Context) (uint64, error) {
	_, meta, err := b.agent.Client.KV().Keys(b.keys.leases, "/", consistent(ctx))
	if err != nil {
		return 0, err
	}
	if meta.ResultsFilteredByACLs {
		return 0, errFiltered
	}
	return meta.LastIndex, nil
}

// within reports whether less than d has passed since at, by the monotonic and the wall clock:
// the first may stand still while the machine is suspended, and the second may be set.
func within(at time.Time, d time.Duration) bool {
	now := time.Now()
	wall := now.Round(0).Sub(at.Round(0))
	return !at.IsZero() && now.Sub(at) < d && wall >= 0 && wall < d
}
