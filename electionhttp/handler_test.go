package electionhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/lab/testbed"
)

// manager starts a manager that joins elections, and campaigns in them if lead is true.
func manager(t *testing.T, store *memory.Store, o election.Options, lead bool, names ...string) *election.Manager {
	t.Helper()
	return managerOn(t, store.Backend(), o, lead, names...)
}

// managerOn is manager on a backend that the test closes, or has wrapped.
func managerOn(t *testing.T, b backend.Backend, o election.Options, lead bool, names ...string) *election.Manager {
	t.Helper()
	m, err := election.New(b, o)
	testbed.NoError(t, err)
	t.Cleanup(func() { shut(m) })
	for _, name := range names {
		e, err := m.Join(name)
		testbed.NoError(t, err)
		if lead {
			testbed.NoError(t, e.Lead(nil))
		}
	}
	return m
}

// shut closes a manager. With a store that does not answer, Close takes as long as its context allows.
func shut(m *election.Manager) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m.Close(ctx)
}

func handler(t *testing.T, m *election.Manager, o electionhttp.Options) *electionhttp.Handler {
	t.Helper()
	h, err := electionhttp.New(m, o)
	testbed.NoError(t, err)
	t.Cleanup(h.Close)
	return h
}

// answers fails the test unless a request is answered with this code.
func answers(t *testing.T, h http.Handler, method, path string, code int) {
	t.Helper()
	if w := get(h, method, path); w.Code != code {
		t.Errorf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, code)
	}
}

// knows waits until a process knows a leader.
func knows(t *testing.T, m *election.Manager, name, leader string) {
	t.Helper()
	for ev := range m.Election(name).Events(t.Context()) {
		if ev.Kind == election.Elected && ev.Leader.ID == leader {
			return
		}
	}
}

func get(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func read(t *testing.T, h http.Handler, path string) (v map[string]any) {
	t.Helper()
	w := get(h, "GET", path)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, w.Body)
	}
	return v
}

func TestLeaderAnswers200OnlyOnTheLeader(t *testing.T) {
	store := memory.New()
	a := manager(t, store, election.Options{ID: "a", TTL: time.Minute}, true, "billing/nightly")
	knows(t, a, "billing/nightly", "a")
	b := manager(t, store, election.Options{ID: "b", TTL: time.Minute}, true, "billing/nightly")
	knows(t, b, "billing/nightly", "a")
	ha, hb := handler(t, a, electionhttp.Options{}), handler(t, b, electionhttp.Options{})
	for _, path := range []string{"/leader/billing%2Fnightly", "/leader/billing/nightly"} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			answers(t, ha, method, path, 200) // the leader's
			answers(t, hb, method, path, 503) // a follower's
		}
	}
	if w := get(ha, "POST", "/leader/billing%2Fnightly"); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST /leader: %d, want 405 and Allow", w.Code)
	}
	answers(t, ha, "GET", "/leader/jobs", 404) // it was not joined
	var says struct {
		Leading bool
		Leader  string
	}
	if w := get(hb, "GET", "/leader/billing%2Fnightly"); json.Unmarshal(w.Body.Bytes(), &says) != nil || says.Leading || says.Leader != "a" {
		t.Errorf("a follower says %s, want that a leads", w.Body)
	}
	testbed.NoError(t, a.Close(context.Background()))
	if w := get(ha, "GET", "/leader/billing%2Fnightly"); w.Code == 200 {
		t.Error("200 after the manager was closed")
	}
	knows(t, b, "billing/nightly", "b")
	answers(t, hb, "GET", "/leader/billing%2Fnightly", 200)
}

func TestAnObserverRequestsButCannotPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		manager(t, store, election.Options{ID: "a"}, true, "job")
		observer := manager(t, store, election.Options{Observer: true}, false, "job")
		time.Sleep(time.Second)
		h := handler(t, observer, electionhttp.Options{Authorize: allowAll})
		for body, want := range map[string]int{
			`{"action":"pause"}`:                    409,
			`{"action":"resume"}`:                   409,
			`{"action":"resign","election":"job"}`:  409,
			`{"action":"depose","election":"job"}`:  200,
			`{"action":"depose","election":"none"}`: 404,
		} {
			if w := post(h, body); w.Code != want {
				t.Errorf("%s: %d %s, want %d", body, w.Code, w.Body, want)
			}
		}
		answers(t, h, "GET", "/leader/job", 404) // an observer knows who leads late
	})
}

func TestHealthAndReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unhealthy atomic.Pointer[error]
		unhealthy.Store(new(error))
		b := memory.New().Backend()
		m := managerOn(t, b, election.Options{ID: "a", Health: func(context.Context) error { return *unhealthy.Load() }}, true, "jobs")
		h := handler(t, m, electionhttp.Options{})
		after := func(d time.Duration, when string, health, ready int) {
			t.Helper()
			time.Sleep(d) // of virtual time
			if w := get(h, "GET", "/healthz"); w.Code != health {
				t.Errorf("healthz %s: %d %s, want %d", when, w.Code, w.Body, health)
			}
			if w := get(h, "GET", "/readyz"); w.Code != ready {
				t.Errorf("readyz %s: %d %s, want %d", when, w.Code, w.Body, ready)
			}
		}
		after(time.Second, "without a fault", 200, 200)
		bad := errors.New("no disk")
		unhealthy.Store(&bad)
		after(5*time.Second, "while Options.Health fails", 200, 503)
		unhealthy.Store(new(error))
		after(5*time.Second, "when it passes again", 200, 200)
		m.Pause()
		after(5*time.Second, "while paused by an operator", 200, 200)
		m.Resume()
		b.Close() // from now on the store does not answer
		after(time.Second, "a second after the store has failed", 200, 200)
		after(20*time.Second, "two TTLs after the store has failed", 200, 503)
		shut(m)
		after(0, "after the manager was closed", 503, 503)
		h.Close()
		after(0, "after the handler was closed", 503, 503)
	})
}

func TestEveryAnswerHasSafeHeaders(t *testing.T) {
	h := handler(t, manager(t, memory.New(), election.Options{ID: "a"}, false, "jobs"), electionhttp.Options{})
	for _, path := range []string{"/", "/page.js", "/page.css", "/kit.js", "/detail.js", "/icon.svg", "/elections", "/elections/jobs", "/changes", "/leader/jobs", "/healthz", "/readyz", "/nothing", "/actions", "/elections?limit=x"} {
		head := get(h, "GET", path).Header()
		csp := head.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: the Content-Security-Policy %q has no %s", path, csp, want)
			}
		}
		if strings.Contains(csp, "unsafe") {
			t.Errorf("%s: the Content-Security-Policy %q has an unsafe source", path, csp)
		}
		for key, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
			if got := head.Get(key); got != want {
				t.Errorf("%s: %s is %q, want %q", path, key, got, want)
			}
		}
		if head.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s lets other sites read it", path)
		}
	}
}

func TestThePageLoadsNoForeignResources(t *testing.T) {
	h := handler(t, manager(t, memory.New(), election.Options{ID: "a"}, false), electionhttp.Options{})
	for _, path := range []string{"/", "/page.js", "/page.css", "/kit.js", "/detail.js"} {
		w := get(h, "GET", path)
		if w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %d bytes", path, w.Code, w.Body.Len())
		}
		body := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "") // an XML namespace, not an address
		for _, bad := range []string{"http://", "https://", "innerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=", "<style", " onclick=\"", "href=\"/", "src=\"/"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s contains %s", path, bad)
			}
		}
	}
}

func TestTheHandlerWorksUnderAPrefix(t *testing.T) {
	h := handler(t, manager(t, memory.New(), election.Options{ID: "a"}, false, "billing/nightly"), electionhttp.Options{})
	mux := http.NewServeMux()
	mux.Handle("/ops/election/", http.StripPrefix("/ops/election", h))
	if w := get(mux, "GET", "/ops/election"); w.Header().Get("Location") != "/ops/election/" {
		t.Errorf("without the slash: %d to %q", w.Code, w.Header().Get("Location"))
	}
	for _, path := range []string{"", "page.js", "elections", "elections/billing%2Fnightly", "healthz"} {
		answers(t, mux, "GET", "/ops/election/"+path, 200)
	}
	answers(t, mux, "GET", "/ops/election/leader/billing%2Fnightly", 503)
}

func TestAHandlerNeedsAManager(t *testing.T) {
	if _, err := electionhttp.New(nil, electionhttp.Options{}); !errors.Is(err, backend.ErrInvalid) {
		t.Errorf("without a manager: %v, want ErrInvalid", err)
	}
}
