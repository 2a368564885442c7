package etcd

import (
	"fmt"
	"strconv"
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
		Election: e.Election, Request: e.Request, Term: r.Term, Heartbeat: r.Heartbeat, Age: max(0, time.Since(r.Written)),
		End: r.End, LastID: r.LastID, MovedTo: r.MovedTo, MovedFrom: r.MovedFrom,
	}
	e.ownLeftover, e.sessionRevision = false, 0
	if e.missing {
		e.Age = 0
		e.suspect = e.hadRecord || v.recordsMissing || v.otherCluster || v.restoredAt > 0
	} else {
		e.Ref = recordRef(e.recordRevision)
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
		renewed := session.of(e.Election)
		e.sessionRevision, e.Heartbeat = session.revision, combine(r.Heartbeat, uint64(renewed))
		e.Ref += sessionRef(session.createRevision)
		if renewed == session.Heartbeat && session.At.After(r.Written) {
			e.Age = max(0, time.Since(session.At))
		}
		if e.ownLeftover = v.nonce != "" && r.Nonce == string(v.nonce) && !e.suspect && e.mayBeHeld; e.ownLeftover {
			e.ObserveFor = 0
		}
	}
	if e.suspect {
		// The last grant may be missing from the store.
		e.ObserveFor = max(e.ObserveFor, v.longestTTL, minTTL)
		e.Ref += fmt.Sprintf("?%x.%d", v.cluster, v.restoredAt)
		if e.missing { // only this shows that it was led and deleted again meanwhile
			e.Ref += fmt.Sprintf(".%d", v.deletedRecords)
		}
	}
	if e.Request.Term != e.Term || e.Request.Kind == "" {
		e.Request = backend.Request{}
	}
	e.Lease = clean.Lease(e.Lease)
}

// recordRef and sessionRef make Lease.Ref, which a challenger must see unchanged: the
// revision of the record, and for a held lease the revision that created the session key.
func recordRef(recordAt int64) string { return strconv.FormatInt(recordAt, 10) }

func sessionRef(made int64) string { return "." + strconv.FormatInt(made, 10) }

// noSessionRecord stands for a missing session key.
var noSessionRecord sessionRecord

// heldBy reports whether the record names the nonce as the holder.
func (e *entry) heldBy(nonce string) bool { return e.record != nil && e.record.Nonce == nonce }

// free reports whether a bid would be granted at once.
func (e *entry) free() bool { return e.Vacant() && e.ObserveFor == 0 }
