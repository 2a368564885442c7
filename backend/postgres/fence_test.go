package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// While a fenced transaction is open, renewals go on and nobody else is elected. Afterwards another
// is, and the former term no longer passes.
func TestAFenceKeepsOthersFromBeingElected(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	own := stdlib.OpenDBFromPool(db.Admin())
	defer own.Close()
	for what, fenced := range map[string]func(term uint64, work func()) error{
		"pgx": func(term uint64, work func()) error {
			return pgx.BeginFunc(t.Context(), db.Admin(), func(tx pgx.Tx) error {
				err := Fence{}.Check(t.Context(), tx, "jobs", term)
				if err == nil {
					work()
				}
				return err
			})
		},
		"sql": func(term uint64, work func()) error {
			tx, err := own.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err = (Fence{}).CheckSQL(t.Context(), tx, "jobs", term); err == nil {
				work()
				err = tx.Commit()
			}
			return err
		},
	} {
		d := open(t, Options{DSN: db.DSN("")})
		session := lease.Item{Key: lease.Key{Kind: lease.Sessions, Name: "n"}}
		v := drivertest.Read(t, d, recordKey("jobs"), session.Key)
		if it := v.Items[0]; it.Version != "" {
			db.Exec(t, "DELETE FROM election_item WHERE kind <> 'origin'")
			v = drivertest.Read(t, d, recordKey("jobs"), session.Key)
		}
		if err := fenced(1, func() {}); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: an election without a record: %v, want ErrFenced", what, err)
		}
		drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 7, Nonce: "n"})
		v = drivertest.Read(t, d, recordKey("jobs"), session.Key)
		err := fenced(7, func() {
			w, err := d.Write(t.Context(), v.Epoch, 0, []lease.Change{{Check: v.Items[:1], Put: []lease.Put{{Over: v.Items[1], Value: &lease.Session{Nonce: "n"}}}}}, v.Items[:1])
			if err != nil || w.Results[0].Outcome != backend.Granted || len(w.Stale) > 0 {
				t.Errorf("%s: a renewal beside a fence: %+v, %v", what, w, err)
			}
			if results, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 8, Nonce: "m"}); err != nil || !errors.Is(results[0].Err, backend.ErrUnavailable) {
				t.Errorf("%s: a grant beside a fence: %+v, %v; want it unavailable", what, results, err)
			}
		})
		if err != nil {
			t.Errorf("%s: the leader's term: %v", what, err)
		}
		drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 8, Nonce: "m"})
		if err := fenced(7, func() {}); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: a former term: %v, want ErrFenced", what, err)
		}
		v = drivertest.Read(t, d, recordKey("jobs"))
		drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 8})
		if err := fenced(8, func() {}); !errors.Is(err, ErrFenced) {
			t.Errorf("%s: a vacant election: %v, want ErrFenced", what, err)
		}
	}
}

// A client that stops within a fenced transaction loses it after Hold, and then a successor is elected.
func TestAFenceIsHeldNoLongerThanHold(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	d := open(t, Options{DSN: db.DSN("")})
	v := drivertest.Read(t, d)
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, Nonce: "n"})
	v = drivertest.Read(t, d, recordKey("jobs"))
	conn, err := pgx.Connect(t.Context(), db.DSN(""))
	testbed.NoError(t, err)
	defer conn.Close(context.Background())
	tx, err := conn.Begin(t.Context())
	testbed.NoError(t, err)
	for want, f := range map[string]Fence{"Hold": {Hold: time.Microsecond}, "schema": {Schema: "a\nb"}} {
		if err := f.Check(t.Context(), tx, "jobs", 1); !errors.Is(err, backend.ErrInvalid) {
			t.Errorf("a bad %s: %v", want, err)
		}
	}
	err = pgx.BeginTxFunc(t.Context(), db.Admin(), pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error { return Fence{}.Check(t.Context(), tx, "jobs", 1) })
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "not in a transaction that may write") || strings.Contains(err.Error(), "ALTER ROLE") {
		t.Errorf("in a transaction that only reads: %v; want ErrDenied, and why", err)
	}
	testbed.NoError(t, (Fence{Hold: 100 * time.Millisecond}).Check(t.Context(), tx, "jobs", 1))
	testbed.Eventually(t, patience, "a successor is elected", func() error {
		results, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 2, Nonce: "m"})
		if err == nil && results[0].Outcome != backend.Granted {
			err = errors.New(results[0].Outcome.String())
		}
		return err
	})
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("the transaction of the former leader was committed")
	}
}
