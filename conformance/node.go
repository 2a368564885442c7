package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/election"
)

// A node is one simulated process: a manager whose backend is behind a wire.
type node struct {
	*election.Manager
	t      *Trial
	wire   *Wire
	key    string // the process's name in the history
	ttl    time.Duration
	dead   atomic.Bool // as after kill -9: it is cut off, and the checker ignores it
	closed atomic.Bool
}

func (t *Trial) renewEvery() time.Duration  { return t.TTL / 3 }
func (t *Trial) callTimeout() time.Duration { return t.TTL / 4 }

// takeoverBound is the longest time until there is a leader again when nothing fails:
// the time of a takeover, two readings and a call.
func (t *Trial) takeoverBound() time.Duration {
	return t.TTL + 2*t.renewEvery() + t.callTimeout() + t.Late
}

// handoverBound is the longest time from an orderly release to the next leadership: one push or one reading.
func (t *Trial) handoverBound() time.Duration {
	if t.Poll || !t.Push {
		return t.renewEvery() + t.TTL/20 + t.Late
	}
	return t.TTL/50 + t.Late
}

// node starts a manager. change, if not nil, modifies its options.
func (t *Trial) node(id string, change func(*election.Options)) *node {
	if t.checker == nil {
		t.checker = newChecker(t)
	}
	o := election.Options{ID: id, TTL: t.TTL, StepDownTimeout: 2 * t.TTL}
	if change != nil {
		change(&o)
	}
	n := &node{t: t, key: fmt.Sprintf("%s#%d", id, len(t.nodes)), ttl: o.TTL}
	n.wire = Wrap(t.Store.Open(t.tb))
	n.wire.Notify(func(c Call) { t.checker.recordCall(n, c) })
	m, err := election.New(n.wire, o)
	if err != nil {
		n.wire.Close()
	}
	must(err, "new manager %q", id)
	n.Manager = m
	t.nodes = append(t.nodes, n)
	return n
}

// trusted is how long the node trusts a lease, from when it sent the granted call.
func (n *node) trusted() time.Duration { return n.ttl - n.ttl/6 }

// join joins an election and records its events.
func (n *node) join(name string) *participant {
	e, err := n.Join(name)
	must(err, "join %q", name)
	p := &participant{Election: e, node: n}
	n.t.checker.add(p)
	e.Watch(func(ev election.Event) {
		p.mu.Lock()
		p.received = append(p.received, ev)
		p.mu.Unlock()
		n.t.checker.sample()
	})
	return p
}

// crash cuts the node off and marks it dead, as after kill -9.
func (n *node) crash() {
	n.dead.Store(true)
	n.wire.Cut(true)
	if n.t.Store.Kill != nil {
		n.t.Store.Kill(n.wire.Inner)
	}
}

// close closes the manager and returns an error unless it ends in order.
func (n *node) close(limit time.Duration) error {
	if n.closed.Swap(true) {
		return nil
	}
	if !n.t.Virtual { // in real time the duration is not tested
		limit = max(limit, time.Minute)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := n.Close(ctx)
	if errors.Is(err, election.ErrNotReleased) && !n.t.Virtual {
		return nil // the store did not answer for that long
	}
	if err != nil {
		return fmt.Errorf("close %s: expected it to end in order within %v, got %w", n.key, limit, err)
	}
	return nil
}

// closeQuietly closes the node at the end of a case, whatever its state.
func (n *node) closeQuietly() error {
	if !n.dead.Load() {
		n.wire.Cut(false)
		return n.close(4 * n.t.TTL)
	}
	if !n.closed.Swap(true) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.Close(ctx) // a dead node cannot release anything
	}
	return nil
}
