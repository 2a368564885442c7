package etcd

import (
	"maps"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// A watchCache lets Observe answer without reading that leases were renewed. It has the
// leases of others as they were last read, and the heartbeats that Listen has observed
// since. It answers nothing else, and grants nothing: docs/design/etcd.md, "What is
// remembered between calls", says why that is safe.
type watchCache struct {
	cluster      uint64
	restoredAt   int64
	readRevision int64                     // of the newest read: only later heartbeats count
	generation   int                       // how often Listen has returned: earlier reads are not used
	leases       map[string]cachedLease    // by election
	heartbeats   map[string]*sessionRecord // by session: those observed since the newest read
}

// A cachedLease is a lease that another process held when it was read.
type cachedLease struct {
	backend.Lease
	session        string
	recordRevision int64
	createRevision int64  // of the session key
	heartbeat      uint64 // of the record
	readAt         time.Time
}

// maxUnreadTTLs is for how many TTLs a lease may be known by observed heartbeats alone.
const maxUnreadTTLs = 6

// addRead caches the leases of a read.
func (c *watchCache) addRead(v *snapshot, entries []entry) {
	if c.cluster != v.cluster || c.restoredAt != v.restoredAt {
		*c = watchCache{cluster: v.cluster, restoredAt: v.restoredAt, generation: c.generation, leases: map[string]cachedLease{}, heartbeats: map[string]*sessionRecord{}}
	}
	c.readRevision = max(c.readRevision, v.revision)
	maps.DeleteFunc(c.heartbeats, func(_ string, observed *sessionRecord) bool { return observed.revision <= c.readRevision })
	now := time.Now()
	for i := range entries {
		e := &entries[i]
		delete(c.leases, e.Election)
		if e.record == nil || e.Vacant() || e.suspect || e.ownLeftover || v.generation != c.generation {
			continue
		}
		if session := v.sessions[e.record.Session]; session != nil {
			c.leases[e.Election] = cachedLease{e.Lease, e.record.Session, e.recordRevision, session.createRevision, e.record.Heartbeat, now}
		}
	}
}

// addEvents caches heartbeats that the watch has delivered; directory is their prefix.
func (c *watchCache) addEvents(events []*clientv3.Event, directory string) {
	now := time.Now()
	for _, event := range events {
		kv := event.Kv
		if kv.ModRevision <= c.readRevision {
			continue
		}
		session := nameIn(kv.Key, directory)
		if event.Type == clientv3.EventTypeDelete {
			delete(c.heartbeats, session)
			continue
		}
		if last := c.heartbeats[session]; last == nil || last.revision < kv.ModRevision {
			c.heartbeats[session] = readSessionRecord(kv)
			c.heartbeats[session].observedAt = now
		}
	}
}

// listenReturned drops the leases when Listen returns, so that the change is read.
func (c *watchCache) listenReturned() {
	c.generation++
	clear(c.leases)
}

// renewed returns the leases as they are now if the watch has shown a renewal of each
// since it was seen.
func (c *watchCache) renewed(seen []backend.Lease) (changed []backend.Lease, ok bool) {
	changed = make([]backend.Lease, 0, len(seen))
	for i := range seen {
		lease, known := c.leases[seen[i].Election]
		session := c.heartbeats[lease.session]
		if !known || session == nil || session.createRevision != lease.createRevision || time.Since(lease.readAt) > maxUnreadTTLs*lease.ObserveFor {
			return nil, false
		}
		now := lease.Lease
		now.Version = version(combine(lease.heartbeat, uint64(session.Of(now.Election))), lease.recordRevision, lease.createRevision)
		now.Age = time.Since(session.observedAt)
		if now.Version == seen[i].Version || changedBeyondHeartbeat(&seen[i], &now) {
			return nil, false
		}
		changed = append(changed, now)
	}
	return changed, true
}
