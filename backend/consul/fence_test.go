package consul

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A program that keeps data in the same Consul makes each write depend on the lease.
func TestAFencedTransactionFailsAfterATakeover(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	a.ttl, b.ttl = 8*time.Second, 8*time.Second
	held := a.win("x")
	put := func(n *node) bool {
		t.Helper()
		fence, err := n.Fence("x", held.Term)
		fatal(t, err)
		ok, _, _, err := l.root.KV().Txn(api.KVTxnOps{fence, {Verb: api.KVSet, Key: l.prefix + "/data", Value: []byte("1")}}, nil)
		fatal(t, err)
		return ok
	}
	a.renew(held)
	if !put(a) {
		t.Error("a write of the leader did not pass its fence")
	}
	fatal(t, b.Request(t.Context(), []backend.Request{{Election: "x", Term: held.Term, Kind: backend.Accept, ID: "b", Nonce: b.me.Nonce}}))
	if put(a) {
		t.Error("the page says that a request of an operator stops fenced writes until the next renewal")
	}
	a.want("a renewal", a.renew(held)[0], backend.Granted)
	if !put(a) {
		t.Error("a write of the leader did not pass its fence after the request and a renewal")
	}
	b.want("a takeover", b.bid(b.watched("x")), backend.Granted)
	if put(a) {
		t.Error("a write passed the fence of a past leadership")
	}
	if _, err := a.Fence("x", held.Term+1); !errors.Is(err, backend.ErrStale) {
		t.Errorf("a fence of a term that is not held: %v, want ErrStale", err)
	}
}
