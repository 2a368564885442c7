package etcd

import (
	"maps"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// A hearing is what is remembered so that renewals need not be read: what readings have
// shown of elections that others hold, and the heartbeats that Listen has heard since.
//
// Only what was heard is ever answered by it. A heartbeat that is heard was written before,
// and sent before that: whoever watches the lease from then on watches for no less than
// had the heartbeat been read. That nothing was heard means nothing: it is the answer of a
// reading alone, and so is everything else that may have happened to a lease. Nothing is
// granted by it either. A bid for what somebody holds is compared with a reading of its
// own, and pinned to that.
//
// The watch of heartbeats may run ahead of that of records or behind it, or miss something.
// Behind, or deaf: then nothing is heard, and it is read. Ahead: a session is heard to be
// renewed of which a lease no longer is, since somebody has taken it over. Whoever
// believes that watches for longer, until the watch of records tells. So that this ends
// even if that watch is deaf, each lease is read after some TTLs, whatever is heard.
type watchCache struct {
	cluster      uint64
	restoredAt   int64
	readRevision int64                     // the revision of the newest reading: only later heartbeats count
	generation   int                       // how often Listen has come back: what was read before that has served
	leases       map[string]cachedLease    // by election
	heartbeats   map[string]*sessionRecord // by session: those heard since the newest reading
}

// A sight is what a reading has shown of an election that somebody holds.
type cachedLease struct {
	backend.Lease
	session        string
	createRevision int64  // revision of the creation of the session's key
	heartbeat      uint64 // of the record
	readAt         time.Time
}

// unread is for how many TTLs renewals may be heard until a lease is read again.
const maxUnreadTTLs = 6

// reads takes in a reading of some elections.
func (h *watchCache) addRead(v *snapshot, entries []entry) {
	if h.cluster != v.cluster || h.restoredAt != v.restoredAt {
		*h = watchCache{cluster: v.cluster, restoredAt: v.restoredAt, generation: h.generation, leases: map[string]cachedLease{}, heartbeats: map[string]*sessionRecord{}}
	}
	h.readRevision = max(h.readRevision, v.revision)
	maps.DeleteFunc(h.heartbeats, func(_ string, heard *sessionRecord) bool { return heard.revision <= h.readRevision })
	now := time.Now()
	for i := range entries {
		e := &entries[i]
		delete(h.leases, e.Election)
		if e.record == nil || e.Vacant() || e.suspect || e.ownLeftover || v.generation != h.generation {
			continue
		}
		if home := v.sessions[e.record.Session]; home != nil {
			h.leases[e.Election] = cachedLease{e.Lease, e.record.Session, home.createRevision, e.record.Heartbeat, now}
		}
	}
}

// hears takes in what the watch of heartbeats has told.
func (h *watchCache) addEvents(events []*clientv3.Event, heartbeats string) {
	now := time.Now()
	for _, event := range events {
		kv := event.Kv
		if kv.ModRevision <= h.readRevision {
			continue
		}
		session := nameIn(kv.Key, heartbeats)
		if event.Type == clientv3.EventTypeDelete {
			delete(h.heartbeats, session)
			continue
		}
		if last := h.heartbeats[session]; last == nil || last.revision < kv.ModRevision {
			h.heartbeats[session] = readSessionRecord(kv)
			h.heartbeats[session].observedAt = now
		}
	}
}

// notified notes that Listen has come back: what for is read.
func (h *watchCache) listenReturned() {
	h.generation++
	clear(h.leases)
}

// renewed returns leases as they are now if each of them was heard to have been renewed
// since it was seen.
func (h *watchCache) renewed(seen []backend.Lease) (changed []backend.Lease, ok bool) {
	changed = make([]backend.Lease, 0, len(seen))
	for i := range seen {
		s, known := h.leases[seen[i].Election]
		home := h.heartbeats[s.session]
		if !known || home == nil || home.createRevision != s.createRevision || time.Since(s.readAt) > maxUnreadTTLs*s.ObserveFor {
			return nil, false
		}
		now := s.Lease
		now.Heartbeat, now.Age = combine(s.heartbeat, uint64(home.of(now.Election))), time.Since(home.observedAt)
		if now.Heartbeat == seen[i].Heartbeat || changedBeyondHeartbeat(&seen[i], &now) {
			return nil, false
		}
		changed = append(changed, now)
	}
	return changed, true
}
