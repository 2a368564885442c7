package testbed

import (
	"database/sql"
	"testing"
)

func TestPromoteLosesWhatWasNotReplicated(t *testing.T) {
	t.Parallel()
	Each(t, func(t *testing.T, k Kind) {
		primary := StartPrimary(t, k, Options{})
		replica := StartReplica(t, primary)
		d := primary.Database(t)
		newTable(t, d)
		way := primary.Proxy(t)
		user := OpenDB(t, way.Config(d.User))
		NoError(t, write(user, patience, 1))
		replica.CatchUp(t, primary)
		c := d.User.Clone()
		c.Addr = replica.Addr()
		if err := write(OpenDB(t, c), patience, 9); !isServerError(err, 1290) {
			t.Errorf("write to the replica: %v, want error 1290", err)
		}

		replica.StopReplication(t)
		NoError(t, write(user, patience, 2))
		primary.Kill(t)
		replica.Promote(t)
		way.SetTarget(replica.Addr())
		for n, want := range map[int]bool{1: true, 2: false} {
			if hasRow(t, user, n) != want {
				t.Errorf("row %d on the promoted replica: %v, want %v", n, !want, want)
			}
		}
		if err := write(user, patience, 3); err != nil {
			t.Errorf("write to the promoted replica: %v", err)
		}

		// The old primary comes back with a write that no other server has.
		primary.Start(t)
		c.Addr = primary.Addr()
		if !hasRow(t, OpenDB(t, c), 2) {
			t.Error("the old primary lost what it had acknowledged")
		}
	})
}

func hasRow(t *testing.T, db *sql.DB, n int) bool {
	t.Helper()
	return mustAsk[int](t, db, "SELECT COUNT(*) FROM notes WHERE n = ?", n) == 1
}
