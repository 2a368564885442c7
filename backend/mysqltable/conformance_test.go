package mysqltable

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// TestConformance runs the suite in bubbles of testing/synctest: the server's clock follows. Layouts and servers differ only
// for other programs, which do not take part in the suite, so that one of each suffices.
func TestConformance(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.MariaDB, LastSeenActive, 15*time.Second)
	conformance.Run(t, conformance.Harness{
		Virtual: true, Short: true, Only: namesAreKeys,
		NewStore: func(t testing.TB) conformance.Store {
			db := testbed.OpenDB(t, l.Admin) // of the case's own bubble
			exec := func(text string, args ...any) error {
				_, err := db.Exec(text, args...)
				return err
			}
			for _, table := range []string{"leader_election", DefaultPrefix + "_item"} { // quicker than to create them
				testbed.NoError(t, exec("DELETE FROM "+table))
			}
			o := l.options
			o.MySQL = mysql.Options{DB: drivertest.Virtual(t, l.User), Schema: l.Name, Poll: true}
			return conformance.Store{
				Open: func(t testing.TB) backend.Backend { return testbed.Open(t, Open, o) },
				Faults: map[string]conformance.Fault{
					conformance.FaultDeleteRecord: func(_ bool, election string) error {
						return exec("DELETE FROM leader_election WHERE name = ?", election)
					},
					conformance.FaultPlantRecord: func(_ bool, election string) error {
						return exec("UPDATE leader_election SET node = ? WHERE name = ?", "<script>\x1b]0;\u202e", election)
					},
				},
			}
		},
	})
}

// namesAreKeys reports whether the names of a case can all be keys of a table. See
// TestNamesThatTheTableCannotTellApartAreRefused.
func namesAreKeys(c conformance.Case) bool {
	return c.Rule != "S15" && c.Rule != "T1"
}
