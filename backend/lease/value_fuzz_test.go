package lease

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A still driver has limits and a clock, and no store.
type still struct{ Driver }

func (still) Limits() Limits {
	return Limits{Name: "still", MinTTL: time.Second, MaxTTL: 5 * time.Minute, Batch: 40, MaxValue: MaxValue,
		Now: func() time.Time { return time.Unix(1e9, 0).UTC() }}
}

// FuzzValues classifies one election from items with arbitrary values. there has a bit for each
// item that exists, and for what is known besides.
func FuzzValues(f *testing.F) {
	me, other := strings.Repeat("a", 32), strings.Repeat("b", 32)
	held := Encode(&Record{Term: 5, ID: "me", Nonce: me, Heartbeat: 9, TTL: Span(time.Second), Session: "g", Written: time.Unix(1, 0).UTC(), Epoch: "7", Election: "jobs", Write: 1})
	theirs := Encode(&Record{Term: math.MaxUint64, ID: "x", Nonce: other, Heartbeat: 1, TTL: math.MaxInt64, Session: "g", Epoch: "7", Election: "jobs", Write: 1, Request: &Request{Kind: backend.Depose}})
	vacant := Encode(&Record{Term: 6, Heartbeat: 9, End: backend.Released, LastID: "x", History: []backend.Leadership{{Term: 6, ID: "x"}}, Epoch: "7", Election: "jobs", Write: 1})
	session := Encode(&Session{ID: "x", Nonce: other, Generation: "g", Heartbeat: 7, Apart: map[string]Heartbeat{"jobs": 8, "other": 9}, At: time.Unix(2, 0).UTC()})
	meta := Encode(&Meta{Layout: 1, Made: 3, MaxTTL: Span(10 * time.Second), Epoch: "7"})
	for i, text := range []string{"", "null", "[]", "{", "\xff\x00", `{"term":-1}`, `{"ttl":"-1s","renew":"2562047h"}`, `{"ttl":"9e99s"}`, `{"id":"\u0000\u202e","nonce":"x","term":1}`,
		`{"term":18446744073709551615,"nonce":"x"}`, `{"elected":"0000-01-01T00:00:00-23:59","written":"9999-12-31T23:59:59-23:59"}`, `{"session":"../../record/x","nonce":"x"}`, `{"made":-9223372036854775808,"deleted":-1}`, `{"layout":2}`,
		`{"heartbeat":"-1"}`, `{"heartbeat":7}`, `{"heartbeat":"7","apart":{"jobs":"x"}}`, `{"apart":null,"at":"0000-01-01T00:00:00+23:59"}`, `{"request":{"kind":"depose","id":"\u0007"}}`,
		`{"term":7,"id":"a","nonce":"n","written":"2026-01-01T00:00:00+24:00","history":[{"term":6,"id":"b","from":"0000-01-01T00:00:00+23:59","to":"9999-12-31T23:59:59-23:59"}]}`} {
		f.Add([]byte(text), []byte(text), []byte(text), uint8(255))
		f.Add([]byte(text), []byte(held), []byte(meta), uint8(i))
		f.Add([]byte(session), []byte(text), []byte(meta), uint8(16+i))
	}
	f.Add([]byte(session), []byte(held), []byte(meta), uint8(15))
	f.Add([]byte(session), []byte(theirs), []byte(meta), uint8(7))
	f.Add([]byte(session), []byte(vacant), []byte(meta), uint8(6))
	f.Fuzz(func(t *testing.T, aSession, aRecord, aMeta []byte, there uint8) {
		b := New(still{})
		if there&8 != 0 {
			b.held["jobs"] = nil
		}
		b.known["jobs"] = remembered{term: uint64(there & 16)}
		items := map[Key]Item{}
		for i, it := range []Item{{Key: Key{Sessions, other}, Value: Decode(Sessions, aSession)}, {Key: Key{Records, "jobs"}, Value: Decode(Records, aRecord)}, {Key: Key{Metas, ""}, Value: Decode(Metas, aMeta)}} {
			if there>>i&1 == 1 {
				it.Version, it.Created, it.Age, it.Old = "1", "1", -1, there&64 != 0
				items[it.Key] = it
			}
		}
		v := &view{source: source{epoch: "7"}, nonce: backend.Nonce(me), items: items, metaRead: true, meta: items[Key{Metas, ""}], records: int64(there >> 5)}
		s := &state{item: items[Key{Records, "jobs"}]}
		s.Election = "jobs"
		b.derive(v, s)
		checkClassified(t, b, s)
		again := *s
		b.derive(v, &again)
		if again.Age, s.Age = 0, 0; !reflect.DeepEqual(again.Lease, s.Lease) {
			t.Errorf("classified again, %+v becomes %+v", s.Lease, again.Lease)
		}

		// What is written over it can be read back.
		next, err := backend.NextTerm(s.Term, s.suspect, 0, time.Now())
		if err == nil {
			r := newGrant(v, s, &backend.Bid{Election: "jobs", Candidate: backend.Candidate{ID: "me", Nonce: backend.Nonce(me)}, TTL: 10 * time.Second, Renew: time.Second}, next, "g", time.Now().UTC())
			back, _ := Decode(Records, []byte(Encode(r))).(*Record)
			if next <= s.Term || back == nil || back.Term != next || back.Nonce != me || len(back.History) > backend.MaxHistory {
				t.Errorf("granted after %+v in term %d: %+v", s.Lease, next, back)
			}
		}
		if r := s.record; r != nil {
			if back := Decode(Records, []byte(Encode(r))); !reflect.DeepEqual(back, Value(r)) && len(Encode(r)) <= MaxValue {
				t.Errorf("the record %+v is read back as %+v", r, back)
			}
		}
		if of, ok := Decode(Sessions, aSession).(*Session); ok {
			renewed := of.Renew([]string{"jobs"}, []string{"other"}, time.Now())
			Encode(&renewed) // panics if it cannot
		}
	})
}

func checkClassified(t *testing.T, b *Backend, s *state) {
	t.Helper()
	l, r := s.Lease, s.record
	if l != clean.Lease(l) || l.Election != "jobs" || l.Version == "" || len(l.Version) > 600 {
		t.Errorf("the lease is not clean: %+v", l)
	}
	if r != nil && r.Term > 0 && r.Nonce != "" && !s.own && (l.ObserveFor < b.limits.MinTTL || l.ObserveFor > b.limits.MaxTTL || l.ObserveFor < min(l.TTL, b.limits.MaxTTL)) {
		t.Errorf("a held lease is to be watched for %v only: %+v", l.ObserveFor, l)
	}
	if (s.suspect || !s.missing && (r == nil || r.Term == 0 || r.Election != "jobs")) && l.ObserveFor < b.limits.MinTTL {
		t.Errorf("a lease whose last grant may be lost is free at once: %+v", l)
	}
	if s.own && (string(l.Holder.Nonce) == "" || s.suspect) {
		t.Errorf("taken for this process's own leftover: %+v", l)
	}
	if l.Request != (backend.Request{}) && l.Request.Term != l.Term {
		t.Errorf("a request of another term: %+v", l)
	}
}
