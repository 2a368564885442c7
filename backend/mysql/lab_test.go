package mysql

import (
	"context"
	"database/sql"
	"flag"
	"os"
	"testing"

	"github.com/go-election/go-election/internal/testbed"
)

// Most tests wait for leases to expire, so many of them run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "16")
	os.Exit(m.Run())
}

// A lab is a database on one server, with the table and an ordinary user.
type lab struct {
	*testbed.Database
	admin *sql.DB
}

func newLab(t testing.TB, s *testbed.Server) *lab {
	t.Helper()
	d := s.Database(t)
	l := &lab{d, testbed.OpenDB(t, d.Admin)}
	l.withTable(t, "")
	return l
}

// withTable makes the table with a prefix.
func (l *lab) withTable(t testing.TB, prefix string) {
	t.Helper()
	maker := open(t, Options{Config: l.Admin, Prefix: prefix})
	if err := maker.createTable(context.Background()); err != nil {
		t.Fatal(err)
	}
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
