package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/internal/ensemble"
)

// A lock is the lock nodes of all elections, as one process sees and makes them. It implements [beside.Lock].
type lock struct {
	layout  layout
	access  *ensemble.Access
	session *ensemble.Session // only calls keep it alive, so that locks go if a manager is stuck
	life    *lifetime

	heard atomic.Uint64 // how often watches had fired when Listen returned last

	mu     sync.Mutex
	claims map[string]*claim // by election
}

// Close implements [beside.Lock]. Places in queues go with the session. If there may be locks, it expires.
func (k *lock) Close() error {
	held := k.session.Late()
	k.mu.Lock()
	for _, c := range k.claims {
		held = held || c.term != 0
	}
	k.mu.Unlock()
	k.session.Close(!held)
	return nil
}

// Read implements [beside.Lock]. The readings come after a sync with the ensemble's leader, so that the
// silence of a server that was cut off is never believed.
func (k *lock) Read(ctx context.Context, elections []string) ([]beside.State, error) {
	k.withdraw(ctx)
	if err := k.life.sync(ctx); err != nil {
		return nil, k.fail("read", err)
	}
	states, errs := make([]beside.State, len(elections)), make([]error, len(elections))
	ensemble.InParallel(len(elections), func(i int) {
		v, err := k.view(ctx, elections[i])
		switch {
		case errors.Is(err, zk.ErrNoAuth): // the other elections must still be read
			states[i].Err = k.fail(fmt.Sprintf("read %.80q", elections[i]), err)
		case err != nil:
			errs[i] = k.fail("read", err)
		default:
			states[i] = k.state(v)
		}
	})
	return states, backend.Join(errs...)
}

// Listen implements [beside.Lock], by the watches that readings have left. It returns for each that has fired
// since it returned last: which election has been read since then, it does not know.
func (k *lock) Listen(ctx context.Context, _ []string) error {
	for {
		fired, next := k.session.Fired()
		if k.heard.Swap(fired) != fired {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (k *lock) Take(ctx context.Context, takings []beside.Taking) ([]beside.Result, error) {
	results := make([]beside.Result, len(takings))
	ensemble.InParallel(len(takings), func(i int) {
		t, start := &takings[i], time.Now()
		r, err := k.take(ctx, t, start)
		switch {
		case err != nil:
			r.Err = k.fail(fmt.Sprintf("take %.80q", t.Election), err)
		case r.Outcome == backend.Granted && r.ValidFor < k.session.Length/2:
			r = k.keep(ctx, start, []beside.Owned{t.Owned})[0] // which connects again
		}
		results[i] = r
	})
	return results, nil
}

// take takes one lock by one transaction, which checks all that it relies on.
func (k *lock) take(ctx context.Context, t *beside.Taking, start time.Time) (r beside.Result, err error) {
	for range 8 {
		v, err := k.view(ctx, t.Election)
		if err != nil {
			return r, err
		}
		if v.term != t.Was.Seen.(uint64) || v.term >= t.Term {
			return k.refused(v), nil
		}
		node := ""
		if k.layout.kind != Node {
			if node, err = k.queue(ctx, v, &t.Owned); err != nil {
				return r, err
			}
			if node == "" {
				continue // who is before it?
			}
		}

		// Whoever takes a lock has the lease in a later term: what members have left in earlier ones goes.
		ops, blocked := k.remove(v, t.Election, v.marks, nil, node), k.blocked(v)
		switch {
		case blocked && (ops == nil || k.layout.kind == Node):
			return k.refused(v), nil
		case !blocked && !k.want(t.Election, t.Term):
			return r, errPending
		case !blocked:
			ops = append(ops, k.lockOps(v, &t.Owned, node, true)...)
			mark := &zk.CreateRequest{Path: k.layout.markPath(t.Election, t.Term), Data: []byte(node)}
			mark.Acl, mark.Flags = k.access.ACL, zk.FlagEphemeral
			ops = append(ops, mark)
		}
		failed, err := k.life.write(ctx, v.session, ops...)
		switch {
		case err == nil && !blocked:
			return k.granted(&t.Owned, v.session, start), nil
		case err != nil && failed < 0:
			return r, err
		case err != nil:
			k.untake(t.Election)
			if !ensemble.IsUnmet(err) {
				return r, err
			}
		}
	}
	return r, errBusy
}

func (k *lock) refused(v *view) beside.Result {
	return beside.Result{Outcome: backend.Refused, State: k.state(v)}
}

// granted is the result for a lock that was ours at the last answer, by nodes of session owner.
func (k *lock) granted(o *beside.Owned, owner int64, start time.Time) beside.Result {
	r := beside.Result{Outcome: backend.Granted, ValidFor: beside.Always}
	r.State = beside.State{Term: o.Term, Sealed: o.Sealed, Seen: o.Term}
	if !o.Sealed {
		r.ValidFor = k.life.validFor(owner, start)
	}
	return r
}

func (k *lock) Keep(ctx context.Context, owned []beside.Owned) ([]beside.Result, error) {
	return k.keep(ctx, time.Now(), owned), nil
}

// keep renews locks by transactions that check their nodes. If too little is known of the session's life, it
// repeats them on another connection: the first write there proves a contact.
func (k *lock) keep(ctx context.Context, start time.Time, owned []beside.Owned) []beside.Result {
	results := k.keepOnce(ctx, start, owned)
	tooShort := func(r beside.Result) bool {
		return r.Outcome == backend.Granted && r.ValidFor < k.session.Connection().Length/2
	}
	if slices.ContainsFunc(results, tooShort) && k.session.Replace(ctx) {
		results = k.keepOnce(ctx, start, owned)
	}
	for i := range results {
		if r := &results[i]; r.Outcome == backend.Granted && r.ValidFor <= 0 {
			*r = beside.Result{Err: fmt.Errorf("curator: %.80q: %w: the session has ended, or may have",
				owned[i].Election, backend.ErrUnavailable)}
		}
	}
	return results
}

// keepOnce checks the nodes of locks, and makes or breaks their seals, in one transaction without those that
// are lost. It has place for all of them: maxPathBytes limits their paths.
func (k *lock) keepOnce(ctx context.Context, start time.Time, owned []beside.Owned) []beside.Result {
	results, views := make([]beside.Result, len(owned)), make([]*view, len(owned))
	ensemble.InParallel(len(owned), func(i int) {
		v, err := k.view(ctx, owned[i].Election)
		switch {
		case err != nil:
			results[i].Err = k.fail(fmt.Sprintf("keep %.80q", owned[i].Election), err)
		case v.mark(owned[i].Term) == nil:
			results[i] = k.lost(ctx, &owned[i], v, zk.ErrNoNode)
		default:
			views[i] = v
		}
	})

	for {
		var ops []any
		var of []int // lock by operation
		var session int64
		for i, v := range views {
			if v == nil {
				continue
			}
			session = v.session
			ops = append(ops, k.lockOps(v, &owned[i], v.mark(owned[i].Term).node, false)...)
			mark := k.layout.markPath(owned[i].Election, owned[i].Term)
			ops = append(ops, &zk.CheckVersionRequest{Path: mark, Version: -1})
			of = append(of, slices.Repeat([]int{i}, len(ops)-len(of))...)
		}
		if ops == nil {
			return results
		}
		failed, err := k.life.write(ctx, session, ops...)
		if err != nil && failed >= 0 {
			i := of[failed]
			results[i] = k.lost(ctx, &owned[i], views[i], err)
			views[i] = nil
			continue
		}
		for i, v := range views {
			switch {
			case v == nil:
			case err != nil:
				results[i].Err = k.fail("keep", err)
			default:
				results[i] = k.granted(&owned[i], v.mark(owned[i].Term).owner, start)
			}
		}
		return results
	}
}

// lost says what has become of a lock that could not be kept as it was seen, because of err.
func (k *lock) lost(ctx context.Context, o *beside.Owned, seen *view, err error) beside.Result {
	var v *view
	if ensemble.IsUnmet(err) {
		v, err = k.view(ctx, o.Election)
	}
	if err != nil {
		return beside.Result{Err: k.fail(fmt.Sprintf("keep %.80q", o.Election), err)}
	}
	// Nodes of other programs have come or gone before the seal was made or broken, or an earlier request has
	// made or broken it, whose answer was lost.
	if v.mark(o.Term) != nil && (v.sealed != o.Sealed || seen.sealed != o.Sealed) {
		return beside.Result{Err: k.fail(fmt.Sprintf("seal %.80q", o.Election), errBusy)}
	}
	r := k.refused(v)
	r.Err = fmt.Errorf("curator: %.80q: the node at %.200q was deleted or edited, or its session has ended",
		o.Election, k.layout.lockPath(o.Election))
	return r
}

// Preflight implements [beside.Lock]. It sends the writes of a taking in a transaction that ends with a
// condition that is never met. ZooKeeper checks the rights to each write before that, and makes all or none.
func (k *lock) Preflight(ctx context.Context, elections []string) []error {
	errs := make([]error, len(elections))
	ensemble.InParallel(len(elections), func(i int) {
		errs[i] = k.fail(fmt.Sprintf("preflight %.80q", elections[i]), k.preflight(ctx, elections[i]))
	})
	return errs
}

func (k *lock) preflight(ctx context.Context, election string) error {
	v, err := k.view(ctx, election)
	if err != nil {
		return err
	}
	failed, err := k.life.write(ctx, v.session,
		&zk.CreateRequest{Path: k.layout.markPath(election, 0), Acl: k.access.ACL, Flags: zk.FlagEphemeral},
		k.newNode(v, &beside.Owned{Election: election}),
		&zk.CheckVersionRequest{Path: k.layout.heldPath(election), Version: -2}) // that of no node
	switch {
	case err == nil:
		return fmt.Errorf("%w: the server has made a write that a condition forbids", backend.ErrDenied)
	case failed == 2 && ensemble.IsUnmet(err), failed == 1 && errors.Is(err, zk.ErrNodeExists):
		return nil // rights to a node are checked before that
	}
	return err
}

var errBusy = fmt.Errorf("%w: the nodes change too quickly", backend.ErrUnavailable)

// fail adds to err what was done, its class, and what an operator must do.
func (k *lock) fail(what string, err error) error {
	const rights = "read, write, create and delete below %s and at %s (zkCli.sh: getAcl -R %[1]s)"
	err = k.access.Fail(err, fmt.Sprintf(rights, k.layout.root, k.layout.pathTemplate))
	if err == nil {
		return nil
	}
	return fmt.Errorf("curator: %s: %w", what, err)
}
