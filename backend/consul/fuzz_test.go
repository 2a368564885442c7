package consul

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// FuzzEntry reads one election from keys with arbitrary values. there has a bit for each key that
// exists; other bits say who has locked the lock.
func FuzzEntry(f *testing.F) {
	const session = "5f0e2a9c-0000-0000-0000-000000000000"
	me := strings.Repeat("a", 32)
	for i, text := range []string{
		"", "null", "[]", "{", "\xff\x00", `{"term":-1}`, `{"term":18446744073709551615,"ttl_us":9223372036854775807}`, `{"term":5,"ttl_us":-1,"renew_us":-1,"heartbeat":"0"}`,
		`{"term":5,"holder":{"id":"a","nonce":"` + me + `","address":"h:1","metadata":"text"},"ttl_us":10000000,"renew_us":3000000,"session":"` + session + `","heartbeat":"7f","at":"2026-01-02T03:04:05Z"}`,
		`{"term":5,"holder":{"id":"\u0000\u202e","nonce":"<script>"},"session":"../../x","heartbeat":"ffffffffffffffff","at":"0000-01-01T00:00:00-23:59"}`,
		`{"term":5,"id":"a","nonce":"` + me + `","ttl_us":10000000,"heartbeat":"7f","from":"2026-01-02T03:04:05Z","request":{"term":5,"kind":"depose"}}`,
		`{"term":6,"id":"a","nonce":"n","heartbeat":"1","end":"released","to":"9999-12-31T23:59:59-23:59","last":{"id":"\u001b","nonce":"","end":"x"},"history":[{},{"id":"\u0000"}]}`,
		`{"id":"a","nonce":"n","heartbeat":"9","apart":{"jobs":"0","":"1"},"at":"2026-01-02T03:04:05Z"}`,
	} {
		f.Add([]byte(text), []byte(text), []byte(text), uint8(255))
		f.Add([]byte(text), []byte(`{"term":5,"id":"a","nonce":"n","ttl_us":10000000,"heartbeat":"7f"}`), []byte(text), uint8(i))
		f.Add([]byte(`{"term":5,"holder":{"id":"a","nonce":"n"},"ttl_us":10000000,"session":"`+session+`","heartbeat":"7f"}`), []byte(text), []byte(text), uint8(15-i))
	}
	f.Fuzz(func(t *testing.T, aLock, aTerm, aHeartbeat []byte, there uint8) {
		e := &entry{name: "jobs"}
		if there&1 != 0 {
			if e.lockPair = (&api.KVPair{Value: aLock, ModifyIndex: 7}); there&8 != 0 {
				e.lockPair.Session = session
			}
		}
		if there&2 != 0 {
			e.termPair = &api.KVPair{Value: aTerm, ModifyIndex: 8}
		}
		e.parse()
		if there&4 != 0 {
			e.renewals = new(lease.Session)
			if !decode(&api.KVPair{Value: aHeartbeat}, e.renewals) {
				e.renewals = nil
			}
		}
		now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		m := &memory{}
		if there&16 != 0 { // this process has read a later term
			m.record(&entry{name: "jobs", lease: backend.Lease{Term: 1 << 40, TTL: time.Minute}})
		}
		self := ""
		if there&32 != 0 {
			self = me
		}
		e.classify(backend.Nonce(self), true, m, now)
		l := e.lease
		if l != clean.Lease(l) || l.Election != "jobs" || l.Version == "" || len(l.Version) > 600 || !plainText(l.Version) {
			t.Errorf("the lease is not clean: %+v", l)
		}
		if l.TTL > maxTTL || l.Renew > maxTTL || l.ObserveFor < 0 || l.ObserveFor > 4*maxTTL {
			t.Errorf("durations: %+v", l)
		}
		if !e.mine && (!l.Vacant() || e.held) && l.ObserveFor == 0 && l.TTL > 0 {
			t.Errorf("held by another member, and free at once: %+v", l)
		}
		if e.mine && (self == "" || e.lock.Holder.Nonce != self && e.term.Nonce != self) {
			t.Errorf("classified as our own leftover: %+v", l)
		}
		if term, err := backend.NextTerm(e.lastTerm, e.dataLost, 0, now); err == nil && term <= l.Term {
			t.Errorf("term %d after %d", term, l.Term)
		}

		// The record that is written next can be read back.
		e.term.close(backend.Failed, now, 0)
		again := &entry{name: "jobs", termPair: &api.KVPair{Value: encode(e.term)}}
		if again.parse(); !reflect.DeepEqual(again.term, e.term) {
			t.Errorf("%+v comes back as %+v", e.term, again.term)
		}
		if len(e.term.History) > backend.MaxHistory {
			t.Errorf("%d past leaderships", len(e.term.History))
		}
		if r := e.renewals; r != nil {
			next := r.Renew([]string{"jobs"}, []string{"other"}, now)
			var back lease.Session
			if !decode(&api.KVPair{Value: encode(next)}, &back) || back.Of("jobs") != next.Of("jobs") || back.Of("other") != r.Of("other") {
				t.Errorf("%+v, with jobs renewed, comes back as %+v", *r, back)
			}
		}
	})
}

func plainText(s string) bool { return backend.CheckText("ref", s, 512, false) == nil }
