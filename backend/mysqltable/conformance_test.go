package mysqltable

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// TestConformance runs the suite in bubbles of testing/synctest: the server's clock follows.
// Layouts and servers differ only for other programs, which do not take part in the suite, so
// that one of each suffices.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := newSuite(t, testbed.MariaDB, LastSeenActive)
	conformance.Run(t, conformance.Harness{
		Virtual: true, Short: true, Only: namesAreKeys,
		NewStore: func(t testing.TB) conformance.Store {
			s.clear(t)
			return conformance.Store{
				Open:   func(t testing.TB) backend.Backend { return s.open(t) },
				Faults: s.faults(t),
			}
		},
	})
}

// namesAreKeys reports whether the names of a case can all be keys of a table. See
// TestNamesThatTheTableCannotTellApartAreRefused.
func namesAreKeys(c conformance.Case) bool {
	return c.Rule != "S15" && c.Rule != "T1"
}

// A suite has the tables for one case after the other. Emptying them is quicker than creating
// them.
type suite struct {
	*testbed.Database
	layout Layout
}

func newSuite(t *testing.T, k testbed.Kind, layout Layout) *suite {
	return &suite{newLab(t, k, layout, 15*time.Second).Database, layout}
}

// admin connects within the bubble of a case.
func (s *suite) admin(t testing.TB) *sql.DB {
	db, err := sql.Open("mysql", s.Admin.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (s *suite) clear(t testing.TB) {
	db := s.admin(t)
	for _, text := range []string{"DELETE FROM leader_election", "DELETE FROM " + DefaultPrefix + "_item"} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *suite) open(t testing.TB) *Backend {
	return mustOpen(t, Options{MySQL: virtual(t, s.User), Layout: s.layout, Threshold: 15 * time.Second})
}

func (s *suite) faults(t testing.TB) map[string]conformance.Fault {
	db, c := s.admin(t), shapes[s.layout]
	return map[string]conformance.Fault{
		conformance.FaultDeleteRecord: func(_ bool, election string) error {
			_, err := db.Exec(fmt.Sprintf("DELETE FROM leader_election WHERE %s = ?", c.key), election)
			return err
		},
		conformance.FaultPlantRecord: func(_ bool, election string) error {
			_, err := db.Exec(fmt.Sprintf("UPDATE leader_election SET %s = ? WHERE %s = ?", c.holder, c.key), "<script>\x1b]0;\u202e", election)
			return err
		},
	}
}

func mustOpen(t testing.TB, o Options) *Backend {
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// virtual connects to a server that follows the clock of the bubble.
func virtual(t testing.TB, user *driver.Config) mysql.Options {
	config := user.Clone()
	config.InterpolateParams, config.MultiStatements = true, true
	connector, err := driver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	return mysql.Options{Connector: testbed.Virtual(connector), Poll: true}
}
