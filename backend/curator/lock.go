package curator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/internal/ensemble"
)

// A lock is the lock nodes of all elections, as one process sees and makes them. It implements [beside.Queue].
type lock struct {
	options Options
	layout  layout
	access  ensemble.Access
	session *ensemble.Session // only calls keep it alive, so that locks go if a manager is stuck
	life    *lifetime

	mu     sync.Mutex
	places map[string]*place // by election
	views  map[string]*view  // by election, as it was read last
}

var _ beside.Queue = (*lock)(nil)

// Limits implements [beside.Lock]. Only the second write after a renewal proves that the ensemble's leader has
// heard of it, and renewals come at least three times in a TTL: two thirds of a TTL are on top of it.
func (k *lock) Limits() beside.Limits {
	return beside.Limits{Name: Name, MaxTTL: k.options.Session * 3 / 5}
}

// Close implements [beside.Lock]. Places in queues go with the session. If there may be locks, the session is
// left to expire instead.
func (k *lock) Close() error {
	k.mu.Lock()
	held := false
	for _, p := range k.places {
		held = held || p.term != 0 || p.pending > 0
	}
	k.mu.Unlock()
	k.session.Close(!held)
	return nil
}

// Read implements [beside.Lock]. The readings come after a sync with the ensemble's leader, so that the silence
// of a server that was cut off is never believed.
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
			states[i] = k.state(v, elections[i])
		}
	})
	return states, backend.Join(errs...)
}

// Listen implements [beside.Queue], by the watches that readings have left.
func (k *lock) Listen(ctx context.Context, elections []string) error {
	for {
		_, next := k.session.Watches.Fired()
		for _, name := range elections {
			if k.remembered(name) == nil {
				_, err := k.view(ctx, name) // servers that do not answer are no news
				return k.fail("listen", err)
			}
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Take implements [beside.Lock].
func (k *lock) Take(ctx context.Context, takings []beside.Taking) ([]beside.Result, error) {
	results := make([]beside.Result, len(takings))
	ensemble.InParallel(len(takings), func(i int) {
		start := time.Now()
		r, err := k.take(ctx, &takings[i])
		if err != nil {
			results[i] = beside.Result{Err: k.fail(fmt.Sprintf("take %.80q", takings[i].Election), err)}
			return
		}
		if r.Outcome == backend.Granted && !takings[i].Sealed {
			if r.ValidFor = k.life.validFor(k.placeOf(takings[i].Election).session, start); r.ValidFor < k.options.Session/2 {
				r = k.keep(ctx, start, []beside.Owned{takings[i].Owned})[0] // which connects again
			}
		}
		results[i] = r
	})
	return results, nil
}

// take takes one lock by one transaction, which checks all that it relies on.
func (k *lock) take(ctx context.Context, t *beside.Taking) (r beside.Result, err error) {
	for range 8 {
		v, err := k.view(ctx, t.Election)
		if err != nil {
			return r, err
		}
		if v.term() != t.Was.Seen.(uint64) || v.term() >= t.Term {
			return k.refused(v, t.Election), nil
		}

		node, fresh := "", false
		if k.layout.kind != Node {
			if node, fresh, err = k.ensurePlace(ctx, &t.Owned, v.names); err != nil {
				return r, err
			}
			if fresh {
				continue // who is before it?
			}
		}
		ops := k.endEarlierTerms(v, t.Election, node)
		blocked := k.blocked(v, node)
		if blocked && ops == nil {
			return k.refused(v, t.Election), nil
		}
		if !blocked {
			ops = append(ops, k.lockOps(v, &t.Owned, node, true)...)
			ops = append(ops, &zk.CreateRequest{Path: k.layout.markPath(t.Election, t.Term), Data: []byte(node), Acl: k.access.ACL, Flags: zk.FlagEphemeral})
		}
		changed, err := k.transact(ctx, t.Election, node, t.Term, ops)
		if err != nil {
			return r, err
		}
		if !changed && !blocked {
			return k.kept(&t.Owned), nil
		}
	}
	return r, errBusy
}

// transact makes a transaction of a taking. changed: something was not as it was read, and nothing was made.
func (k *lock) transact(ctx context.Context, election, node string, term uint64, ops []any) (changed bool, err error) {
	done := k.begin(election, func(p *place) { p.name, p.term = node, term })
	_, id, failed, err := k.life.write(ctx, done, ops...)
	k.forget(election)
	switch {
	case err == nil:
		k.update(election, func(p *place) { p.session = id })
		return false, nil
	case failed < 0:
		return false, err
	}
	k.update(election, func(p *place) { p.term = 0 })
	if errors.Is(err, zk.ErrNoNode) {
		if create, is := ops[failed].(*zk.CreateRequest); is {
			return true, k.session.Make(ctx, ensemble.Parent(create.Path), nil)
		}
	}
	if ensemble.IsUnmet(err) {
		return true, nil
	}
	return false, err
}

func (k *lock) refused(v *view, election string) beside.Result {
	return beside.Result{Outcome: backend.Refused, State: k.state(v, election)}
}

// Keep implements [beside.Lock].
func (k *lock) Keep(ctx context.Context, owned []beside.Owned) ([]beside.Result, error) {
	start := time.Now()
	k.withdraw(ctx)
	return k.keep(ctx, start, owned), nil
}

// keep renews locks by transactions that check their nodes. If too little is known of the session's life, it
// connects again and repeats them.
func (k *lock) keep(ctx context.Context, start time.Time, owned []beside.Owned) []beside.Result {
	for try := 0; ; try++ {
		results := make([]beside.Result, len(owned))
		k.keepOnce(ctx, owned, results)
		enough := true
		for i := range results {
			r := &results[i]
			if r.Outcome != backend.Granted || owned[i].Sealed {
				continue
			}
			r.ValidFor = k.life.validFor(k.placeOf(owned[i].Election).session, start)
			enough = enough && r.ValidFor >= k.session.Connection().Length/2
			if r.ValidFor <= 0 {
				*r = beside.Result{Err: fmt.Errorf("curator: %.80q: %w: the session has ended, or is not known to be alive", owned[i].Election, backend.ErrUnavailable)}
			}
		}
		if enough || try > 0 || ctx.Err() != nil {
			return results
		}
		k.life.reconnect()
	}
}

// maxChecks is how many locks one transaction checks.
const maxChecks = 1000

func (k *lock) keepOnce(ctx context.Context, owned []beside.Owned, results []beside.Result) {
	views := make([]*view, len(owned))
	ensemble.InParallel(len(owned), func(i int) {
		var err error
		if views[i], err = k.view(ctx, owned[i].Election); err != nil {
			results[i].Err = k.fail(fmt.Sprintf("keep %.80q", owned[i].Election), err)
		}
	})

	var same []int
	for i, o := range owned {
		switch {
		case results[i].Err != nil:
		case k.layout.kind != Node && k.placeOf(o.Election).name == "":
			results[i] = k.lost(ctx, &o, views[i], zk.ErrNoNode)
		default:
			same = append(same, i)
		}
	}
	for len(same) > 0 {
		part := same[:min(len(same), maxChecks)]
		bad, err := k.check(ctx, owned, views, part)
		switch {
		case err == nil:
			for _, i := range part {
				if results[i] = k.kept(&owned[i]); views[i].sealed != owned[i].Sealed {
					k.forget(owned[i].Election)
				}
			}
			same = same[len(part):]
		case bad < 0:
			for _, i := range same {
				results[i].Err = k.fail("keep", err)
			}
			return
		default:
			i := part[bad]
			results[i] = k.lost(ctx, &owned[i], views[i], err)
			same = append(same[:bad:bad], same[bad+1:]...)
		}
	}
}

func (k *lock) kept(o *beside.Owned) beside.Result {
	s := beside.State{Term: o.Term, Sealed: o.Sealed, Seen: o.Term}
	return beside.Result{Outcome: backend.Granted, ValidFor: beside.Always, State: s}
}

// check checks the nodes of some locks, and makes or breaks their seals. bad is the index in part of one that is not there.
func (k *lock) check(ctx context.Context, owned []beside.Owned, views []*view, part []int) (bad int, err error) {
	var ops []any
	var of []int
	for n, i := range part {
		o := &owned[i]
		ops = append(ops, k.lockOps(views[i], o, k.placeOf(o.Election).name, false)...)
		ops = append(ops, &zk.CheckVersionRequest{Path: k.layout.markPath(o.Election, o.Term), Version: -1})
		for len(of) < len(ops) {
			of = append(of, n)
		}
	}
	_, _, failed, err := k.life.write(ctx, func() {}, ops...)
	if failed >= 0 {
		return of[failed], err
	}
	return -1, err
}

// lost says what has become of a lock that could not be kept as it was seen, because of err.
func (k *lock) lost(ctx context.Context, o *beside.Owned, seen *view, err error) beside.Result {
	if !ensemble.IsUnmet(err) {
		return beside.Result{Err: k.fail(fmt.Sprintf("keep %.80q", o.Election), err)}
	}
	k.forget(o.Election)
	v, err := k.view(ctx, o.Election)
	if err != nil {
		return beside.Result{Err: k.fail(fmt.Sprintf("keep %.80q", o.Election), err)}
	}
	// Nodes of other programs have come or gone before the seal was made or broken, or an earlier request has made or broken
	// it, whose answer was lost.
	if v.has(o.Term) && (v.sealed != o.Sealed || seen.sealed != o.Sealed) {
		return beside.Result{Err: k.fail(fmt.Sprintf("seal %.80q", o.Election), errBusy)}
	}
	r := k.refused(v, o.Election)
	r.Err = fmt.Errorf("curator: %.80q: the node at %.200q was deleted or edited, or its session has ended", o.Election, k.layout.lockPath(o.Election))
	return r
}

// Drop implements [beside.Lock].
func (k *lock) Drop(ctx context.Context, owned []beside.Owned) error {
	if err := k.life.sync(ctx); err != nil {
		return k.fail("drop", err)
	}
	errs := make([]error, len(owned))
	ensemble.InParallel(len(owned), func(i int) {
		errs[i] = k.fail(fmt.Sprintf("drop %.80q", owned[i].Election), k.drop(ctx, &owned[i]))
	})
	return backend.Join(errs...)
}

func (k *lock) drop(ctx context.Context, o *beside.Owned) error {
	if k.placeOf(o.Election).pending > 0 {
		return errPending
	}
	for range 8 {
		n, err := k.session.ReadNode(ctx, ensemble.Data, k.layout.markPath(o.Election, o.Term))
		if err != nil {
			return err
		}
		if n.Missing {
			return k.leaveUnless(ctx, o)
		}
		m := mark{term: o.Term, node: string(n.Data), owner: n.Stat.EphemeralOwner}
		ops, err := k.dropOps(ctx, o.Election, &m)
		if err != nil {
			return err
		}
		_, _, failed, err := k.life.write(ctx, func() {}, ops...)
		k.forget(o.Election)
		switch {
		case err == nil:
			k.update(o.Election, func(p *place) {
				if p.name == m.node || p.term == o.Term {
					*p = place{}
				}
			})
			return nil
		case failed < 0 || !ensemble.IsUnmet(err):
			return err
		}
	}
	return errBusy
}

// leaveUnless gives up the place of a taking that has come to nothing, unless the place is for another term.
func (k *lock) leaveUnless(ctx context.Context, o *beside.Owned) error {
	if p := k.placeOf(o.Election); p.term == o.Term {
		return k.leave(ctx, o.Election, p)
	}
	return nil
}

// Preflight implements [beside.Lock]. It sends the writes of a taking in a transaction that ends with a condition
// that is never met. ZooKeeper checks the rights to each write before that, and makes all or none.
func (k *lock) Preflight(ctx context.Context, elections []string) []error {
	errs := make([]error, len(elections))
	ensemble.InParallel(len(elections), func(i int) {
		errs[i] = k.fail(fmt.Sprintf("preflight %.80q", elections[i]), k.preflight(ctx, elections[i]))
	})
	return errs
}

// impossibleVersion is the version of no node.
const impossibleVersion = -2

func (k *lock) preflight(ctx context.Context, election string) error {
	for range 8 {
		node := k.newNode(&beside.Owned{Election: election})
		ops := []any{
			&zk.CreateRequest{Path: k.layout.markPath(election, 0), Acl: k.access.ACL, Flags: zk.FlagEphemeral}, node,
			&zk.CheckVersionRequest{Path: k.layout.heldPath(election), Version: impossibleVersion},
		}
		_, _, failed, err := k.life.write(ctx, func() {}, ops...)
		switch {
		case err == nil:
			return fmt.Errorf("%w: the server has made a write that a condition forbids", backend.ErrDenied)
		case failed == 2 && ensemble.IsUnmet(err), failed == 1 && errors.Is(err, zk.ErrNodeExists): // rights to a node are checked before that
			return nil
		case failed < 0 || !errors.Is(err, zk.ErrNoNode):
			return err
		}
		if err := k.session.Make(ctx, ensemble.Parent(ops[failed].(*zk.CreateRequest).Path), nil); err != nil {
			return err
		}
	}
	return errBusy
}

var errBusy = fmt.Errorf("%w: the nodes change too quickly", backend.ErrUnavailable)

var errPending = fmt.Errorf("%w: an earlier request has not been answered yet", backend.ErrUnavailable)

// fail adds to err what was done, its class, and what an operator must do.
func (k *lock) fail(what string, err error) error {
	err = k.access.Fail(err, fmt.Sprintf("read, write, create and delete below %s and at %s (zkCli.sh: getAcl -R %s)", k.layout.root, k.layout.pathTemplate, k.layout.root))
	if err == nil {
		return nil
	}
	return fmt.Errorf("curator: %s: %w", what, err)
}
