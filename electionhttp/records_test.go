package electionhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/page"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
)

// A lister is a store in memory whose List is another one. It counts the calls.
type lister struct {
	backend.Backend
	list  func(ctx context.Context, from string, limit int) ([]backend.Record, error)
	calls atomic.Int64
}

func (l *lister) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	l.calls.Add(1)
	if l.list == nil {
		return l.Backend.List(ctx, from, limit)
	}
	return l.list(ctx, from, limit)
}

// lists returns a handler that reads records from l.
func lists(t *testing.T, l *lister, o electionhttp.Options, names ...string) *electionhttp.Handler {
	t.Helper()
	m, err := election.New(l, election.Options{Observer: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(m) })
	for _, name := range names {
		if _, err := m.Join(name); err != nil {
			t.Fatal(err)
		}
	}
	return handler(t, m, o)
}

// listed writes the records of an answer in short.
func listed(v map[string]any) string {
	var all []string
	for _, r := range v["records"].([]any) {
		r := r.(map[string]any)
		leader := "nobody"
		if l, ok := r["leader"].(map[string]any); ok {
			leader = fmt.Sprint(l["id"])
		}
		all = append(all, fmt.Sprintf("%v by %s%s%s", r["election"], leader, map[bool]string{true: ", joined"}[r["joined"].(bool)], map[bool]string{true: ", expired"}[r["expired"].(bool)]))
	}
	return strings.Join(all, "; ")
}

// pageOf makes a List of records in the order of their names.
func pageOf(records ...backend.Record) func(context.Context, string, int) ([]backend.Record, error) {
	return func(_ context.Context, from string, limit int) ([]backend.Record, error) {
		return page.Cut(slices.Clone(records), from, limit, func(r backend.Record) string { return r.Election }), nil
	}
}

func record(name string, l backend.Lease) backend.Record {
	l.Election = name
	return backend.Record{Lease: l}
}

func TestRecordsAreThoseOfTheWholeStore(t *testing.T) {
	led := backend.Lease{Term: 3, Holder: backend.Candidate{ID: "a", Nonce: backend.NewNonce(), Metadata: "zone=1"}, TTL: 10 * time.Second, Age: time.Second, ObserveFor: 10 * time.Second}
	crashed, session := led, led
	crashed.Age, session.Age, session.ObserveFor = time.Minute, time.Minute, backend.ExpiresInStore
	l := &lister{Backend: memory.New().Backend(), list: pageOf(record("led", led), record("crashed", crashed), record("in a session", session),
		record("done", backend.Lease{Term: 2}), record("mine", led), record("retired", backend.Lease{Term: 2, End: backend.Forgotten}))}
	h := lists(t, l, electionhttp.Options{Details: true}, "mine", "never led")
	v := read(t, h, "/records")
	if got, want := listed(v), "crashed by a, expired; done by nobody; in a session by a; led by a; mine by a, joined"; got != want || v["matching"] != 5.0 || v["more"] != false {
		t.Errorf("the records are %s (%v), want %s", got, v, want)
	}
	if text := fmt.Sprint(v); strings.Contains(text, string(led.Holder.Nonce)) || strings.Contains(text, led.Holder.Nonce.Short()) || strings.Contains(text, "zone=1") {
		t.Errorf("an answer has a nonce or metadata: %s", text)
	}
	for query, want := range map[string]string{
		"joined=yes": "mine by a, joined", "joined=no&limit=2": "crashed by a, expired; done by nobody", "limit=0": "",
	} {
		if got := listed(read(t, h, "/records?"+query)); got != want {
			t.Errorf("%s: the records are %s, want %s", query, got, want)
		}
	}
	for _, bad := range []string{"joined=x", "limit=-1", "limit=10001"} {
		if w := get(h, "GET", "/records?"+bad); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d, want 400", bad, w.Code)
		}
	}
	if w := get(h, "POST", "/records"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d, want 405", w.Code)
	}
}

// A page that is reloaded costs the store nothing.
func TestRecordsAreReadOncePerTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lister{Backend: memory.New().Backend()}
		h := lists(t, l, electionhttp.Options{})
		for range 9 {
			for range 10 {
				go get(h, "GET", "/records")
			}
			time.Sleep(time.Second)
		}
		if n := l.calls.Load(); n != 1 {
			t.Errorf("90 requests within 9 s have read the store %d times, want 1", n)
		}
		if ago := read(t, h, "/records")["read_ms_ago"].(float64); ago < 8900 || ago > 9100 {
			t.Errorf("the answer says that it was read %v ms ago, want 9000", ago)
		}
		time.Sleep(2 * time.Second)
		if read(t, h, "/records"); l.calls.Load() != 2 {
			t.Errorf("after 11 s the store was read %d times, want 2", l.calls.Load())
		}
	})
}

// endless returns a store whose records go on for ever, after a wait for each page.
func endless(wait func(context.Context) error) *lister {
	l := &lister{Backend: memory.New().Backend()}
	l.list = func(ctx context.Context, _ string, limit int) (list []backend.Record, _ error) {
		n := int(l.calls.Load()-1) * limit
		if err := wait(ctx); err != nil {
			return nil, err
		}
		for i := range limit {
			list = append(list, record(fmt.Sprintf("shard/%08d", n+i), backend.Lease{Term: 1}))
		}
		return list, nil
	}
	return l
}

func TestRecordsOfALargeStoreAreCut(t *testing.T) {
	l := endless(func(context.Context) error { return nil })
	h := lists(t, l, electionhttp.Options{})
	if v := read(t, h, "/records"); v["more"] != true || v["matching"] != 10000.0 || len(v["records"].([]any)) != 1000 {
		t.Errorf("more is %v, %v match, %d are shown; want true, 10000, 1000", v["more"], v["matching"], len(v["records"].([]any)))
	}
	if n := l.calls.Load(); n > 21 {
		t.Errorf("the store was asked for %d pages, want 21 at most", n)
	}
}

func TestRecordsOfASlowStoreDoNotHang(t *testing.T) {
	for what, c := range map[string]struct {
		answers bool // after two seconds; else never
		want    int
	}{
		"a store that never answers":       {false, http.StatusServiceUnavailable},
		"a store that answers very slowly": {true, http.StatusOK},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				after := time.Duration(1<<63 - 1)
				if c.answers {
					after = 2 * time.Second
				}
				l := endless(func(ctx context.Context) error {
					select {
					case <-ctx.Done():
						return fmt.Errorf("%w: %w", backend.ErrUnavailable, ctx.Err())
					case <-time.After(after):
						return nil
					}
				})
				h := lists(t, l, electionhttp.Options{})
				began := time.Now()
				w := get(h, "GET", "/records?limit=1")
				if took := time.Since(began); w.Code != c.want || took > 5*time.Second {
					t.Errorf("%d after %v: %s; want %d within 5 s", w.Code, took, w.Body, c.want)
				}
				if body := w.Body.String(); c.answers && (!strings.Contains(body, `"matching":1000,`) || !strings.Contains(body, `"more":true`)) {
					t.Errorf("the answer is %s, want what was read within 5 s", body)
				}
			})
		})
	}
}

func TestRecordsOfADenyingStoreShowNoSecret(t *testing.T) {
	for details, want := range map[bool]string{false: `{"error":"denied"}`, true: `{"error":"denied","detail":"store denied: SELECT for app@db1"}`} {
		l := &lister{Backend: memory.New().Backend(), list: func(context.Context, string, int) ([]backend.Record, error) {
			return nil, fmt.Errorf("%w: SELECT for app@db1", backend.ErrDenied)
		}}
		w := get(lists(t, l, electionhttp.Options{Details: details}), "GET", "/records")
		if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusBadGateway || got != want {
			t.Errorf("with details %v: %d %s, want 502 %s", details, w.Code, got, want)
		}
	}
}
