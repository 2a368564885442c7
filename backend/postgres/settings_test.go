package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
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
	const parts = 3
	for part := range parts {
		t.Run(fmt.Sprintf("part %d of %d", part+1, parts), func(t *testing.T) {
			t.Parallel()
			tryEverySetting(t, part, parts)
		})
	}
}

func tryEverySetting(t *testing.T, part, parts int) {
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

	for i := part; i < len(settings); i += parts {
		s := settings[i]
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

// changes uses a driver under some setting.
func changes(t *testing.T, db *testbed.PostgresDatabase, schema string, term uint64) error {
	d, err := newDriver(Options{DSN: db.DSN(""), Schema: schema})
	if err != nil {
		return err
	}
	defer d.Close()
	return drivertest.WorksUnder(t.Context(), d, term)
}

// fences asks for the leader of its record, in transactions of the program.
func fences(t *testing.T, db *testbed.PostgresDatabase, schema string) error {
	pool := poolOf(t, db.DSN(""), 1)
	defer pool.Close()
	return drivertest.FencedUnder(ErrFenced, func(election string, term uint64) error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return Fence{Schema: schema}.Check(t.Context(), tx, election, term)
		})
	})
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
		v := drivertest.Read(t, d, keys...)
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
