package mysql

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute

// Most tests wait for leases to expire, so many of them run at once; with 16, two processors have no time left.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

// A lab is a database on one server, with the table and an ordinary user.
type lab struct {
	*testbed.Database
	kind  testbed.Kind
	admin *sql.DB
}

// each runs a test in a lab on each kind of server.
func each(t *testing.T, test func(t *testing.T, l *lab)) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) { test(t, newLab(t, testbed.Shared(t, k))) })
}

func newLab(t testing.TB, s *testbed.Server) *lab {
	t.Helper()
	d := s.Database(t)
	l := &lab{d, s.Kind(), testbed.OpenDB(t, d.Admin)}
	l.withTable(t, "")
	return l
}

// withTable makes the table with a prefix.
func (l *lab) withTable(t testing.TB, prefix string) {
	t.Helper()
	maker := backendOn(t, Options{Config: l.Admin, Prefix: prefix})
	testbed.NoError(t, maker.CreateTables(context.Background()))
}

// open opens a driver, which the test closes.
func open(t testing.TB, o Options) *driver {
	t.Helper()
	return testbed.Open(t, newDriver, o)
}

// number asks the server for one number.
func (l *lab) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	if err := l.admin.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// lock takes the locks of a query and holds them until the test calls unlock.
func (l *lab) lock(t testing.TB, query string) (unlock func()) {
	t.Helper()
	tx, err := l.admin.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), query)
	}
	testbed.NoError(t, err)
	return func() { tx.Rollback() }
}

func clone(c *mysql.Config, change func(*mysql.Config)) *mysql.Config {
	c = c.Clone()
	change(c)
	return c
}

func backendOn(t testing.TB, o Options) *Backend {
	t.Helper()
	return testbed.Open(t, Open, o)
}

// join opens a manager that has joined the election jobs.
func join(t testing.TB, id string, ttl time.Duration, o Options) *election.Election {
	t.Helper()
	return drivertest.Join(t, id, ttl, backendOn(t, o))
}

// candidate returns the only candidate of a backend.
func candidate(t testing.TB, b *Backend) *drivertest.Candidate {
	c := drivertest.NewCandidate(t, b, "a", 9*time.Second)
	c.Me.Nonce = backend.Nonce(fmt.Sprintf("%p", b.driver))
	return c
}

func recordKey(name string) lease.Key { return lease.Key{Kind: lease.Records, Name: name} }
