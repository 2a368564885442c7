package electionhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/lab/testbed"
)

// A node is a member that serves requests, as programs do: it forwards what it does not serve itself.
type node struct {
	t       *testing.T
	server  *httptest.Server
	manager *election.Manager
	e       *election.Election
	served  atomic.Int32
}

// startNode starts a member whose handler answers with its id, the term and the body.
func startNode(t *testing.T, store *memory.Store, id string, o electionhttp.ForwardOptions) *node {
	t.Helper()
	n := &node{t: t}
	var h atomic.Pointer[http.Handler]
	n.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*h.Load()).ServeHTTP(w, r) }))
	t.Cleanup(n.server.Close)
	n.manager = manager(t, store, election.Options{ID: id, Address: n.server.Listener.Addr().String(), TTL: time.Second}, false)
	e, err := n.manager.Join("api")
	testbed.NoError(t, err)
	forward, err := electionhttp.Forward(e, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.served.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s%s %s", id, r.Header.Get(electionhttp.TermHeader), r.Host, r.URL.Path, body)
	}), o)
	testbed.NoError(t, err)
	h.Store(&forward)
	n.e = e
	return n
}

func (n *node) leads() {
	n.t.Helper()
	if _, err := n.e.Campaign(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// asks sends a request to the node, and returns status and answer.
func (n *node) asks(method, body string, header ...string) (int, string) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.server.URL+"/jobs/7", strings.NewReader(body))
	testbed.NoError(n.t, err)
	r.Host = "api.example.com"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	testbed.NoError(n.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	testbed.NoError(n.t, err)
	return a.StatusCode, string(text)
}

func (n *node) mustAnswer(what string, status int, want, method, body string, header ...string) {
	n.t.Helper()
	if got, text := n.asks(method, body, header...); got != status || !strings.Contains(text, want) {
		n.t.Errorf("%s: %d %.200q, want %d with %q", what, got, text, status, want)
	}
}

func TestForwardServesWhereTheElectionIsLed(t *testing.T) {
	store := memory.New()
	a := startNode(t, store, "a", electionhttp.ForwardOptions{Wait: 50 * time.Millisecond})
	b := startNode(t, store, "b", electionhttp.ForwardOptions{})
	a.leads()
	knows(t, b.manager, "api", "a")
	want := fmt.Sprintf("a %d api.example.com/jobs/7 hello", a.e.Leadership().Term)
	a.mustAnswer("the leader", http.StatusOK, want, http.MethodPost, "hello")
	b.mustAnswer("a follower", http.StatusOK, want, http.MethodPost, "hello")
	b.mustAnswer("a term that a client sets", http.StatusOK, want, http.MethodPost, "hello", electionhttp.TermHeader, "99")
	a.mustAnswer("a forwarded request of a later term", http.StatusMisdirectedRequest, "", http.MethodPost, "hello", electionhttp.TermHeader, "9999999999999999999", "Election-Forwarded", "1")
	if b.served.Load() > 0 {
		t.Error("rule violated: only the leader serves")
	}
}

func TestForwardGoesInNoCircle(t *testing.T) {
	store := memory.New()
	a := startNode(t, store, "a", electionhttp.ForwardOptions{})
	a.leads()

	// b takes itself for the leader's address, as if two processes had the same.
	var b *node
	b = startNode(t, store, "b", electionhttp.ForwardOptions{
		Wait: 50 * time.Millisecond,
		URL:  func(election.Candidate) (*url.URL, error) { return url.Parse(b.server.URL) },
	})
	knows(t, b.manager, "api", "a")
	b.mustAnswer("a circle", http.StatusBadGateway, "could not be reached", http.MethodGet, "")
	b.mustAnswer("a circle", http.StatusBadGateway, "no longer the leader", http.MethodPost, "")
	b.mustAnswer("a forwarded request at a follower", http.StatusMisdirectedRequest, "does not lead", http.MethodGet, "", "Election-Forwarded", "1")
}

func TestForwardWaitsForALeader(t *testing.T) {
	store := memory.New()
	hasty := startNode(t, store, "hasty", electionhttp.ForwardOptions{Wait: -1})
	hasty.mustAnswer("without a wait", http.StatusServiceUnavailable, "nobody leads", http.MethodGet, "")

	a, b := startNode(t, store, "a", electionhttp.ForwardOptions{Wait: time.Minute}), startNode(t, store, "b", electionhttp.ForwardOptions{Wait: time.Minute})
	answers := make(chan string)
	for _, n := range []*node{a, b} {
		go func() {
			_, text := n.asks(http.MethodPost, "later")
			answers <- text
		}()
	}
	a.leads()
	for range 2 {
		if text := <-answers; !strings.HasPrefix(text, "a ") {
			t.Errorf("a request that waited for a leader got %q", text)
		}
	}
}

func TestForwardRepeatsWhatIsIdempotentAfterAChangeOfLeader(t *testing.T) {
	for _, c := range []struct {
		method, body string
		status       int
		want         string
	}{
		{http.MethodGet, "", http.StatusOK, "b "},
		{http.MethodPut, "state", http.StatusOK, " state"},
		{http.MethodPut, strings.Repeat("x", 65<<10), http.StatusBadGateway, "may have served"},
		{http.MethodPost, "work", http.StatusBadGateway, "may have served"},
	} {
		t.Run(fmt.Sprint(c.method, " of ", len(c.body), " bytes"), func(t *testing.T) {
			t.Parallel()
			store := memory.New()
			a := startNode(t, store, "a", electionhttp.ForwardOptions{})
			b := startNode(t, store, "b", electionhttp.ForwardOptions{Wait: time.Minute})
			tried := make(chan struct{})
			var once sync.Once
			c3 := startNode(t, store, "c", electionhttp.ForwardOptions{Wait: time.Minute, URL: func(leader election.Candidate) (*url.URL, error) {
				once.Do(func() { close(tried) })
				return url.Parse("http://" + leader.Address)
			}})
			a.leads()
			knows(t, b.manager, "api", "a")
			knows(t, c3.manager, "api", "a")
			a.server.Close() // it leads, and nobody can reach it
			go func() {
				<-tried
				shut(a.manager)
				b.e.Campaign(t.Context())
			}()
			c3.mustAnswer("after a change of leader", c.status, c.want, c.method, c.body)
			if c.status != http.StatusOK && b.served.Load() > 0 {
				t.Error("rule violated: what is not idempotent is never sent twice")
			}
		})
	}
}

// The leader's host is gone: it never answers.
func TestForwardGivesUpALeaderThatAnotherOneHasFollowed(t *testing.T) {
	store := memory.New()
	b, c := startNode(t, store, "b", electionhttp.ForwardOptions{}), startNode(t, store, "c", electionhttp.ForwardOptions{Wait: time.Minute})
	reached := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	dead := manager(t, store, election.Options{ID: "dead", Address: silent.URL, TTL: time.Second}, true, "api")
	knows(t, c.manager, "api", "dead")
	answer := make(chan string)
	go func() {
		_, text := c.asks(http.MethodGet, "")
		answer <- text
	}()
	<-reached
	shut(dead)
	b.leads()
	if text := <-answer; !strings.HasPrefix(text, "b ") {
		t.Errorf("the request got %q", text)
	}
}

// The work of a request ends with the leadership.
func TestARequestEndsWithTheLeadership(t *testing.T) {
	store := memory.New()
	m := manager(t, store, election.Options{ID: "a", TTL: time.Second}, true, "api")
	began, ended := make(chan struct{}), make(chan error, 1)
	h, err := electionhttp.Forward(m.Election("api"), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		ended <- context.Cause(r.Context())
	}), electionhttp.ForwardOptions{Wait: time.Minute})
	testbed.NoError(t, err)
	go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	<-began
	m.Pause()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "paused") {
		t.Errorf("the request's context ended with %v", err)
	}
}

func TestForwardRefusesBadAddresses(t *testing.T) {
	if _, err := electionhttp.Forward(nil, http.NotFoundHandler(), electionhttp.ForwardOptions{}); err == nil {
		t.Error("no election is accepted")
	}
	for _, address := range []string{"", "no sense", "ftp://x:1", "http://", "http://%zz"} {
		store := memory.New()
		n := startNode(t, store, "b", electionhttp.ForwardOptions{Wait: 50 * time.Millisecond})
		manager(t, store, election.Options{ID: "leader", Address: address, TTL: time.Second}, true, "api")
		knows(t, n.manager, "api", "leader")
		n.mustAnswer(fmt.Sprintf("a leader at %q", address), http.StatusBadGateway, "has no address", http.MethodPost, "")
		n.mustAnswer(fmt.Sprintf("a leader at %q", address), http.StatusBadGateway, "has no address", http.MethodGet, "")
	}
}
