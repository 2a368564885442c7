package etcd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// classify derives the lease from the keys of one election: whether it is free, and what a
// challenger must watch, and for how long. docs/design/etcd.md, "When a lease is free".
func (v *snapshot) classify(e *entry) {
	r := e.record
	e.missing = e.recordRevision == 0
	invalid := !e.missing && (r == nil || r.Term == 0)
	if r == nil || invalid {
		r = &record{}
	}
	e.tampered = !e.missing && !invalid && (r.Election != e.Election || r.Write != e.version)
	e.Lease = backend.Lease{
		Election: e.Election, Request: e.Request, Term: r.Term, Age: max(0, time.Since(r.Written)),
		End: r.End, LastID: r.LastID, MovedTo: r.MovedTo, MovedFrom: r.MovedFrom,
	}
	heartbeat, sessionCreated := r.Heartbeat, int64(0)
	e.ownLeftover, e.sessionRevision = false, 0
	if e.missing {
		e.Age = 0
		e.suspect = e.hadRecord || v.recordsMissing || v.otherCluster || v.restoredAt > 0
	} else {
		e.suspect = invalid || e.tampered || r.Cluster != v.cluster || e.recordRevision <= v.restoredAt
	}
	if r.ID != "" || r.Nonce != "" {
		e.Holder = backend.Candidate{ID: r.ID, Nonce: backend.Nonce(r.Nonce), Address: r.Address, Metadata: r.Metadata}
		e.TTL, e.Renew = time.Duration(r.TTL), time.Duration(r.Renew)
		e.ObserveFor = min(max(e.TTL, minTTL), maxTTL)
		session := v.sessions[r.Session]
		if session == nil || e.tampered { // the key was deleted, or does not count: the holder may have renewed until now
			session = &noSessionRecord
		}
		renewed := session.Of(e.Election)
		e.sessionRevision, sessionCreated, heartbeat = session.revision, session.createRevision, combine(r.Heartbeat, uint64(renewed))
		if renewed == session.Heartbeat && session.At.After(r.Written) {
			e.Age = max(0, time.Since(session.At))
		}
		if e.ownLeftover = v.nonce != "" && r.Nonce == string(v.nonce) && !e.suspect && e.mayBeHeld; e.ownLeftover {
			e.ObserveFor = 0
		}
	}
	e.Version = version(heartbeat, e.recordRevision, sessionCreated)
	if e.suspect {
		// The last grant may be missing from the store.
		e.ObserveFor = max(e.ObserveFor, v.longestTTL, minTTL)
		e.Version += fmt.Sprintf("?%x.%d", v.cluster, v.restoredAt)
		if e.missing { // only this shows that it was led and deleted again meanwhile
			e.Version += fmt.Sprintf(".%d", v.deletedRecords)
		}
	}
	if e.Request.Term != e.Term || e.Request.Kind == "" {
		e.Request = backend.Request{}
	}
	e.Lease = clean.Lease(e.Lease)
}

// version makes the Version of a lease of its heartbeat and of what else a challenger must
// see unchanged: the revision of the record, and for a held lease the revision that created
// the session key.
func version(heartbeat uint64, recordRevision, sessionCreated int64) string {
	v := append(strconv.AppendUint(make([]byte, 0, 64), heartbeat, 36), ' ')
	v = append(strconv.AppendInt(v, recordRevision, 10), '.')
	return string(strconv.AppendInt(v, sessionCreated, 10))
}

// changedBeyondHeartbeat is Differs, except that it ignores the heartbeats in the Versions.
func changedBeyondHeartbeat(old, now *backend.Lease) bool {
	same := *now
	_, was, _ := strings.Cut(old.Version, " ")
	if _, is, _ := strings.Cut(now.Version, " "); is == was {
		same.Version = old.Version
	}
	return same.Differs(*old)
}

// noSessionRecord stands for a missing session key.
var noSessionRecord sessionRecord

// heldBy reports whether the record names the nonce as the holder.
func (e *entry) heldBy(nonce backend.Nonce) bool {
	return e.record != nil && e.record.Nonce == string(nonce)
}

// free reports whether a bid would be granted at once.
func (e *entry) free() bool { return e.Vacant() && e.ObserveFor == 0 }
