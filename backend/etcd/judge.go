package etcd

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-election/go-election/backend"
)

// judge says what the keys of one election mean: for whom it is free, and what a
// challenger must have watched.
func (v *view) judge(e *entry) {
	r := e.record
	e.missing = e.recordAt == 0
	ruined := !e.missing && (r == nil || r.Term == 0)
	if r == nil || ruined {
		r = &record{}
	}
	e.odd = !e.missing && !ruined && (r.Election != e.Election || r.Write != e.writes)
	e.Lease = backend.Lease{
		Election: e.Election, Request: e.Request, Term: r.Term, Heartbeat: r.Heartbeat, Age: max(0, time.Since(r.Written)),
		End: r.End, LastID: r.LastID, LastNonce: r.LastNonce, MovedTo: r.MovedTo, MovedFrom: r.MovedFrom,
	}
	e.mine, e.heartbeatAt = false, 0
	if e.missing {
		e.Age = 0
		e.old = e.met || v.lossy || v.foreign || v.restored > 0
	} else {
		e.Ref = ref(e.recordAt)
		e.old = ruined || e.odd || r.Cluster != v.cluster || e.recordAt <= v.restored
	}
	if r.ID != "" || r.Nonce != "" {
		e.Holder = backend.Candidate{ID: r.ID, Nonce: r.Nonce, Address: r.Address, Metadata: r.Metadata}
		e.TTL, e.Renew = time.Duration(r.TTL), time.Duration(r.Renew)
		e.ObserveFor = min(max(e.TTL, minTTL), maxTTL)
		home := v.sessions[r.Session]
		if home == nil || e.odd { // etcd has ended it, or a hand: it may have been renewed until now
			home = &home0
		}
		renewed := home.of(e.Election)
		e.heartbeatAt, e.Heartbeat = home.at, mix(r.Heartbeat, uint64(renewed))
		e.Ref += refUnder(home.made)
		if renewed == home.Heartbeat && home.At.After(r.Written) {
			e.Age = max(0, time.Since(home.At))
		}
		if e.mine = v.self != "" && r.Nonce == v.self && !e.old && e.may; e.mine {
			e.ObserveFor = 0
		}
	}
	if e.old {
		// What was granted last may not be in the store any more.
		e.ObserveFor = max(e.ObserveFor, v.longest, minTTL)
		e.Ref += fmt.Sprintf("?%x.%d", v.cluster, v.restored)
		if e.missing { // nothing else would show that it was led and deleted meanwhile
			e.Ref += fmt.Sprintf(".%d", v.deleted)
		}
	}
	if e.Request.Term != e.Term || e.Request.Kind == "" {
		e.Request = backend.Request{}
	}
	e.Lease = backend.CleanLease(e.Lease)
}

// ref is what a challenger must see unchanged: the record, by its revision. What is held
// hangs on a session besides, whose key was made at a revision.
func ref(recordAt int64) string { return strconv.FormatInt(recordAt, 10) }

func refUnder(made int64) string { return "." + strconv.FormatInt(made, 10) }

// home0 stands for a key that is not there.
var home0 home

// belongs reports whether the record names the nonce as the holder.
func (e *entry) belongs(nonce string) bool { return e.record != nil && e.record.Nonce == nonce }

// free reports whether nobody holds it, and nobody needs to be waited for.
func (e *entry) free() bool { return e.Vacant() && e.ObserveFor == 0 }
