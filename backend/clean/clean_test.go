package clean_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// What people write into stores and configurations, to begin with.
var texts = []string{"", "jobs", "a\x00b", "\xff\xfe", "né\u0301e", "<script>\x1b]0;\u202e", "line\r\nline\ttab", "\u200b\u2028\u2029\ufeff", "\U000e0041", strings.Repeat("€", 2000)}

func FuzzText(f *testing.F) {
	for i, s := range texts {
		f.Add(s, []int{16, 64, backend.MaxID, backend.MaxMetadata}[i%4], i%2 == 0)
	}
	f.Add("\xff", 1, false) // what replaces it is longer than what is allowed
	f.Fuzz(func(t *testing.T, s string, most int, multiline bool) {
		most = int(uint(most) % (backend.MaxMetadata + 1))
		got := clean.Text(s, most, multiline)
		if err := backend.CheckText("text", got, most, multiline); err != nil {
			t.Errorf("Text(%q, %d, %v) = %q: %v", s, most, multiline, got, err)
		}
		if again := clean.Text(got, most, multiline); again != got {
			t.Errorf("cleaned again, %q becomes %q", got, again)
		}
		if err := backend.CheckText("text", s, most, multiline); err == nil && got != s {
			t.Errorf("%q is allowed, and becomes %q", s, got)
		} else if err != nil && !utf8.ValidString(err.Error()) {
			t.Errorf("the error about %q is not text: %q", s, err)
		}
		for what, err := range map[string]error{"name": backend.CheckName(s), "id": backend.CheckID(s)} {
			if allowed := s != "" && len(s) <= backend.MaxName && clean.Text(s, backend.MaxName, false) == s; allowed != (err == nil) {
				t.Errorf("as %s %q is allowed: %v; %v", what, s, allowed, err)
			}
		}
	})
}

func FuzzLease(f *testing.F) {
	for i, s := range texts {
		f.Add(s, s, s, uint64(i), int64(math.MinInt64)+int64(i), int64(math.MaxInt64), int64(-i))
	}
	f.Fuzz(func(t *testing.T, id, nonce, more string, term uint64, ttl, age, watch int64) {
		l := backend.Lease{Election: "jobs", Holder: backend.Candidate{ID: id, Nonce: backend.Nonce(nonce), Address: more, Metadata: more}, Term: term, Version: more,
			TTL: time.Duration(ttl), Renew: time.Duration(watch), Age: time.Duration(age), ObserveFor: time.Duration(watch),
			End: backend.End(more), LastID: id, Request: backend.Request{Kind: backend.RequestKind(more), ID: id, Nonce: backend.Nonce(nonce), Term: term}}
		c := clean.Lease(l)
		checkLease(t, c)
		if clean.Lease(c) != c {
			t.Errorf("cleaned again, %+v becomes %+v", c, clean.Lease(c))
		}
		if c.Term != l.Term || c.Version != l.Version || c.Request.Term != l.Request.Term {
			t.Errorf("what identifies was changed: %+v, was %+v", c, l)
		}
	})
}

// checkLease is what holds of any lease that has been cleaned.
func checkLease(t *testing.T, l backend.Lease) {
	t.Helper()
	for _, x := range []struct {
		what, text string
		most       int
		multiline  bool
	}{
		{"holder's id", l.Holder.ID, backend.MaxID, false}, {"holder's nonce", string(l.Holder.Nonce), 64, false},
		{"address", l.Holder.Address, backend.MaxAddress, false}, {"metadata", l.Holder.Metadata, backend.MaxMetadata, true},
		{"last id", l.LastID, backend.MaxID, false}, {"end", string(l.End), 16, false},
		{"kind", string(l.Request.Kind), 16, false}, {"request's id", l.Request.ID, backend.MaxID, false}, {"request's nonce", string(l.Request.Nonce), 64, false},
	} {
		if err := backend.CheckText(x.what, x.text, x.most, x.multiline); err != nil {
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

func FuzzLeadership(f *testing.F) {
	for _, text := range []string{`{}`, `{"term":1,"id":"a","from":"2026-01-02T03:04:05Z","to":"2026-01-02T03:04:06+01:00","end":"released"}`,
		`{"from":"0000-01-01T00:00:00-23:59"}`, `{"to":"9999-12-31T23:59:59-12:00"}`, `{"id":"\u0000\ud800","end":"<script>"}`, `{"term":-1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r backend.Leadership
		if json.Unmarshal(text, &r) != nil {
			return
		}
		c := clean.History([]backend.Leadership{r})[0]
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", c, err)
		}
		var back backend.Leadership
		if err := json.Unmarshal(again, &back); err != nil || clean.History([]backend.Leadership{back})[0] != c {
			t.Errorf("%+v comes back as %+v, %v", c, back, err)
		}
		if backend.CheckText("id", c.ID, backend.MaxID, false) != nil || backend.CheckText("end", string(c.End), 16, false) != nil {
			t.Errorf("%+v is not clean", c)
		}
	})
}

// encoding/json reads times that it refuses to write.
func TestTimesFromAStoreCanBeWrittenAgain(t *testing.T) {
	for _, text := range []string{
		`"2026-01-01T00:00:00+24:00"`, `"0000-01-01T00:00:00+23:59"`, `"0000-01-01T00:00:00Z"`, `"9999-12-31T23:59:59-23:59"`,
		`"0001-01-01T00:00:00Z"`, `"2026-11-21T10:00:00.123456789+08:00"`,
	} {
		var read time.Time
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			continue
		}
		r := clean.History([]backend.Leadership{{From: read, To: read}})[0]
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s was read, and cannot be written: %v", text, err)
		}
		if y := read.UTC().Year(); y >= 1 && y <= 9999 && !r.From.Equal(read) {
			t.Errorf("%s became %v", text, r.From)
		}
	}
}

func TestAHistoryIsCutAndCleanedAndTheOneThatWasRememberedStays(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	var history []backend.Leadership
	for term := range uint64(backend.MaxHistory + 2) {
		before := slices.Clone(history)
		longer := clean.Remember(history, backend.Leadership{Term: term, ID: "a\x1b[2J"}, backend.Failed, now, 0)
		if !slices.Equal(history, before) {
			t.Fatalf("remembering term %d changed the history that was passed in: %v, before %v", term, history, before)
		}
		if longer[0].Term != term || longer[0].ID != "a\uFFFD[2J" || len(longer) != min(len(before)+1, backend.MaxHistory) || !slices.Equal(longer[1:], before[:len(longer)-1]) {
			t.Fatalf("term %d after %v gives %v", term, before, longer)
		}
		history = longer
	}
}

// The end of a leadership is that of its lease, however late it is recorded, and never before it began,
// even if a clock is set back.
func TestALeadershipEndsWithItsLeaseAndNotBeforeItBegan(t *testing.T) {
	began := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for what, c := range map[string]struct {
		now    time.Time
		lapsed time.Duration
		want   time.Time
	}{
		"released, in another zone":  {began.Add(time.Hour).In(time.FixedZone("", 3600)), 0, began.Add(time.Hour)},
		"its lease expired long ago": {began.Add(time.Hour), 5 * time.Minute, began.Add(55 * time.Minute)},
		"the clock was set back":     {began.Add(-time.Hour), 0, began},
	} {
		want := backend.Leadership{Term: 7, ID: "a", From: began, To: c.want, End: backend.Deposed}
		got := clean.Remember(nil, backend.Leadership{Term: 7, ID: "a", From: began}, backend.Deposed, c.now, c.lapsed)
		if !slices.Equal(got, []backend.Leadership{want}) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
}

// A client library wraps its own error, which prints the secret however often it is wrapped.
func TestSecretsAreRemovedWithTheChainThatHasThem(t *testing.T) {
	inner := errors.New("login as app with hunter22 failed")
	err := fmt.Errorf("%w: %w: %w", backend.ErrDenied, context.Canceled, inner)
	got := clean.Secrets(err, "", "app", "hunter22")
	if want := "store denied: context canceled: login as app with *** failed"; got.Error() != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(got, backend.ErrDenied) || !errors.Is(got, context.Canceled) || errors.Is(got, inner) || errors.Is(got, backend.ErrUnavailable) {
		t.Errorf("%v must keep its class and lose the error that has the secret", got)
	}
	if same := clean.Secrets(err, "other"); same.Error() != err.Error() || !errors.Is(same, inner) {
		t.Errorf("an error without the secret was changed: %v", same)
	}
}

// A client library puts each address that it tried into a line of its own.
func TestAnErrorIsOneLine(t *testing.T) {
	inner := errors.New("a: refused")
	err := fmt.Errorf("%w: cannot connect:\n\t%w", backend.ErrDenied, errors.Join(inner, errors.New("b: refused")))
	got := clean.Secrets(err, "hunter22")
	if want := "store denied: cannot connect: a: refused; b: refused"; got.Error() != want || !errors.Is(got, inner) || !errors.Is(got, backend.ErrDenied) {
		t.Errorf("got %q, want %q that is still the error", got, want)
	}
	for text, want := range map[string]string{
		"webhook denied the request: \n\nblocked by:\r\n  labels: 'x'\n\n": "webhook denied the request: blocked by: labels: 'x'",
		"a bad DSN: host=a\npassword=hunter22":                             "a bad DSN: ***",
	} {
		if got := clean.Secrets(errors.New(text), "host=a\npassword=hunter22"); got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
