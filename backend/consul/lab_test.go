package consul

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

const labTTL = 2 * time.Second

// A lab is a prefix of its own on an agent, with a client for what operators do.
type lab struct {
	agent  *testbed.Daemon
	root   *api.Client
	prefix string
}

// record and session name the keys of items.
func (l *lab) record(election string) string      { return l.prefix + "/record/" + election }
func (l *lab) session(nonce backend.Nonce) string { return l.prefix + "/session/" + string(nonce) }

func newLab(t *testing.T, agent *testbed.Daemon) *lab {
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
	next http.RoundTripper
	mu   sync.Mutex
	sent []string // their URLs
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.sent = append(w.sent, r.URL.String())
	w.mu.Unlock()
	return w.next.RoundTrip(r)
}

// take returns the requests since the last call.
func (w *wire) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
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

// ctx is for one call.
func (n *node) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	n.t.Cleanup(cancel)
	return ctx
}

func (n *node) observe(name string) backend.Lease {
	n.t.Helper()
	seen, err := n.Observe(n.ctx(), []backend.Lease{{Election: name}})
	if err != nil || len(seen) != 1 {
		n.t.Fatalf("%s observes %s: %v, %v", n.me.ID, name, seen, err)
	}
	return seen[0]
}

func (n *node) bid(over backend.Lease) backend.Answer {
	n.t.Helper()
	answers, err := n.Acquire(n.ctx(), []backend.Bid{{Election: over.Election, Candidate: n.me, TTL: n.ttl, Renew: n.ttl / 4, Expected: over}})
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
	answers, err := n.Renew(n.ctx(), drivertest.Held(held...))
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
	for i := range held {
		held[i].End = end
	}
	if err := n.Release(n.ctx(), drivertest.Held(held...)); err != nil {
		n.t.Fatalf("%s releases: %v", n.me.ID, err)
	}
}

func fatal(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
