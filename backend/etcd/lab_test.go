package etcd

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// Most tests wait for leases to expire, so many of them run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "16")
	os.Exit(m.Run())
}

// A node is a Backend with its candidate, as one process would have it.
type node struct {
	*Backend
	t    testing.TB
	me   backend.Candidate
	hook *hooked // its driver
}

// A lab is a fresh prefix, and a client with which a test changes keys directly.
type lab struct {
	endpoints []string
	prefix    string
	keys      keyPrefix
	admin     *clientv3.Client
}

func newLab(t testing.TB, endpoints ...string) *lab {
	t.Helper()
	if endpoints == nil {
		endpoints = testbed.SharedEtcd(t)
	}
	l := &lab{endpoints: endpoints, prefix: "lab-" + string(backend.NewNonce()[:12]) + "/", admin: dial(t, endpoints...)}
	l.keys = keyPrefix(l.prefix)
	return l
}

// record and session return the key of an election and that of a process.
func (l *lab) record(election string) string {
	return l.keys.key(lease.Key{Kind: lease.Records, Name: election})
}

func (l *lab) session(n *node) string {
	return l.keys.key(lease.Key{Kind: lease.Sessions, Name: string(n.me.Nonce)})
}

func (l *lab) meta() string { return l.keys.key(lease.Key{Kind: lease.Metas}) }

func (l *lab) options() Options { return Options{Endpoints: l.endpoints, Prefix: l.prefix} }

func (l *lab) node(t testing.TB, id string) *node { return openNode(t, id, l.options()) }

func openNode(t testing.TB, id string, o Options) *node {
	t.Helper()
	d, err := newDriver(o)
	if err != nil {
		t.Fatal(err)
	}
	h := &hooked{driver: d}
	b := &Backend{lease.New(h), d}
	t.Cleanup(func() { b.Close() })
	return &node{b, t, backend.Candidate{ID: id, Nonce: backend.NewNonce(), Address: id + ":1", Metadata: "made for a test"}, h}
}

const (
	callLimit = time.Minute
	ttl       = 10 * time.Second // no test waits for it; on a busy machine no session must end
)

func (n *node) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(n.t.Context(), callLimit)
}

// read reads one lease as if for the first time.
func (n *node) read(election string) backend.Lease {
	n.t.Helper()
	l, err := n.tryRead(election)
	if err != nil {
		n.t.Fatal(err)
	}
	return l
}

func (n *node) tryRead(election string) (backend.Lease, error) {
	ctx, cancel := n.ctx()
	defer cancel()
	changed, err := n.Observe(ctx, []backend.Lease{{Election: election}})
	if err != nil {
		return backend.Lease{}, err
	}
	if len(changed) != 1 {
		return backend.Lease{}, fmt.Errorf("Observe of a zero lease returned %d leases; a zero lease is always returned", len(changed))
	}
	return changed[0], nil
}

func (n *node) bid(over backend.Lease, ttl time.Duration) (backend.Answer, error) {
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Acquire(ctx, []backend.Bid{{Election: over.Election, Candidate: n.me, TTL: ttl, Renew: ttl / 3, Expected: over}})
	if len(answers) != 1 {
		return backend.Answer{Err: err}, err
	}
	return answers[0], err
}

// lead makes the node win an election that is free.
func (n *node) lead(election string) backend.Lease {
	n.t.Helper()
	a, err := n.bid(n.read(election), ttl)
	if err != nil || a.Outcome != backend.Granted {
		n.t.Fatalf("%s bids for %q as it is: %v, %v, %v; want granted", n.me.ID, election, a.Outcome, a.Err, err)
	}
	return a.Lease
}

func (n *node) renew(l backend.Lease) (backend.Answer, error) {
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Renew(ctx, []backend.Held{l.Held()})
	if len(answers) != 1 {
		return backend.Answer{Err: err}, err
	}
	return answers[0], err
}

func (n *node) mustRenew(l backend.Lease) backend.Lease {
	n.t.Helper()
	a, err := n.renew(l)
	if err != nil || a.Outcome != backend.Granted {
		n.t.Fatalf("%s renews %q: %v, %v, %v; want granted", n.me.ID, l.Election, a.Outcome, a.Err, err)
	}
	return a.Lease
}

func (n *node) mustRefuse(l backend.Lease, why string) {
	n.t.Helper()
	a, err := n.renew(l)
	if err != nil || a.Outcome != backend.Refused {
		n.t.Fatalf("%s renews %q, %s: %v, %v, %v; want refused", n.me.ID, l.Election, why, a.Outcome, a.Err, err)
	}
}

func (n *node) release(l backend.Lease, how backend.End) error {
	ctx, cancel := n.ctx()
	defer cancel()
	l.End = how
	return n.Release(ctx, []backend.Held{l.Held()})
}

// mustBeWatched checks that a challenger must watch the lease for the TTL, and returns it.
func (n *node) mustBeWatched(election, why string) backend.Lease {
	n.t.Helper()
	l := n.read(election)
	if l.ObserveFor < ttl {
		n.t.Fatalf("%s: %s sees %+v; want a lease that is to be watched for %v", why, n.me.ID, l, ttl)
	}
	return l
}

// mustTakeOver bids for a lease as if the node had watched it.
func (n *node) mustTakeOver(over backend.Lease) backend.Lease {
	n.t.Helper()
	a, err := n.bid(over, ttl)
	if err != nil || a.Outcome != backend.Granted || a.Term <= over.Term {
		n.t.Fatalf("%s bids over what it has watched, in term %d: %v in term %d, %v, %v; want granted", n.me.ID, over.Term, a.Outcome, a.Term, a.Err, err)
	}
	return a.Lease
}

// mustLose checks that a bid over a lease as it was seen is refused.
func (n *node) mustLose(over backend.Lease, why string) {
	n.t.Helper()
	a, err := n.bid(over, ttl)
	if err != nil || a.Outcome != backend.Refused {
		n.t.Fatalf("%s bids over what it has watched, %s: %v in term %d, %v; want refused", n.me.ID, why, a.Outcome, a.Term, err)
	}
}

// A hooked driver runs a function before its next write, which is not sent if that returns false.
type hooked struct {
	*driver
	before func(write func() (lease.Written, error)) (send bool)
}

func (h *hooked) Write(ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item) (lease.Written, error) {
	before := h.before
	h.before = nil
	if before != nil && !before(func() (lease.Written, error) {
		return h.driver.Write(context.Background(), epoch, wentBack, changes, verify)
	}) {
		return lease.Written{}, backend.ErrUnavailable
	}
	return h.driver.Write(ctx, epoch, wentBack, changes, verify)
}

// losesBid makes a bid that is lost on its way, and returns a function that sends it late.
func (n *node) losesBid(over backend.Lease) (late func() (lease.Written, error)) {
	n.t.Helper()
	n.hook.before = func(write func() (lease.Written, error)) bool {
		late = write
		return false
	}
	if a, err := n.bid(over, ttl); err == nil || late == nil {
		n.t.Fatalf("a bid that is lost: %v, %v; want an error", a.Outcome, err)
	}
	return late
}

// generation returns the generation of the node's session as it is in the store.
func (l *lab) generation(t testing.TB, n *node) string {
	t.Helper()
	s, _ := lease.Decode(lease.Sessions, []byte(l.value(t, l.session(n)))).(*lease.Session)
	if s == nil {
		t.Fatal("there is no session")
	}
	return s.Generation
}

// key returns a key with its value, or nil.
func (l *lab) key(t testing.TB, key string) *mvccpb.KeyValue {
	t.Helper()
	got, err := l.admin.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range got.Kvs {
		return pair
	}
	return nil
}

// value returns the value of an existing key.
func (l *lab) value(t testing.TB, key string) string {
	t.Helper()
	pair := l.key(t, key)
	if pair == nil {
		t.Fatalf("%s does not exist", key)
	}
	return string(pair.Value)
}

func (l *lab) del(t testing.TB, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if got, err := l.admin.Delete(t.Context(), key); err != nil || got.Deleted != 1 {
			t.Fatalf("delete %q: %v, %v", key, got, err)
		}
	}
}

func (l *lab) put(t testing.TB, key, value string) {
	t.Helper()
	if _, err := l.admin.Put(t.Context(), key, value, clientv3.WithIgnoreLease()); err != nil {
		if _, err = l.admin.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
}

// mustRelease releases a lease.
func (n *node) mustRelease(l backend.Lease) {
	n.t.Helper()
	if err := n.release(l, backend.Released); err != nil {
		n.t.Fatal(err)
	}
}

// goBack makes the next answer look like that of a store to which an older copy was restored.
func (n *node) goBack() {
	n.read("warm")
	o := n.driver.origins.Now()
	n.driver.origins.Note(o.Epoch, o.Text, o.Newest+1<<20, &o)
}
