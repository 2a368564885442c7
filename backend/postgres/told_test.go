package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// shared are ways in which members share connections with somebody else. A way returns the options of two members, and
// a function that tells all shared connections something, as the neighbour.
var shared = map[string]func(t *testing.T, db *testbed.PostgresDatabase) (a, b Options, tell func(statements string)){
	"PgBouncer": func(t *testing.T, db *testbed.PostgresDatabase) (a, b Options, tell func(string)) {
		bouncer := testbed.StartPgBouncer(t, db, "transaction")
		o := Options{DSN: db.DSN(bouncer.Addr())}
		return o, o, func(statements string) {
			const pool = 5
			var held []*pgx.Conn
			for range pool {
				c, err := pgx.Connect(t.Context(), db.DSN(bouncer.Addr())+"&default_query_exec_mode=simple_protocol")
				testbed.NoError(t, err)
				defer c.Close(context.Background())
				say(t, c.PgConn(), "BEGIN")
				held = append(held, c)
			}
			for _, c := range held {
				say(t, c.PgConn(), statements+"; COMMIT")
			}
		}
	},
	"pgxpool.Pool": func(t *testing.T, db *testbed.PostgresDatabase) (a, b Options, tell func(string)) {
		pool := poolOf(t, db.DSN(""), 3)
		return Options{DSN: db.DSN("")}, Options{Pool: pool}, func(statements string) { tellPool(t, pool, statements) }
	},
	"sql.DB": func(t *testing.T, db *testbed.PostgresDatabase) (a, b Options, tell func(string)) {
		pool := poolOf(t, db.DSN(""), 3)
		own := stdlib.OpenDBFromPool(pool)
		t.Cleanup(func() { own.Close() })
		return Options{DSN: db.DSN("")}, Options{DB: own}, func(statements string) { tellPool(t, pool, statements) }
	},
}

// poolOf is a program's own pool.
func poolOf(t *testing.T, dsn string, most int32) *pgxpool.Pool {
	c, err := pgxpool.ParseConfig(dsn)
	testbed.NoError(t, err)
	c.MaxConns = most
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	testbed.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// tellPool tells the connections of a pool something that no backend keeps.
func tellPool(t *testing.T, pool *pgxpool.Pool, statements string) {
	for range pool.Stat().MaxConns() - pool.Stat().AcquiredConns() {
		c, err := pool.Acquire(t.Context())
		testbed.NoError(t, err)
		defer c.Release()
		say(t, c.Conn().PgConn(), statements)
	}
}

// say sends statements on a connection.
func say(t *testing.T, c *pgconn.PgConn, statements string) {
	t.Helper()
	_, err := c.Exec(t.Context(), statements).ReadAll()
	testbed.NoError(t, err)
}

// forget undoes what a connection was told, in a transaction.
const forget = "RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL; DISCARD TEMP; UNLISTEN *; DEALLOCATE ALL"

// withTenant makes a schema in which everybody may make tables.
func withTenant(t *testing.T) *testbed.PostgresDatabase {
	db := testbed.SharedPostgres(t).Database(t)
	db.Exec(t, "CREATE SCHEMA tenant1", "GRANT ALL ON SCHEMA tenant1, public TO PUBLIC")
	return db
}

// Somebody who sets the search_path of shared connections makes no second leader: a process that is given such a
// connection makes no second table, and follows.
func TestAnotherSearchPathMakesNoSecondLeader(t *testing.T) {
	t.Parallel()
	for way, share := range shared {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			db := withTable(t, withTenant(t))
			first, second, tell := share(t, db)
			drivertest.FollowsOneLeader(t, join(t, "old", 2*time.Second, first),
				func() { tell("SET search_path TO tenant1") },
				func() *election.Election { return join(t, "new", 2*time.Second, second) })
			if n := db.Value(t, "SELECT count(*) FROM pg_class WHERE relname = 'election_item'"); n != "1" {
				t.Errorf("there are %s tables, want 1", n)
			}
		})
	}
}

// Whatever somebody has told a shared connection, requests on it do what they do on one of their own.
func TestNothingThatAConnectionWasToldMatters(t *testing.T) {
	t.Parallel()
	for way, share := range shared {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			db := withTable(t, withTenant(t))
			db.Exec(t, "CREATE ROLE nobody_"+db.Name, "GRANT nobody_"+db.Name+" TO "+db.User)
			t.Cleanup(func() { db.Exec(t, "DROP ROLE nobody_"+db.Name) })
			_, o, tell := share(t, db)
			d := open(t, o)

			value := ""
			for _, told := range []string{
				"SET search_path TO tenant1", "SET search_path TO ''", "SET search_path TO tenant1, pg_catalog",
				"SET ROLE nobody_" + db.Name, "SET row_security = off", "SET client_encoding = 'LATIN1'", "SET client_encoding = 'SQL_ASCII'",
				"SET default_transaction_read_only = on", "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
				"SET statement_timeout = '100ms'", "SET lock_timeout = '1ms'", "SET synchronous_commit = off",
				"SET standard_conforming_strings = off", "SET DateStyle = 'SQL, DMY'", "SET TimeZone = 'Asia/Kolkata'", "SET IntervalStyle = 'sql_standard'",
				"SET bytea_output = 'escape'", "SET extra_float_digits = -15", "SET transform_null_equals = on", "SET quote_all_identifiers = on",
				"SET xmloption = document", "SET enable_indexscan = off", "SET work_mem = '64kB'", "SET default_tablespace = ''",
				"CREATE TEMP TABLE IF NOT EXISTS election_item (kind text, name text)", "LISTEN election_item", "PREPARE p AS SELECT 1",
			} {
				d.conns.Moved() // and the next one is one that was told
				tell(told)
				v := drivertest.Read(t, d, recordKey("jobs"))
				if r, _ := v.Items[0].Value.(*lease.Record); value != "" && (r == nil || r.ID != value) {
					t.Fatalf("after %s: a reading has %+v, want %q", told, v.Items[0], value)
				}
				value = told + strings.Repeat("é€😀", 9)
				drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: value})
				tell(forget)
			}
		})
	}
}
