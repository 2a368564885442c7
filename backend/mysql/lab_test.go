package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// A lab is a database on one server, with the tables and an ordinary user.
type lab struct {
	*testbed.Database
	server *testbed.Server
	admin  *sql.DB
}

// newLab makes a database on a server that other tests share.
func newLab(t testing.TB, k testbed.Kind) *lab {
	t.Helper()
	return newLabOn(t, testbed.Shared(t, k))
}

func newLabOn(t testing.TB, s *testbed.Server) *lab {
	t.Helper()
	d := s.Database(t)
	d.User.Timeout, d.User.ReadTimeout, d.User.WriteTimeout = callLimit, callLimit, callLimit
	l := &lab{d, s, testbed.OpenDB(t, d.Admin)}
	if err := CreateTables(t.Context(), l.admin, "", ""); err != nil {
		t.Fatal(err)
	}
	return l
}

// A node is one process that takes part: a Backend and its candidate.
type node struct {
	*Backend
	t  testing.TB
	me backend.Candidate
}

func (l *lab) node(t testing.TB, id string) *node {
	t.Helper()
	return openNode(t, id, Options{Config: l.User})
}

func openNode(t testing.TB, id string, o Options) *node {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	b.notifier.timeout = callLimit
	t.Cleanup(func() { b.Close() })
	return &node{b, t, backend.Candidate{ID: id, Nonce: backend.NewNonce(), Address: id + ":1", Metadata: "made for a test"}}
}

// callLimit bounds a call, or the wait for an event, on a busy machine.
const callLimit = time.Minute

func (n *node) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(n.t.Context(), callLimit)
}

// observe reads one lease.
func (n *node) observe(election string) backend.Lease {
	n.t.Helper()
	l, err := n.tryObserve(election)
	if err != nil {
		n.t.Fatal(err)
	}
	return l
}

func (n *node) tryObserve(election string) (backend.Lease, error) {
	ctx, cancel := n.ctx()
	defer cancel()
	changed, err := n.Observe(ctx, []backend.Lease{{Election: election}})
	if err != nil {
		return backend.Lease{}, err
	}
	if len(changed) != 1 {
		return backend.Lease{}, fmt.Errorf("Observe of a zero lease returned %d leases, want 1", len(changed))
	}
	return changed[0], nil
}

// sameLease reports whether two nodes have read the same lease, unrenewed. ObserveFor differs
// for its holder.
func sameLease(a, b backend.Lease) bool {
	a.ObserveFor = b.ObserveFor
	return a.Unchanged(b)
}

// bid bids over a lease, as if the node had observed it for long enough.
func (n *node) bid(over backend.Lease, ttl time.Duration) (backend.Answer, error) {
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Acquire(ctx, []backend.Bid{{Election: over.Election, Candidate: n.me, TTL: ttl, Renew: ttl / 3, Expected: over}})
	if len(answers) != 1 {
		return backend.Answer{Err: err}, err
	}
	return answers[0], err
}

// lead makes the node win an election, as if it had observed the lease for long enough.
func (n *node) lead(election string, ttl time.Duration) backend.Lease {
	n.t.Helper()
	a, err := n.bid(n.observe(election), ttl)
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

func (n *node) release(l backend.Lease, how backend.End) error {
	ctx, cancel := n.ctx()
	defer cancel()
	l.End = how
	return n.Release(ctx, []backend.Held{l.Held()})
}

// number asks the server for one number.
func (l *lab) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	if err := l.admin.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// quick calls f, which returns how long its call took, until that is less than limit: a busy
// machine may delay some calls. A call that waits for a lock or a timeout is late each time.
func quick(t testing.TB, limit time.Duration, what string, f func() time.Duration) {
	t.Helper()
	var all []time.Duration
	for range 8 {
		took := f()
		if took < limit {
			return
		}
		all = append(all, took)
	}
	t.Errorf("%s took %v, want less than %v", what, all, limit)
}

// exec runs statements as the administrator.
func (l *lab) exec(t testing.TB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := l.admin.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// lock takes the locks of a query and holds them until the test calls unlock.
func (l *lab) lock(t testing.TB, query string) (unlock func()) {
	t.Helper()
	conn, err := l.admin.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := conn.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
	unlock = func() { tx.Rollback(); conn.Close() }
	t.Cleanup(unlock)
	return unlock
}

func clone(c *mysql.Config, change func(*mysql.Config)) *mysql.Config {
	c = c.Clone()
	change(c)
	return c
}
