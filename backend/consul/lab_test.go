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
	*drivertest.Candidate
	wire *wire
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
	o := Options{Address: l.agent.URL(), Prefix: l.prefix}
	for _, c := range change {
		c(&o)
	}
	b := open(t, o)
	n := &node{b, drivertest.NewCandidate(t, b, id, labTTL), new(wire)}
	if via := n.driver.transport; via != nil {
		n.wire.next, via.Next = via.Next, n.wire
	}
	return n
}
