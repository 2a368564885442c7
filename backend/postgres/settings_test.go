package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// everySetting has all settings that an account may have been given, with other values than the usual one.
const everySetting = `SELECT name, CASE vartype WHEN 'bool' THEN ARRAY['on', 'off'] WHEN 'enum' THEN enumvals WHEN 'string' THEN ARRAY[]::text[] ELSE ARRAY[min_val, max_val] END
 FROM pg_settings WHERE context IN ('user', 'superuser') ORDER BY name`

// moreValues are values of settings that are text, and small ones of limits.
var moreValues = map[string][]string{
	"client_encoding": {"LATIN1", "SQL_ASCII", "EUC_JP", "WIN1251"}, "DateStyle": {"SQL, DMY", "German"}, "TimeZone": {"Asia/Kathmandu", "Etc/GMT+12"},
	"search_path": {"", "nowhere", "pg_temp, public, pg_catalog", "日本, public"}, "default_tablespace": {""}, "lc_messages": {"C"}, "application_name": {"né€"}, "timezone_abbreviations": {"India"},
	"statement_timeout": {"1"}, "transaction_timeout": {"1"}, "lock_timeout": {"1"}, "idle_session_timeout": {"1000"}, "idle_in_transaction_session_timeout": {"1"},
}

// These settings do what they say: nobody may write, or the program's own transaction ends before its fence does.
var (
	noWriting = []string{"default_transaction_read_only=on"}
	noFence   = []string{"statement_timeout=1", "transaction_timeout=1", "idle_in_transaction_session_timeout=1"}
)

// Whatever an account was given, setting by setting, statements mean the same, in a schema whose name is not ASCII, too.
func TestNoSettingMattersToAnyStatement(t *testing.T) {
	t.Parallel()
	const schema = `n\é`
	db := testbed.SharedPostgres(t).Database(t)
	db.Exec(t, `CREATE SCHEMA "`+schema+`"`, `GRANT ALL ON SCHEMA "`+schema+`" TO `+db.User)
	withTable(t, db, schema)
	rows, _ := db.Admin().Query(t.Context(), everySetting)
	settings, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Name   string
		Values []string
	}])
	if err != nil || len(settings) < 100 {
		t.Fatalf("%d settings: %v", len(settings), err)
	}

	for i, s := range settings {
		for _, value := range append(s.Values, moreValues[s.Name]...) {
			if _, err := db.Admin().Exec(t.Context(), fmt.Sprintf("ALTER ROLE %s SET %s = '%s'", db.User, s.Name, value)); err != nil {
				continue // there is no such value
			}
			set := s.Name + "=" + value
			err := changes(t, db, schema, uint64(i))
			if slices.Contains(noWriting, set) {
				if err == nil || !strings.Contains(err.Error(), "read-only") {
					t.Errorf("%s: %v", set, err)
				}
				found, err := backendOn(t, Options{DSN: db.DSN(""), Schema: schema}).Inspect(t.Context(), time.Second, time.Second)
				if !slices.ContainsFunc(found, func(d backend.Diagnostic) bool { return d.Warning && strings.Contains(d.Text, s.Name) }) {
					t.Errorf("%s: the doctor says %v, %v", set, found, err)
				}
			} else if err != nil {
				t.Errorf("%s: %v", set, err)
			} else if err := fences(t, db, schema); err != nil && !slices.Contains(noFence, set) {
				t.Errorf("%s: a fence: %v", set, err)
			}
			db.Exec(t, "ALTER ROLE "+db.User+" RESET ALL") // from PostgreSQL 16 on, some can be set and not be reset alone
		}
	}
}

const settingsName = "jób 日本 €😀"

// changes makes a record, changes it, finds another change refused, and deletes it but for one.
func changes(t *testing.T, db *testbed.PostgresDatabase, schema string, term uint64) error {
	d, err := newDriver(Options{DSN: db.DSN(""), Schema: schema})
	if err != nil {
		return err
	}
	defer d.Close()
	keys := []lease.Key{{Kind: lease.Metas}, recordKey(settingsName), recordKey(strings.ToUpper(settingsName))}
	for range 2 {
		v, err := d.Read(t.Context(), keys)
		if err != nil {
			return fmt.Errorf("a reading: %w", err)
		}
		for _, want := range []backend.Outcome{backend.Granted, backend.Refused} {
			results, err := testbed.Put(t, d, &v, &lease.Record{Election: keys[1].Name, Term: 7, ID: "é€", Nonce: "n"}, &lease.Record{Election: keys[2].Name, Term: term})
			if err != nil || results[0].Outcome != want || results[1].Outcome != want {
				return fmt.Errorf("a change: %+v, %w, want it %v", results, err, want)
			}
		}
	}
	list, err := d.List(t.Context(), lease.Records, "", 100)
	if err != nil || len(list.Items) != 2 || list.Items[0].Key != keys[2] || list.Items[1].Value.(*lease.Record).ID != "é€" {
		return fmt.Errorf("a list: %+v, %w", list, err)
	}
	w, err := d.Write(t.Context(), list.Epoch, list.WentBack, []lease.Change{{Put: []lease.Put{{Over: list.Items[0]}}}}, list.Items)
	if err != nil || w.Results[0].Outcome != backend.Granted || !slices.Equal(w.Stale, []int{0}) {
		return fmt.Errorf("a deletion: %+v, %w", w, err)
	}
	return nil
}

// fences asks for the leader of that record, in transactions of the program.
func fences(t *testing.T, db *testbed.PostgresDatabase, schema string) error {
	pool, err := pgxpool.New(t.Context(), db.DSN(""))
	if err != nil {
		return err
	}
	defer pool.Close()
	for term, want := range map[uint64]error{7: nil, 8: ErrFenced} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return Fence{Schema: schema}.Check(t.Context(), tx, settingsName, term)
		})
		if !errors.Is(err, want) {
			return fmt.Errorf("term %d: %w", term, err)
		}
	}
	return nil
}

// A leader of thousands sends large messages. An account may have little memory, and no temporary files.
func TestALargeMessageNeedsNoTemporaryFile(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	db.Exec(t, "ALTER ROLE "+db.User+" SET temp_file_limit = 0", "ALTER ROLE "+db.User+" SET work_mem = 64")
	d := open(t, Options{DSN: db.DSN("")})
	keys := make([]lease.Key, 800)
	for i := range keys {
		keys[i] = recordKey(fmt.Sprintf("%0200d", i))
	}
	for _, value := range []string{"a", "b"} {
		v := testbed.Read(t, d, keys...)
		changes := make([]lease.Change, len(keys))
		for i, it := range v.Items {
			changes[i] = lease.Change{Put: []lease.Put{{Over: it, Value: &lease.Record{Election: it.Key.Name, ID: value}}}}
		}
		w, err := d.Write(t.Context(), v.Epoch, v.WentBack, changes, v.Items)
		if err != nil || slices.ContainsFunc(w.Results, func(r lease.Result) bool { return r.Outcome != backend.Granted }) {
			t.Fatalf("%s: %v, %.200v", value, err, w.Results)
		}
	}
}

// The server ends connections that are idle, but not the one that listens.
func TestAListenerIsIdleForLong(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	if db.Value(t, "SELECT count(*) FROM pg_settings WHERE name = 'idle_session_timeout'") != "0" { // PostgreSQL 13 has none
		db.Exec(t, "ALTER ROLE "+db.User+" SET idle_session_timeout = 300")
	}
	d, writer := open(t, Options{DSN: db.DSN("")}), open(t, Options{DSN: db.DSN("")})
	v := testbed.Read(t, d)
	heard := make(chan error, 1)
	go func() {
		told := 0
		heard <- d.Listen(t.Context(), v.Position, nil, func([]lease.Item, uint64) bool {
			told++ // first when it begins to listen
			return told < 2
		})
	}()
	select {
	case err := <-heard:
		t.Errorf("nothing has changed, and it was told so, or failed: %v", err)
	case <-time.After(2 * time.Second):
	}
	v = testbed.Read(t, writer)
	ctx := t.Context()
	w, err := writer.Write(ctx, v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{{Over: lease.Item{Key: recordKey("jobs")}, Value: &lease.Record{Election: "jobs"}}}, Notify: true}}, nil)
	if err != nil || w.Results[0].Outcome != backend.Granted {
		t.Fatalf("%+v, %v", w, err)
	}
	select {
	case err := <-heard:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("nothing was heard")
	}
}

// A table of the same name to which the connection leads makes no difference to any request: each statement names the schema.
func TestEveryStatementNamesTheSchema(t *testing.T) {
	t.Parallel()
	for way, share := range shared {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			db := withTable(t, withTenant(t))
			withTable(t, db, "tenant1")
			_, o, tell := share(t, db)
			tell("SET search_path TO tenant1")
			o.Schema = "public"
			d := open(t, o)
			v := testbed.Read(t, d, recordKey("jobs"))
			testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 7, Nonce: "n"})

			if n := db.Value(t, "SELECT count(*) FROM public.election_item WHERE kind = 'record'"); n != "1" {
				t.Fatal("the record is not in the schema that is meant")
			}
			if n := db.Value(t, "SELECT count(*) FROM tenant1.election_item"); n != "0" {
				t.Errorf("%s rows are in the schema that the connection was told", n)
			}
			listed, err := d.List(t.Context(), lease.Records, "", 10)
			if err != nil || len(listed.Items) != 1 {
				t.Errorf("the list has %+v, %v; want the record", listed.Items, err)
			}
		})
	}
}
