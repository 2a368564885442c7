package election

import (
	"context"
	"errors"
	"runtime/debug"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// The same simulation over backend/lease: each life of a node has a Backend of that package, and its
// driver is simulated. So each reading and each write is a request of its own on the network.
//
//	simulation_coroutine_test.go  calls of a Backend that wait for the simulation
//	simulation_driver_test.go     the driver of a node
//	simulation_items_test.go      the store of items, and its servers
var leaseKinds = []storeKind{leaseDurable, leaseFailingOver, leaseLosesCommits, leaseFailingOver, leaseGoesBack}

const (
	leaseDurable      storeKind = iota + 16 // keeps what it has acknowledged
	leaseFailingOver                        // fails over to a replica that lags behind, in another epoch
	leaseLosesCommits                       // loses its last writes when it restarts, in another epoch
	leaseGoesBack                           // is restored in the same epoch, and counts versions anew
)

func (k storeKind) overLease() bool { return k >= leaseDurable }

// leaseHours is for how long TestSimulationOverLease runs.
func leaseHours() int { return max(*simHours/20, len(leaseKinds)*worldHours) }

func TestSimulationOverLease(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	runSimulation(t, leaseKinds, leaseHours())
}

// leaseNode is what a node has in one life on a store of items.
type leaseNode struct {
	backend   *lease.Backend
	driver    *simDriver
	elsewhere *simItems             // another store, which answers this node for a while
	underWay  [callKinds]*coroutine // under way
	writing   *coroutine            // has the turn to write the session
	waiting   []*coroutine          // for that turn
}

func (n *simNode) openLease() {
	n.closeLease(false)
	if !n.s.store.kind.overLease() {
		return
	}
	n.lease.driver = &simDriver{items: n.s.store.items, node: n, life: n.life}
	n.lease.backend = lease.New(n.s.store.items.driver(n.lease.driver))
}

// closeLease ends the calls that are under way, and closes the Backend unless the node has crashed.
func (n *simNode) closeLease(inOrder bool) {
	for _, c := range n.lease.underWay {
		if c != nil {
			c.abandon()
		}
	}
	if inOrder && n.lease.backend != nil {
		n.lease.backend.Close() // its requests arrive at once
	}
	n.lease = leaseNode{}
}

func (n *simNode) leaseCall(c *call) {
	b, me := n.lease.backend, backend.Candidate{ID: n.id, Nonce: n.nonce}
	co := newCoroutine(n, c)
	n.lease.underWay[c.kind] = co
	co.begin(func(ctx context.Context) (r reply) {
		switch r.call = c; c.kind {
		case callAcquire:
			r.answers, r.err = b.Acquire(ctx, c.bids)
		case callRenew:
			r.answers, r.err = b.Renew(ctx, c.held)
		case callRelease:
			r.err = b.Release(ctx, c.held)
		case callObserve:
			r.changed, r.err = b.Observe(ctx, c.leases)
		case callRequest:
			r.err = b.Request(ctx, c.requests)
		case callAnnounce:
			r.err = b.Announce(ctx, backend.Member{Candidate: me, TTL: n.ttl, Elections: c.names})
		case callMembers:
			r.members, r.err = b.Members(ctx, "", 100)
		case callListen:
			r.err = b.Listen(ctx, c.leases)
		}
		return r
	})
}

func (n *simNode) leaseCallEnded(r reply) {
	s := n.s
	for i := range r.answers {
		a := &r.answers[i]
		if s.tracing && r.call.kind <= callAcquire {
			s.trace(n.id, "%s: its call %d is %v in term %d, version %s, %v", a.Election, r.call.kind, a.Outcome, a.Term, a.Version, a.Err)
		}
		if r.call.kind == callRenew && a.Outcome == backend.Granted {
			s.figures.renewals++
		}
	}
	if s.tracing && r.err != nil && r.call.kind != callListen {
		s.trace(n.id, "its call %d fails: %v", r.call.kind, r.err)
	}
	if errors.Is(r.err, backend.ErrInvalid) && !errors.Is(r.err, backend.ErrStale) || errors.Is(r.err, backend.ErrClosed) {
		s.fail(n.id, "S8: a call failed that the store never saw: %v", r.err)
	}
	n.endCall(r.call, r)
}

// giveUp ends the context of a call. The call returns at once, and its requests may still arrive.
func (n *simNode) giveUp(k callKind, err error) {
	if co := n.lease.underWay[k]; co != nil {
		co.end(err)
		return
	}
	n.endCall(n.m.inFlight[k], reply{call: n.m.inFlight[k], err: err})
}

// leaseGuarantees is what the managers of a world over package lease are told.
func (st *simStore) leaseGuarantees() backend.Guarantees {
	return lease.New(st.items.driver(&simDriver{items: st.items})).Guarantees()
}
