package mysqltable

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/conformance/besidetest"
	"github.com/go-election/go-election/lab/testbed"
)

// A fleet's table does what package beside relies on, beside the fleet's own statement.
func TestTheTableObeysTheRulesOfLocks(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, layout := range layouts {
			t.Run(string(layout), func(t *testing.T) {
				t.Parallel()
				besidetest.Run(t, func(t testing.TB) besidetest.Harness {
					l := newLab(t, k, layout, 4*time.Second)
					return besidetest.Harness{
						Open: l.lock,
						Run: func(t testing.TB, election, program string) bool {
							return l.runOnce(t, election, program) == program
						},
						Threshold: l.options.Threshold,
					}
				})
			})
		}
	})
}

// lock opens the fleet's table alone.
func (l *lab) lock(t testing.TB) beside.Lock {
	table, err := newTable(l.options)
	testbed.NoError(t, err)
	o := l.options.MySQL
	o.Prefix = DefaultPrefix
	table.server = testbed.Open(t, mysql.Open, o)
	return table
}

// When a member has died, its guard gives back the row and the lease, and another program takes the row at its next run.
func TestAGuardGivesBackTheRow(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.MariaDB, LastSeenActive, threshold)
	dead := l.node(t, "go-a").Leads("jobs").Held()
	dead.Holder = backend.Candidate{Nonce: dead.Holder.Nonce} // a guard knows no more

	guard := l.node(t, "guard")
	testbed.NoError(t, guard.Adopt(dead.Holder.Nonce, []backend.Held{dead}))
	testbed.NoError(t, guard.Release(t.Context(), []backend.Held{dead}))
	if got := l.node(t, "go-b").Sees("jobs"); !got.Vacant() || got.ObserveFor != 0 {
		t.Errorf("after the guard's release another member reads %+v; want it free", got)
	}
	if leader := l.runOnce(t, "jobs", "other-1"); leader != "other-1" {
		t.Errorf("after the guard's release the row names %q; want other-1 to take it", leader)
	}
}
