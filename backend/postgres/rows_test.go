package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

func TestRowsThatOthersEditAndLock(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	drivertest.RunSQLTable(t, func(t testing.TB) drivertest.SQLTable {
		db := withTable(t, server.Database(t))
		const row = " WHERE kind = 'record' AND name = 'jobs'"
		return drivertest.SQLTable{
			Open: func(t testing.TB, greatest time.Duration) lease.Driver {
				return open(t, Options{DSN: db.DSN(""), MaxTTL: greatest})
			},
			Backend: func(t testing.TB) backend.Backend { return backendOn(t, Options{DSN: db.DSN("")}) },
			Exec:    db.Exec,
			Lock:    func(t testing.TB, statement string) func() { return lock(t, db, statement) },
			Edits: map[string][]string{
				"of the value":         {"UPDATE election_item SET value = replace(value, 'before', 'after')" + row},
				"that changes nothing": {"UPDATE election_item SET value = value" + row},
				"of the transaction":   {"UPDATE election_item SET written = '99999999'::xid8" + row},
				"that puts the row back": {"CREATE TABLE copy AS SELECT * FROM election_item", "DELETE FROM election_item" + row,
					"INSERT INTO election_item SELECT * FROM copy" + row, "DROP TABLE copy"},
			},
			Times:     []string{"-infinity", "infinity", "4713-01-01 BC", "294276-01-01", "epoch"},
			Insertion: "INSERT INTO election_item SELECT 'record', 'taken', '{}', written, created, at FROM election_item WHERE kind = 'origin'",
		}
	})
}

// lock runs a statement in a transaction of the superuser, which unlock rolls back.
func lock(t testing.TB, db *testbed.PostgresDatabase, statement string) (unlock func()) {
	t.Helper()
	tx, err := db.Admin().Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), statement)
	}
	testbed.NoError(t, err)
	return func() { tx.Rollback(context.WithoutCancel(t.Context())) }
}

// The index has rows of up to 2,700 bytes; random text cannot be compressed.
func TestANameThatNoRowCanHaveFailsAlone(t *testing.T) {
	t.Parallel()
	d := open(t, Options{DSN: withTable(t, testbed.SharedPostgres(t).Database(t)).DSN("")})
	v := drivertest.Read(t, d)
	long := strings.Builder{}
	for long.Len() < 20000 {
		long.WriteString(string(backend.NewNonce()))
	}
	results, err := drivertest.Put(t, d, &v, &lease.Record{Election: long.String(), Term: 1}, &lease.Record{Election: "fine", Term: 1})
	if err != nil || !errors.Is(results[0].Err, backend.ErrDenied) || results[1].Outcome != backend.Granted {
		t.Errorf("a name that no row can have, and another: %+v, %v", results, err)
	}
}

// What the server has acknowledged survives kill -9, also if the server's defaults do not wait for the
// disk. The epoch stays, and nobody takes the server for an older copy.
func TestAnAcknowledgedChangeSurvivesAKill(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{Args: []string{"--synchronous_commit=off", "--wal_writer_delay=10s"}})
	d := open(t, Options{DSN: withTable(t, server.Database(t)).DSN("")})
	before := drivertest.Read(t, d)
	server.Exec(t, "CHECKPOINT")
	for term := range uint64(5) {
		v := drivertest.Read(t, d, recordKey("jobs"))
		drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: term})
		server.Kill(t)
		server.Start(t)
		v = drivertest.Read(t, d, recordKey("jobs"))
		if r, ok := v.Items[0].Value.(*lease.Record); !ok || r.Term != term || v.Epoch != before.Epoch || v.WentBack != 0 {
			t.Fatalf("after a kill: %+v, want term %d in epoch %s", v, term, before.Epoch)
		}
	}
}
