package etcd

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-election/go-election/backend"
)

// judge says what the keys of one election mean: for whom it is free, and what a
// challenger must have watched.
func (v *snapshot) classify(e *entry) {
	r := e.record
	e.missing = e.recordRevision == 0
	ruined := !e.missing && (r == nil || r.Term == 0)
	if r == nil || ruined {
		r = &record{}
	}
	e.tampered = !e.missing && !ruined && (r.Election != e.Election || r.Write != e.version)
	e.Lease = backend.Lease{
		Election: e.Election, Request: e.Request, Term: r.Term, Heartbeat: r.Heartbeat, Age: max(0, time.Since(r.Written)),
		End: r.End, LastID: r.LastID, LastNonce: r.LastNonce, MovedTo: r.MovedTo, MovedFrom: r.MovedFrom,
	}
	e.ownLeftover, e.sessionRevision = false, 0
	if e.missing {
		e.Age = 0
		e.suspect = e.hadRecord || v.recordsMissing || v.otherCluster || v.restoredAt > 0
	} else {
		e.Ref = recordRef(e.recordRevision)
		e.suspect = ruined || e.tampered || r.Cluster != v.cluster || e.recordRevision <= v.restoredAt
	}
	if r.ID != "" || r.Nonce != "" {
		e.Holder = backend.Candidate{ID: r.ID, Nonce: r.Nonce, Address: r.Address, Metadata: r.Metadata}
		e.TTL, e.Renew = time.Duration(r.TTL), time.Duration(r.Renew)
		e.ObserveFor = min(max(e.TTL, minTTL), maxTTL)
		home := v.sessions[r.Session]
		if home == nil || e.tampered { // etcd has ended it, or a hand: it may have been renewed until now
			home = &noSessionRecord
		}
		renewed := home.of(e.Election)
		e.sessionRevision, e.Heartbeat = home.revision, combine(r.Heartbeat, uint64(renewed))
		e.Ref += sessionRef(home.createRevision)
		if renewed == home.Heartbeat && home.At.After(r.Written) {
			e.Age = max(0, time.Since(home.At))
		}
		if e.ownLeftover = v.nonce != "" && r.Nonce == v.nonce && !e.suspect && e.mayBeHeld; e.ownLeftover {
			e.ObserveFor = 0
		}
	}
	if e.suspect {
		// What was granted last may not be in the store any more.
		e.ObserveFor = max(e.ObserveFor, v.longestTTL, minTTL)
		e.Ref += fmt.Sprintf("?%x.%d", v.cluster, v.restoredAt)
		if e.missing { // nothing else would show that it was led and deleted meanwhile
			e.Ref += fmt.Sprintf(".%d", v.deletedRecords)
		}
	}
	if e.Request.Term != e.Term || e.Request.Kind == "" {
		e.Request = backend.Request{}
	}
	e.Lease = backend.CleanLease(e.Lease)
}

// ref is what a challenger must see unchanged: the record, by its revision. What is held
// hangs on a session besides, whose key was made at a revision.
func recordRef(recordAt int64) string { return strconv.FormatInt(recordAt, 10) }

func sessionRef(made int64) string { return "." + strconv.FormatInt(made, 10) }

// home0 stands for a key that is not there.
var noSessionRecord sessionRecord

// belongs reports whether the record names the nonce as the holder.
func (e *entry) heldBy(nonce string) bool { return e.record != nil && e.record.Nonce == nonce }

// free reports whether nobody holds it, and nobody needs to be waited for.
func (e *entry) free() bool { return e.Vacant() && e.ObserveFor == 0 }
