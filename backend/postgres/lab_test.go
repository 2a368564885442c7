package postgres

import (
	"flag"
	"os"
	"strings"
	"testing"

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
	d, err := newDriver(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// withTable makes the table of a database by its owner, in a schema if one is named.
func withTable(t testing.TB, db *testbed.PostgresDatabase, schema ...string) *testbed.PostgresDatabase {
	t.Helper()
	b := backendOn(t, Options{DSN: db.DSN(""), Schema: strings.Join(schema, "")})
	if err := b.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}
