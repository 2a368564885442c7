package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/lease/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// Two changes that each need the absence of what the other one makes: at most one of them is made.
// Locks of rows alone would allow both.
func TestChangesOverMissingRowsExcludeEachOther(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	drivers := [2]*driver{open(t, Options{DSN: db.DSN("")}), open(t, Options{DSN: db.DSN("")})}
	epoch := testbed.Read(t, drivers[0]).Epoch
	testbed.Read(t, drivers[1])
	for round := range 200 {
		names := [2]string{fmt.Sprint("x", round), fmt.Sprint("y", round)}
		var made [2]bool
		var all sync.WaitGroup
		for i, d := range drivers {
			all.Go(func() {
				w, err := d.Write(t.Context(), epoch, 0, []lease.Change{{
					Check: []lease.Item{{Key: recordKey(names[1-i])}},
					Put:   []lease.Put{{Over: lease.Item{Key: recordKey(names[i])}, Value: &lease.Record{Election: names[i], Term: 1}}},
				}}, nil)
				if err != nil || w.Results[0].Err != nil {
					t.Errorf("%+v, %v", w.Results, err)
				}
				made[i] = err == nil && w.Results[0].Outcome == backend.Granted
			})
		}
		if all.Wait(); made[0] == made[1] {
			t.Fatalf("round %d: made %v, want one of them", round, made)
		}
	}
	if v := testbed.Read(t, drivers[0]); v.WentBack != 0 {
		t.Error("the store seems to have gone back")
	}
}

// A restored or edited row may have any time, also one that is no time or whose age is no duration.
func TestARowOfAnyTimeIsRead(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	d := open(t, Options{DSN: db.DSN("")})
	v := testbed.Read(t, d, recordKey("jobs"))
	testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
	for _, at := range []string{"-infinity", "infinity", "4713-01-01 BC", "294276-01-01", "epoch"} {
		db.Exec(t, "UPDATE election_item SET at = '"+at+"' WHERE kind = 'record'")
		if v, err := d.Read(t.Context(), []lease.Key{recordKey("jobs")}); err != nil || v.Items[0].Age < 0 || v.Items[0].Version == "" {
			t.Errorf("written %s: %+v, %v", at, v.Items, err)
		}
		if _, err := d.List(t.Context(), lease.Records, "", 10); err != nil {
			t.Errorf("written %s: list: %v", at, err)
		}
	}
}

// A manual edit of any column shows, also one that puts the former text back, and the next write over
// what was read before is refused.
func TestAManualEditShows(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	d := open(t, Options{DSN: db.DSN("")})
	const row = " WHERE kind = 'record' AND name = 'jobs'"
	for what, edit := range map[string]string{
		"of the value":           "UPDATE election_item SET value = replace(value, 'before', 'after')" + row,
		"that changes nothing":   "UPDATE election_item SET value = value" + row,
		"of the transaction":     "UPDATE election_item SET written = '99999999'::xid8" + row,
		"that puts the row back": "CREATE TABLE copy AS SELECT * FROM election_item; DELETE FROM election_item" + row + "; INSERT INTO election_item SELECT * FROM copy" + row + "; DROP TABLE copy",
	} {
		v := testbed.Read(t, d, recordKey("jobs"))
		testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: "before"})
		v = testbed.Read(t, d, recordKey("jobs"))
		if v.Items[0].Edited {
			t.Errorf("before an edit %s: %+v", what, v.Items[0])
		}
		db.Exec(t, edit)
		if now := testbed.Read(t, d, recordKey("jobs")).Items[0]; !now.Edited || now.Version == v.Items[0].Version {
			t.Errorf("an edit %s: %+v, before it was %+v", what, now, v.Items[0])
		}
		if results, err := testbed.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 2}); err != nil || results[0].Outcome != backend.Refused {
			t.Errorf("a write after an edit %s: %+v, %v; want it refused", what, results, err)
		}
	}
}

// What operators do by hand has the end that the documentation promises: a leader whose row is changed
// steps down, one whose row is deleted, too, and there is never a second one before that.
func TestAnEditedLeadershipEnds(t *testing.T) {
	t.Parallel()
	for what, edit := range map[string]string{
		"UPDATE": `UPDATE election_item SET value = jsonb_set(value::jsonb, '{id}', '"me"') WHERE kind = 'record'`,
		"DELETE": "DELETE FROM election_item WHERE kind = 'record'",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db := testbed.SharedPostgres(t).Database(t)
			const ttl = 3 * time.Second
			o := Options{DSN: db.DSN(""), MaxTTL: 4 * time.Second}
			a := join(t, "a", ttl, o)
			first, err := a.Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b := join(t, "b", ttl, o)
			if err := b.Lead(nil); err != nil {
				t.Fatal(err)
			}
			db.Exec(t, edit)
			testbed.Eventually(t, patience, "b leads", func() error {
				if b.Leading() {
					return nil
				}
				return errors.New(b.Current().String())
			})
			if a.Leading() {
				t.Error("two leaders")
			}
			if now := b.Leadership(); now != nil && now.Term <= first.Term {
				t.Errorf("term %d after %d", now.Term, first.Term)
			}
		})
	}
}

// A row that somebody has locked costs its own election a second, and no other one anything.
func TestALockedRowCostsOneElection(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	d := open(t, Options{DSN: db.DSN("")})
	v := testbed.Read(t, d)
	testbed.MustPut(t, d, &v, &lease.Record{Election: "free", Term: 1}, &lease.Record{Election: "locked", Term: 1})
	v = testbed.Read(t, d, recordKey("free"), recordKey("locked"))
	tx, err := db.Admin().Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT FROM election_item WHERE name = 'locked' FOR UPDATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	results, err := testbed.Put(t, d, &v, &lease.Record{Election: "locked", Term: 2}, &lease.Record{Election: "free", Term: 2}, &lease.Record{Election: "new", Term: 1})
	if err != nil || !errors.Is(results[0].Err, backend.ErrUnavailable) || results[1].Outcome != backend.Granted || results[2].Outcome != backend.Granted {
		t.Errorf("changes beside a locked row: %+v, %v; want the first one unavailable, the others granted", results, err)
	}
	if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if results, err = testbed.Put(t, d, &v, &lease.Record{Election: "locked", Term: 2}); err != nil || results[0].Outcome != backend.Granted {
		t.Errorf("after the lock: %+v, %v", results, err)
	}
}

// Somebody who keeps the row of a record locked ends no leadership.
func TestALockedRecordIsRenewed(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	led, err := join(t, "a", ttl, Options{DSN: db.DSN("")}).Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Admin().Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SELECT FROM election_item WHERE kind = 'record' FOR UPDATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	select {
	case <-led.Context().Done():
		t.Errorf("it has ended: %v", context.Cause(led.Context()))
	case <-time.After(2 * ttl):
	}
}

// Someone inserts a row while a change makes it, and has not committed. The change waits no longer
// than a second, and the others that were sent with it are made.
func TestAnInsertionByHandCostsOneElection(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	d := open(t, Options{DSN: db.DSN("")})
	v := testbed.Read(t, d)
	tx, err := db.Admin().Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "INSERT INTO election_item SELECT 'record', 'taken', '{}', written, created, at FROM election_item WHERE kind = 'origin'")
	}
	if err != nil {
		t.Fatal(err)
	}
	results, err := testbed.Put(t, d, &v, &lease.Record{Election: "taken", Term: 1}, &lease.Record{Election: "free", Term: 1})
	if err != nil || !errors.Is(results[0].Err, backend.ErrUnavailable) || results[1].Outcome != backend.Granted {
		t.Errorf("a change beside an insertion: %+v, %v; want the first one unavailable, the other granted", results, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if results, err = testbed.Put(t, d, &v, &lease.Record{Election: "taken", Term: 1}); err != nil || results[0].Outcome != backend.Refused {
		t.Errorf("after the insertion: %+v, %v; want it refused", results, err)
	}
}

// Text of a candidate cannot become SQL, and what a row cannot hold fails alone.
func TestHostileTextIsOnlyText(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	d := open(t, Options{DSN: db.DSN("")})
	v := testbed.Read(t, d)
	var records []*lease.Record
	for _, name := range []string{`'; DROP TABLE election_item; --`, `\'; SELECT 1`, `$1 {payload} {table}`, `"`, "é€𝄞"} {
		records = append(records, &lease.Record{Election: name, Term: 1, Metadata: name + "\x00\x1b"})
	}
	testbed.MustPut(t, d, &v, records...)
	for _, r := range records {
		got, ok := testbed.Read(t, d, recordKey(r.Election)).Items[0].Value.(*lease.Record)
		if !ok || lease.Encode(got) != lease.Encode(r) {
			t.Errorf("%q is read as %+v", r.Election, got)
		}
	}
	// The index has rows of up to 2,700 bytes; random text cannot be compressed.
	long := strings.Builder{}
	for long.Len() < 20000 {
		long.WriteString(string(backend.NewNonce()))
	}
	results, err := testbed.Put(t, d, &v, &lease.Record{Election: long.String(), Term: 1}, &lease.Record{Election: "fine", Term: 1})
	if err != nil || !errors.Is(results[0].Err, backend.ErrDenied) || results[1].Outcome != backend.Granted {
		t.Errorf("a name that no row can have, and another: %+v, %v", results, err)
	}
}

// Processes with different greatest TTLs would wait differently after a failover.
func TestAllProcessesHaveTheSameMaxTTL(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	testbed.Read(t, open(t, Options{DSN: db.DSN(""), MaxTTL: 20 * time.Second}))
	_, err := open(t, Options{DSN: db.DSN("")}).Read(t.Context(), nil)
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "max_ttl is 15s") || !strings.Contains(err.Error(), "is 20s") {
		t.Errorf("a process with another max_ttl: %v; want ErrDenied with both", err)
	}
	// What docs/postgres.md says to change it.
	db.Exec(t, "DELETE FROM election_item WHERE kind = 'origin'")
	testbed.Read(t, open(t, Options{DSN: db.DSN("")}))
}

// What the server has acknowledged survives kill -9, also if the server's defaults do not wait for the
// disk. The epoch stays, and nobody takes the server for an older copy.
func TestAnAcknowledgedChangeSurvivesAKill(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.PostgresOptions{Settings: []string{"synchronous_commit=off", "wal_writer_delay=10s"}})
	d := open(t, Options{DSN: withTable(t, server.Database(t)).DSN("")})
	before := testbed.Read(t, d)
	server.Exec(t, "CHECKPOINT")
	for term := range uint64(5) {
		v := testbed.Read(t, d, recordKey("jobs"))
		testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: term})
		server.Kill(t)
		server.Start(t)
		v = testbed.Read(t, d, recordKey("jobs"))
		if r, ok := v.Items[0].Value.(*lease.Record); !ok || r.Term != term || v.Epoch != before.Epoch || v.WentBack != 0 {
			t.Fatalf("after a kill: %+v, want term %d in epoch %s", v, term, before.Epoch)
		}
	}
}

// Settings of a database or an account have no effect.
func TestAnySettingsOfTheAccountWillDo(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	leasetest.Run(t, leasetest.Harness{NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
		db := withTable(t, server.Database(t))
		for _, set := range []string{
			"default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on", "standard_conforming_strings = off", "bytea_output = 'escape'",
			"TimeZone = 'Asia/Kathmandu'", "DateStyle = 'German'", "IntervalStyle = 'sql_standard'", "extra_float_digits = -15", "lock_timeout = '1ms'",
			"synchronous_commit = off", "enable_indexscan = off", "enable_hashjoin = off", "row_security = off", "array_nulls = off", "client_min_messages = 'debug5'",
		} {
			db.Exec(t, "ALTER ROLE "+db.User+" SET "+set)
		}
		return func(t testing.TB) lease.Driver { return open(t, Options{DSN: db.DSN("")}) }
	}})
}
