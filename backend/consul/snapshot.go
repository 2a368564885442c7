package consul

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// changed goes into every transaction in which a member changes a lock or a
// record: a grant, a release, a request. So the index of that key tells, together
// with whatever else a request asks for, whether any of them has been changed. It
// is written blindly: transactions that have nothing else in common do not disturb
// each other. What people do by hand does not show there, but in the index of the
// keys themselves.
func (b *Backend) changed() *api.KVTxnOp {
	return &api.KVTxnOp{Verb: api.KVSet, Key: b.keys.changes, Value: encode(newHeartbeat())} // a write that changes nothing is none
}

// A snapshot is all lock and term keys as they were at an index.
type snapshot struct {
	mu    sync.Mutex
	index uint64
	mark  uint64                 // the index of the changes key: those changes are in it
	at    time.Time              // not after it was last found to be what there is
	pairs map[string]*api.KVPair // never changed
}

// maxSnapshotAge is how long a snapshot may go without being confirmed. The index of
// all keys below a prefix goes back when the tombstone of a deleted key is removed,
// a quarter of an hour after its deletion: then it may be what it was before.
const maxSnapshotAge = 5 * time.Minute

// leases returns all lock and term keys. Those of a snapshot will do if members have
// changed nothing since: mark is the index of the changes key, read before this call.
// Whether people have, is told by Listen, if it is under way and waits for what comes
// after that snapshot; otherwise, or to be sure, by the index of all these keys, which
// moves with every write below the prefix.
func (b *Backend) listLeases(ctx context.Context, mark uint64, sure bool) (map[string]*api.KVPair, error) {
	b.snapshot.mu.Lock()
	shot := b.snapshot.index
	pairs, at, same := b.snapshot.pairs, b.snapshot.at, mark != 0 && b.snapshot.mark == mark
	b.snapshot.mu.Unlock()
	usable := pairs != nil && within(at, maxSnapshotAge)
	if usable && same && !sure && b.index.waitingAfter() == shot {
		return pairs, nil
	}
	asked := time.Now()
	if usable {
		index, err := b.leasesIndex(ctx)
		if err != nil {
			return nil, err
		}
		usable = index == shot
	}
	if !usable {
		var err error
		if pairs, shot, err = b.listKeys(ctx, b.keys.leases); err != nil {
			return nil, err
		}
	}
	b.snapshot.mu.Lock()
	defer b.snapshot.mu.Unlock()
	b.snapshot.index, b.snapshot.mark, b.snapshot.at, b.snapshot.pairs = shot, mark, asked, pairs
	return pairs, nil
}

// leasesIndex asks for the index of the lock and term keys. With a separator the
// answer names two keys only.
func (b *Backend) leasesIndex(ctx context.Context) (uint64, error) {
	_, meta, err := b.client.KV().Keys(b.keys.leases, "/", query(ctx))
	if err != nil {
		return 0, err
	}
	if meta.ResultsFilteredByACLs {
		return 0, errFiltered
	}
	return meta.LastIndex, nil
}

// within reports whether less than d has passed since at, by both clocks: one may
// stand still while the machine is suspended, and the other may be set.
func within(at time.Time, d time.Duration) bool {
	now := time.Now()
	wall := now.Round(0).Sub(at.Round(0))
	return !at.IsZero() && now.Sub(at) < d && wall >= 0 && wall < d
}
