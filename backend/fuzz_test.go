package backend

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// What people write into stores and configurations, to begin with.
var texts = []string{"", "jobs", "a\x00b", "\xff\xfe", "né\u0301e", "<script>\x1b]0;\u202e", "line\r\nline\ttab", "\u200b\u2028\u2029\ufeff", "\U000e0041", strings.Repeat("€", 2000)}

func FuzzClean(f *testing.F) {
	for i, s := range texts {
		f.Add(s, []int{16, 64, MaxID, MaxMetadata}[i%4], i%2 == 0)
	}
	f.Add("\xff", 1, false) // what replaces it is longer than what is allowed
	f.Fuzz(func(t *testing.T, s string, most int, multiline bool) {
		most = int(uint(most) % (MaxMetadata + 1))
		got := Clean(s, most, multiline)
		if err := CheckText("text", got, most, multiline); err != nil {
			t.Errorf("Clean(%q, %d, %v) = %q: %v", s, most, multiline, got, err)
		}
		if again := Clean(got, most, multiline); again != got {
			t.Errorf("cleaned again, %q becomes %q", got, again)
		}
		if err := CheckText("text", s, most, multiline); err == nil && got != s {
			t.Errorf("%q is allowed, and becomes %q", s, got)
		} else if err != nil && !utf8.ValidString(err.Error()) {
			t.Errorf("the error about %q is not text: %q", s, err)
		}
		for what, err := range map[string]error{"name": CheckName(s), "id": CheckID(s)} {
			if allowed := s != "" && len(s) <= MaxName && Clean(s, MaxName, false) == s; allowed != (err == nil) {
				t.Errorf("as %s %q is allowed: %v; %v", what, s, allowed, err)
			}
		}
	})
}

func FuzzCleanLease(f *testing.F) {
	for i, s := range texts {
		f.Add(s, s, s, uint64(i), int64(math.MinInt64)+int64(i), int64(math.MaxInt64), int64(-i))
	}
	f.Fuzz(func(t *testing.T, id, nonce, more string, term uint64, ttl, age, watch int64) {
		l := Lease{Election: "jobs", Holder: Candidate{ID: id, Nonce: nonce, Address: more, Metadata: more}, Term: term, Heartbeat: term,
			TTL: time.Duration(ttl), Renew: time.Duration(watch), Age: time.Duration(age), ObserveFor: time.Duration(watch),
			End: End(more), LastID: id, LastNonce: nonce, Request: Request{Kind: RequestKind(more), ID: id, Nonce: nonce, Term: term}}
		c := CleanLease(l)
		checkLease(t, c)
		if CleanLease(c) != c {
			t.Errorf("cleaned again, %+v becomes %+v", c, CleanLease(c))
		}
		if c.Term != l.Term || c.Heartbeat != l.Heartbeat || c.Request.Term != l.Request.Term {
			t.Errorf("numbers that identify were changed: %+v, was %+v", c, l)
		}
	})
}

// checkLease is what holds of any lease that has been cleaned.
func checkLease(t *testing.T, l Lease) {
	t.Helper()
	for _, x := range []struct {
		what, text string
		most       int
		multiline  bool
	}{
		{"holder's id", l.Holder.ID, MaxID, false}, {"holder's nonce", l.Holder.Nonce, 64, false},
		{"address", l.Holder.Address, MaxAddress, false}, {"metadata", l.Holder.Metadata, MaxMetadata, true},
		{"last id", l.LastID, MaxID, false}, {"last nonce", l.LastNonce, 64, false}, {"end", string(l.End), 16, false},
		{"kind", string(l.Request.Kind), 16, false}, {"request's id", l.Request.ID, MaxID, false}, {"request's nonce", l.Request.Nonce, 64, false},
	} {
		if err := CheckText(x.what, x.text, x.most, x.multiline); err != nil {
			t.Error(err)
		}
	}
	const sum = 4 // so many of them can be added up
	for what, d := range map[string]time.Duration{"TTL": l.TTL, "Renew": l.Renew, "Age": l.Age} {
		if d < 0 || d > math.MaxInt64/sum {
			t.Errorf("%s is %v", what, d)
		}
	}
	if l.ObserveFor > math.MaxInt64/sum {
		t.Errorf("Watch is %v", l.ObserveFor)
	}
}

func FuzzCleanLeadership(f *testing.F) {
	for _, text := range []string{`{}`, `{"term":1,"id":"a","from":"2026-01-02T03:04:05Z","to":"2026-01-02T03:04:06+01:00","end":"released"}`,
		`{"from":"0000-01-01T00:00:00-23:59"}`, `{"to":"9999-12-31T23:59:59-12:00"}`, `{"id":"\u0000\ud800","end":"<script>"}`, `{"term":-1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r Leadership
		if json.Unmarshal(text, &r) != nil {
			return
		}
		c := CleanLeadership(r)
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", c, err)
		}
		var back Leadership
		if err := json.Unmarshal(again, &back); err != nil || CleanLeadership(back) != c {
			t.Errorf("%+v comes back as %+v, %v", c, back, err)
		}
		if CheckText("id", c.ID, MaxID, false) != nil || CheckText("end", string(c.End), 16, false) != nil {
			t.Errorf("%+v is not clean", c)
		}
	})
}

func FuzzNextTerm(f *testing.F) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixMicro()
	for _, last := range []uint64{0, 1, uint64(now), math.MaxInt64 >> 1, math.MaxInt64, math.MaxUint64} {
		f.Add(last, true, last/2, now)
		f.Add(uint64(7), false, last, -now)
	}
	f.Add(uint64(0), true, uint64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, last uint64, jump bool, floor uint64, us int64) {
		const year10000 = 253402300800_000_000 // what any store's clock can say
		us %= year10000
		term, err := NextTerm(last, jump, floor, time.UnixMicro(us))
		if err != nil {
			return
		}
		if term <= last || term <= floor || int64(term) < us || term > math.MaxInt64 {
			t.Errorf("after %d, above %d, at %d µs: term %d", last, floor, us, term)
		}
		if jump && int64(term) < us+TermJump {
			t.Errorf("at %d µs, after %d, which may not be the last one: term %d, which a lost one may have had", us, last, term)
		}
	})
}
