package consul

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

const labTTL = 2 * time.Second

// A lab is a prefix of its own on an agent, with a client for what operators do.
type lab struct {
	agent  *testbed.ConsulAgent
	root   *api.Client
	prefix string
}

// record and session name the keys of items.
func (l *lab) record(election string) string      { return l.prefix + "/record/" + election }
func (l *lab) session(nonce backend.Nonce) string { return l.prefix + "/session/" + string(nonce) }

func newLab(t *testing.T, agent *testbed.ConsulAgent) *lab {
	t.Helper()
	prefix := "lab/" + string(backend.NewNonce()[:16])
	l := &lab{agent, admins(t, agent), prefix}
	t.Cleanup(func() { wipe(l.root, prefix) })
	return l
}

// wipe deletes all keys below a prefix, if the agent still answers.
func wipe(root *api.Client, prefix string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	root.KV().DeleteTree(prefix+"/", (&api.WriteOptions{}).WithContext(ctx))
}

// A node is a Backend without a manager, and its candidate.
type node struct {
	*Backend
	t    *testing.T
	me   backend.Candidate
	wire *wire
	ttl  time.Duration // of its bids
}

// A wire records the requests of a client.
type wire struct {
	next   http.RoundTripper
	mu     sync.Mutex
	sent   []sentRequest
	before func(sentRequest) // is called before a request is sent; nil: nothing
}

type sentRequest struct{ method, url, body string }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = string(text)
		r.Body = io.NopCloser(strings.NewReader(body))
	}
	w.mu.Lock()
	sent := sentRequest{r.Method, r.URL.String(), body}
	w.sent = append(w.sent, sent)
	before := w.before
	w.mu.Unlock()
	if before != nil {
		before(sent)
	}
	return w.next.RoundTrip(r)
}

// take returns the requests since the last call.
func (w *wire) take() []sentRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

// interrupt calls once before the next request that writes a record is sent.
func (w *wire) interrupt(once func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = func(r sentRequest) {
		if !strings.Contains(r.body, `/record/`) || !strings.Contains(r.body, `"cas"`) {
			return
		}
		w.mu.Lock()
		w.before = nil
		w.mu.Unlock()
		once()
	}
}

// again repeats a request, like one that was delayed.
func (r sentRequest) again(t *testing.T) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), r.method, r.url, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
}

func (l *lab) node(t *testing.T, id string, change ...func(*Options)) *node {
	t.Helper()
	n := &node{t: t, me: backend.Candidate{ID: id, Nonce: backend.NewNonce(), Address: "10.0.0.1:80"}, wire: new(wire), ttl: labTTL}
	o := Options{Address: l.agent.URL(), Prefix: l.prefix}
	for _, c := range change {
		c(&o)
	}
	n.Backend = open(t, o)
	if via := n.driver.Transport; via != nil {
		n.wire.next, via.Next = via.Next, n.wire
	}
	return n
}

func (n *node) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

func (n *node) observe(name string) backend.Lease {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	seen, err := n.Observe(ctx, []backend.Lease{{Election: name}})
	if err != nil || len(seen) != 1 {
		n.t.Fatalf("%s observes %s: %v, %v", n.me.ID, name, seen, err)
	}
	return seen[0]
}

func (n *node) bid(over backend.Lease) backend.Answer {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Acquire(ctx, []backend.Bid{{Election: over.Election, Candidate: n.me, TTL: n.ttl, Renew: n.ttl / 4, Expected: over}})
	if err != nil {
		n.t.Fatalf("%s bids: %v", n.me.ID, err)
	}
	return answers[0]
}

// win acquires a lease that is vacant.
func (n *node) win(name string) backend.Lease {
	n.t.Helper()
	a := n.bid(n.observe(name))
	if a.Outcome != backend.Granted {
		n.t.Fatalf("%s bids for %s, which is vacant: %v, %v", n.me.ID, name, a.Outcome, a.Err)
	}
	return a.Lease
}

// watched watches the lease for its ObserveFor, as a manager does. It fails the test if the lease
// changes meanwhile.
func (n *node) watched(name string) backend.Lease {
	n.t.Helper()
	first := n.observe(name)
	over := time.NewTimer(first.ObserveFor)
	defer over.Stop()
	<-over.C
	if now := n.observe(name); !now.Unchanged(first) {
		n.t.Fatalf("%s changed while it was watched: %+v, then %+v", name, first, now)
	}
	return first
}

func (n *node) renew(held ...backend.Lease) []backend.Answer {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Renew(ctx, testbed.Held(held...))
	if err != nil {
		n.t.Fatalf("%s renews: %v", n.me.ID, err)
	}
	return answers
}

func (n *node) want(what string, got backend.Answer, outcome backend.Outcome) {
	n.t.Helper()
	if got.Outcome != outcome {
		n.t.Fatalf("%s: %v (%v) with %+v, want %v", what, got.Outcome, got.Err, got.Lease, outcome)
	}
}

func (n *node) release(end backend.End, held ...backend.Lease) {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	for i := range held {
		held[i].End = end
	}
	if err := n.Release(ctx, testbed.Held(held...)); err != nil {
		n.t.Fatalf("%s releases: %v", n.me.ID, err)
	}
}

// manager runs a manager through an address and joins "x".
func (l *lab) manager(t *testing.T, address, id string, ttl time.Duration, change ...func(*election.Options)) (*election.Manager, *election.Election) {
	t.Helper()
	o := election.Options{ID: id, TTL: ttl}
	for _, c := range change {
		c(&o)
	}
	m, err := election.New(open(t, Options{Address: address, Prefix: l.prefix}), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		m.Close(ctx)
	})
	e, err := m.Join("x")
	if err != nil {
		t.Fatal(err)
	}
	return m, e
}

func fatal(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
