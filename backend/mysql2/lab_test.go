package mysql

import (
	"context"
	"database/sql"
	"testing"

	"github.com/go-election/go-election/internal/testbed"
)

// A lab is a database on one server, with the table and an ordinary user.
type lab struct {
	*testbed.Database
	admin *sql.DB
}

func newLab(t testing.TB, s *testbed.Server) *lab {
	t.Helper()
	d := s.Database(t)
	l := &lab{d, testbed.OpenDB(t, d.Admin)}
	maker := open(t, Options{Config: d.Admin})
	if err := maker.createTable(context.Background()); err != nil {
		t.Fatal(err)
	}
	return l
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
