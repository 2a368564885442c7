package etcd

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// FuzzKeys reads one election from keys with arbitrary values. there has a bit for each key
// that exists.
func FuzzKeys(f *testing.F) {
	const cluster = 7
	me, other := strings.Repeat("a", 32), strings.Repeat("b", 32)
	held := encode(record{Term: 5, ID: "me", Nonce: me, Heartbeat: 9, TTL: span(time.Second), Session: "s", Written: time.Unix(1, 0).UTC(), Cluster: cluster, Election: "jobs", Write: 1})
	theirs := encode(record{Term: math.MaxUint64, ID: "x", Nonce: other, Heartbeat: 1, TTL: math.MaxInt64, Session: "s", Cluster: cluster, Election: "jobs", Write: 1})
	vacant := encode(record{Term: 6, Heartbeat: 9, End: backend.Released, LastID: "x", History: []backend.Leadership{{Term: 6, ID: "x"}}, Cluster: cluster, Election: "jobs", Write: 1})
	heartbeats := encode(lease.Session{ID: "x", Nonce: other, Heartbeat: 7, Apart: map[string]lease.Heartbeat{"jobs": 8, "other": 9}, At: time.Unix(2, 0).UTC()})
	depose := encode(request{Term: 5, Kind: backend.Depose})
	known := encode(layout{Version: 1, Made: 3, MaxTTL: span(10 * time.Second), Cluster: cluster})
	for i, text := range []string{"", "null", "[]", "{", "\xff\x00", `{"term":-1}`, `{"ttl":"-1s","renew":"2562047h"}`, `{"ttl":"9e99s"}`, `{"id":"\u0000\u202e","nonce":"x","term":1}`,
		`{"term":18446744073709551615,"nonce":"x"}`, `{"elected":"0000-01-01T00:00:00-23:59","written":"9999-12-31T23:59:59-23:59"}`, `{"session":"../../record/x","nonce":"x"}`, `{"made":-9223372036854775808,"again":-1}`, `{"layout":2}`,
		`{"heartbeat":"-1"}`, `{"heartbeat":7}`, `{"heartbeat":"7","apart":{"jobs":"x"}}`, `{"apart":null,"at":"0000-01-01T00:00:00+23:59"}`} {
		f.Add([]byte(text), []byte(text), []byte(text), []byte(text), uint8(255))
		f.Add([]byte(text), []byte(held), []byte(depose), []byte(known), uint8(i))
		f.Add([]byte(heartbeats), []byte(text), []byte(text), []byte(known), uint8(16+i))
	}
	f.Add([]byte(heartbeats), []byte(held), []byte(depose), []byte(known), uint8(31))
	f.Add([]byte(heartbeats), []byte(theirs), []byte(depose), []byte(known), uint8(15))
	f.Add([]byte(heartbeats), []byte(vacant), []byte(depose), []byte(known), uint8(14))
	f.Fuzz(func(t *testing.T, aHeartbeat, aRecord, aRequest, aLayout []byte, there uint8) {
		b := &Backend{keys: "p/"}
		r := readResult{snapshot: snapshot{cluster: cluster, revision: 100, nonce: backend.Nonce(me), sessions: map[string]*sessionRecord{}, restoredAt: int64(there & 64), recordsMissing: there&32 != 0},
			entries: []entry{{Lease: backend.Lease{Election: "jobs"}, hadRecord: there&128 != 0, mayBeHeld: there&16 != 0}}}
		found := r.byName()
		for i, kv := range []*mvccpb.KeyValue{{Key: []byte("p/heartbeat/s"), Value: aHeartbeat}, {Key: []byte("p/record/jobs"), Value: aRecord}, {Key: []byte("p/request/jobs"), Value: aRequest}, {Key: []byte("p/layout"), Value: aLayout}} {
			if there>>i&1 == 1 {
				kv.CreateRevision, kv.ModRevision, kv.Version = 1, 50, 1
				b.applyKey(&r.snapshot, found, kv)
			}
		}
		v, e := &r.snapshot, &r.entries[0]
		v.classify(e)
		l := e.Lease
		if l != clean.Lease(l) || l.Election != "jobs" || l.Version == "" || len(l.Version) > 600 {
			t.Errorf("the lease is not clean: %+v", l)
		}
		if rec := e.record; rec != nil && rec.Term > 0 && rec.Nonce != "" && !e.ownLeftover && (l.ObserveFor < minTTL || l.ObserveFor > maxTTL || l.ObserveFor < min(l.TTL, maxTTL)) {
			t.Errorf("a held lease is to be watched for %v only: %+v", l.ObserveFor, l)
		}
		if (e.suspect || !e.missing && (e.record == nil || e.record.Term == 0 || e.record.Election != "jobs" || e.record.Write != 1)) && l.ObserveFor < minTTL {
			t.Errorf("a lease whose last grant may be lost is free at once: %+v", l)
		}
		if e.ownLeftover && (string(l.Holder.Nonce) != me || e.suspect) {
			t.Errorf("taken for this process's own leftover: %+v", l)
		}
		if l.Request != (backend.Request{}) && l.Request.Term != l.Term {
			t.Errorf("a request of another term: %+v", l)
		}
		again := *e
		v.classify(&again)
		again.Age, e.Age = 0, 0
		if !reflect.DeepEqual(again, *e) {
			t.Errorf("classified again, %+v becomes %+v", *e, again)
		}

		// The record that is written over it can be read back.
		next, err := backend.NextTerm(e.Term, e.suspect, 0, time.Now())
		if err == nil {
			o := newGrant(v, e, backend.Bid{Election: "jobs", Candidate: backend.Candidate{ID: "me", Nonce: backend.Nonce(me)}, TTL: 10 * time.Second, Renew: time.Second}, next, time.Now().UTC())
			back := readRecord([]byte(encode(o.record)))
			if next <= l.Term || back == nil || back.Term != next || back.Nonce != me || len(back.History) > backend.MaxHistory {
				t.Errorf("granted after %+v in term %d: %+v", l, next, back)
			}
		}
		if rec := e.record; rec != nil {
			if back := readRecord([]byte(encode(rec))); !reflect.DeepEqual(back, rec) && len(encode(rec)) <= maxValue {
				t.Errorf("the record %+v is read back as %+v", rec, back)
			}
		}
		if h := v.sessions["s"]; h != nil {
			encode(h.Renew([]string{"jobs"}, []string{"other"}, time.Now().UTC())) // panics if it cannot
		}
		v.layout.countMade([]change{{entry: e}})
	})
}

// FuzzEndpoint checks that errors show no part of an address that was not understood, since
// it may contain a password.
func FuzzEndpoint(f *testing.F) {
	for _, e := range []string{"", "a", "a:2379", "http://a", "https://a:2379/", "ftp://a", "http://u:open-sesame@a", "http://[::1", "://", "http://a/b?c#d", "http://\x7f", "unix:///x", "HTTP://a"} {
		f.Add(e, true)
		f.Add(e, false)
	}
	f.Fuzz(func(t *testing.T, e string, secure bool) {
		address, err := endpoint(e, secure)
		if err != nil {
			if err := backend.CheckText("error", err.Error(), 1000, false); err != nil {
				t.Error(err)
			}
			if strings.Contains(err.Error(), "open-sesame") {
				t.Errorf("%v shows a password", err)
			}
			return
		}
		if !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") || secure && strings.HasPrefix(address, "http://") || strings.Contains(address, "@") {
			t.Errorf("%q becomes %q", e, address)
		}
		if again, err := endpoint(address, secure); err != nil || again != address {
			t.Errorf("%q becomes %q, and that %q, %v", e, address, again, err)
		}
	})
}
