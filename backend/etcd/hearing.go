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
type hearing struct {
	cluster    uint64
	restored   int64
	read       int64            // the revision of the newest reading: only later heartbeats count
	rings      int              // how often Listen has come back: what was read before that has served
	sights     map[string]sight // by election
	heartbeats map[string]*home // by session: those heard since the newest reading
}

// A sight is what a reading has shown of an election that somebody holds.
type sight struct {
	backend.Lease
	session   string
	made      int64  // revision of the creation of the session's key
	heartbeat uint64 // of the record
	at        time.Time
}

// unread is for how many TTLs renewals may be heard until a lease is read again.
const unread = 6

// reads takes in a reading of some elections.
func (h *hearing) reads(v *view, entries []entry) {
	if h.cluster != v.cluster || h.restored != v.restored {
		*h = hearing{cluster: v.cluster, restored: v.restored, rings: h.rings, sights: map[string]sight{}, heartbeats: map[string]*home{}}
	}
	h.read = max(h.read, v.revision)
	maps.DeleteFunc(h.heartbeats, func(_ string, heard *home) bool { return heard.at <= h.read })
	now := time.Now()
	for i := range entries {
		e := &entries[i]
		delete(h.sights, e.Election)
		if e.record == nil || e.Vacant() || e.old || e.mine || v.rings != h.rings {
			continue
		}
		if home := v.sessions[e.record.Session]; home != nil {
			h.sights[e.Election] = sight{e.Lease, e.record.Session, home.made, e.record.Heartbeat, now}
		}
	}
}

// hears takes in what the watch of heartbeats has told.
func (h *hearing) hears(events []*clientv3.Event, heartbeats string) {
	now := time.Now()
	for _, event := range events {
		kv := event.Kv
		if kv.ModRevision <= h.read {
			continue
		}
		session := cut(kv.Key, heartbeats)
		if event.Type == clientv3.EventTypeDelete {
			delete(h.heartbeats, session)
			continue
		}
		if last := h.heartbeats[session]; last == nil || last.at < kv.ModRevision {
			h.heartbeats[session] = readHome(kv)
			h.heartbeats[session].heard = now
		}
	}
}

// notified notes that Listen has come back: what for is read.
func (h *hearing) notified() {
	h.rings++
	clear(h.sights)
}

// renewed returns leases as they are now if each of them was heard to have been renewed
// since it was seen.
func (h *hearing) renewed(seen []backend.Lease) (changed []backend.Lease, ok bool) {
	changed = make([]backend.Lease, 0, len(seen))
	for i := range seen {
		s, known := h.sights[seen[i].Election]
		home := h.heartbeats[s.session]
		if !known || home == nil || home.made != s.made || time.Since(s.at) > unread*s.ObserveFor {
			return nil, false
		}
		now := s.Lease
		now.Heartbeat, now.Age = mix(s.heartbeat, uint64(home.of(now.Election))), time.Since(home.heard)
		if now.Heartbeat == seen[i].Heartbeat || turned(&seen[i], &now) {
			return nil, false
		}
		changed = append(changed, now)
	}
	return changed, true
}
