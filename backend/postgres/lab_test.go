package postgres

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// Most tests wait for leases to expire, so some of them run at once. The server forks for each connection,
// and after a fault all clients come back: with 16 tests at once that took two processors for seconds.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "6")
	os.Exit(m.Run())
}

// open opens a driver, which the test closes.
func open(t testing.TB, o Options) *driver {
	t.Helper()
	return testbed.Open(t, newDriver, o)
}

// withTable makes the table of a database by its owner, in a schema if one is named.
func withTable(t testing.TB, db *testbed.PostgresDatabase, schema ...string) *testbed.PostgresDatabase {
	t.Helper()
	b := backendOn(t, Options{DSN: db.DSN(""), Schema: strings.Join(schema, "")})
	testbed.NoError(t, b.CreateTables(t.Context()))
	return db
}

// candidate returns a new candidate. A backend grants leases to one only.
func candidate(t testing.TB, b *Backend) *drivertest.Candidate {
	return drivertest.NewCandidate(t, b, "a", 9*time.Second)
}
