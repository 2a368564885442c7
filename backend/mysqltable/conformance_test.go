package mysqltable

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
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

// TestConformanceFromAFleetsTableToMySQL runs the suite during a migration from a fleet's table
// to this module's own tables: at the stage that holds both leases, and at the one that seals
// the fleet's table.
func TestConformanceFromAFleetsTableToMySQL(t *testing.T) {
	for _, stage := range []migration.Stage{migration.Both, migration.To} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			s := newSuite(t, testbed.MariaDB, LastActiveTime)
			conformance.Run(t, conformance.Harness{
				Virtual: true, Short: true,
				Only: func(c conformance.Case) bool { return c.Rule[0] != 'Q' && namesAreKeys(c) }, // the cost of calls is tested in backend/migration
				NewStore: func(t testing.TB) conformance.Store {
					s.clear(t)
					return conformance.Store{Open: func(t testing.TB) backend.Backend {
						to, err := mysql.Open(virtual(t, s.User, "native"))
						if err != nil {
							t.Fatal(err)
						}
						b, err := migration.New(migration.Options{From: s.open(t), To: to, Stage: stage})
						if err != nil {
							t.Fatal(err)
						}
						return b
					}}
				},
			})
		})
	}
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
	l := newLab(t, k, layout, 15*time.Second)
	if err := mysql.CreateTables(t.Context(), l.admin, "", "native"); err != nil {
		t.Fatal(err)
	}
	return &suite{l.Database, layout}
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
	statements := []string{"DELETE FROM leader_election"}
	for _, prefix := range []string{DefaultPrefix, "native"} {
		statements = append(statements, "DELETE FROM "+prefix+"_item")
	}
	for _, text := range statements {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *suite) open(t testing.TB) *Backend {
	return mustOpen(t, Options{MySQL: virtual(t, s.User, ""), Layout: s.layout, Threshold: 15 * time.Second})
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
func virtual(t testing.TB, user *driver.Config, prefix string) mysql.Options {
	config := user.Clone()
	config.InterpolateParams, config.MultiStatements = true, true
	connector, err := driver.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	return mysql.Options{Connector: testbed.Virtual(connector), Prefix: prefix, Poll: true}
}
