package etcd

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// A readResult is some elections as they were read, or as a watch has shown them since.
//
// The last one with few elections is remembered, so that a bid can be sent without
// reading first. It may be out of date, so the transaction compares revisions and values:
// docs/design/etcd.md, "What is remembered between calls".
type readResult struct {
	snapshot  snapshot
	entries   []entry
	err       error
	at        time.Time
	fromWatch bool // a watch has updated it, and Observe has not returned that yet
}

// byName indexes the entries.
func (r *readResult) byName() map[string]*entry {
	found := make(map[string]*entry, len(r.entries))
	for i := range r.entries {
		found[r.entries[i].Election] = &r.entries[i]
	}
	return found
}

// lastRevision returns the revision of the last read if it shows the leases as seen and is
// no older than a TTL: Listen can begin there. Otherwise it returns 0.
func (b *Backend) lastRevision(seen []backend.Lease) (revision int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lastRead == nil || b.lastRead.snapshot.restoredAt != b.restoredAt {
		return 0
	}
	found, age := b.lastRead.byName(), time.Since(b.lastRead.at)
	for i := range seen {
		if e := found[seen[i].Election]; e == nil || changedBeyondHeartbeat(&seen[i], &e.Lease) || age > max(e.TTL, minTTL) {
			return 0
		}
	}
	return b.lastRead.snapshot.revision
}

// updateLastRead applies events of a watch that has delivered all events since a revision.
func (b *Backend) updateLastRead(since int64, resp *clientv3.WatchResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.lastRead
	if r == nil {
		return
	}
	if r.snapshot.revision < since || r.snapshot.restoredAt != b.restoredAt {
		b.lastRead = nil // events in between are missing
		return
	}
	found := r.byName()
	for _, event := range resp.Events {
		if event.Kv.ModRevision > r.snapshot.revision {
			b.applyKey(&r.snapshot, found, event.Kv)
		}
	}
	r.snapshot.revision = max(r.snapshot.revision, resp.Events[len(resp.Events)-1].Kv.ModRevision)
	for i := range r.entries {
		e := &r.entries[i]
		e.hadRecord = e.hadRecord || e.recordRevision != 0
		b.hadRecord[e.Election] = e.hadRecord
		_, e.mayBeHeld = b.held[e.Election]
		r.snapshot.classify(e)
	}
	r.fromWatch = true
}

// fromWatches returns the leases as the watches have just shown them, if all of them were
// renewed or all have become free. This needs no read: a bid that comes too late is
// refused, because it requires the revisions that the watch has shown.
func (b *Backend) fromWatches(seen []backend.Lease) (changed []backend.Lease, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cache.restoredAt == b.restoredAt {
		if changed, ok := b.cache.renewed(seen); ok {
			return changed, true
		}
	}
	if b.lastRead == nil || !b.lastRead.fromWatch {
		return nil, false
	}
	b.lastRead.fromWatch = false
	if b.lastRead.snapshot.restoredAt != b.restoredAt {
		return nil, false
	}
	found := b.lastRead.byName()
	for i := range seen {
		e := found[seen[i].Election]
		if e == nil || e.missing || seen[i].Version == "" || !e.free() || !e.Differs(seen[i]) {
			return nil, false
		}
		changed = append(changed, e.Lease)
	}
	return changed, true
}

// rememberedFor returns the last read of a part of the bids if each of them would be
// granted by it, or nil.
func (b *Backend) rememberedFor(bids []backend.Bid, part []int) *readResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.lastRead
	b.lastRead = nil // the caller changes it
	if last == nil || last.snapshot.restoredAt != b.restoredAt {
		return nil
	}
	found := last.byName()
	entries := make([]entry, len(part))
	for n, i := range part {
		e := found[bids[i].Election]
		if e == nil || e.missing || !e.free() || !e.Unchanged(bids[i].Expected) {
			return nil
		}
		entries[n] = *e
		entries[n].remembered = true
	}
	last.entries, last.snapshot.nonce = entries, b.owner.Nonce()
	return last
}
