package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A listener whose connection was closed by the server says that something may have changed, and then
// hears of changes again.
func TestAListenerComesBack(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	d, writer := open(t, Options{DSN: db.DSN("")}), open(t, Options{DSN: db.DSN("")})
	heard := drivertest.Listen(t, d)
	const listens = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%LISTEN %' AND pid <> pg_backend_pid()"
	for range 2 {
		testbed.Eventually(t, patience, "it listens", func() error {
			if db.Value(t, "SELECT count(*) "+listens) != "1" {
				return errors.New("it does not")
			}
			return nil
		})
		heard.Calm()
		drivertest.Notify(t, writer)
		heard.Told(t, "a change")
		db.Exec(t, "SELECT pg_terminate_backend(pid) "+listens)
	}
}

// The server may have no place for another connection, so a call does not break off what makes this one listen.
func TestACallWaitsUntilItsConnectionListens(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	db := withTable(t, server.Database(t))
	proxy := testbed.NewProxy(t, server.Addr())
	d := open(t, Options{DSN: db.DSN(proxy.Addr())})
	position := drivertest.Read(t, d).Position
	proxy.Delay(20 * time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		defer close(ended)
		d.Listen(ctx, position, nil, func([]lease.Item, uint64) bool { return true })
	}()
	for range 10 {
		drivertest.Read(t, d) // it takes the connection as soon as the listener has it
	}
	cancel()
	<-ended
	if n := proxy.Accepted(); n != 1 {
		t.Errorf("%d connections were made, want 1", n)
	}
}

// A neighbour that listens and never ends its transaction fills the queue of notifications. That fails each transaction
// that notifies, at its end, as the trigger does here: to fill the queue takes 8 GB.
func TestAFullQueueOfNotificationsKeepsNobodyFromLeading(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	db.Exec(t, `CREATE FUNCTION no_place() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF EXISTS (SELECT FROM regexp_matches(current_query(), $r$decode\('([^']+)'$r$, 'g') AS m WHERE convert_from(decode(m[1], 'base64'), 'UTF8') LIKE '%"notify":true%') THEN
RAISE EXCEPTION USING ERRCODE = '54000', MESSAGE = 'too many notifications in the NOTIFY queue'; END IF; RETURN NULL; END $$`,
		"CREATE CONSTRAINT TRIGGER no_place AFTER INSERT OR UPDATE ON election_item DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no_place()")
	a := candidate(t, backendOn(t, Options{DSN: db.DSN("")}))
	a.Resigns(a.Keeps(a.Leads("jobs")))
}

// The server ends connections that are idle, but not the one that listens.
func TestAListenerIsIdleForLong(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	if db.Value(t, "SELECT count(*) FROM pg_settings WHERE name = 'idle_session_timeout'") != "0" { // PostgreSQL 13 has none
		db.Exec(t, "ALTER ROLE "+db.User+" SET idle_session_timeout = 300")
	}
	heard := drivertest.Listen(t, open(t, Options{DSN: db.DSN("")}))
	heard.Told(t, "its beginning")
	heard.NotTold(t, "it was idle for longer than 300 ms")
	drivertest.Notify(t, open(t, Options{DSN: db.DSN("")}))
	heard.Told(t, "a change")
}

// Somebody's limit of the running time is not one of the statements by which a connection begins to listen.
func TestAListenerBeginsUnderAnyLimit(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	db := withTable(t, server.Database(t))
	db.Exec(t, "ALTER ROLE "+db.User+" SET statement_timeout = 1")
	for range 20 {
		proxy := testbed.NewProxy(t, server.Addr())
		heard := drivertest.Listen(t, open(t, Options{DSN: db.DSN(proxy.Addr())}))
		heard.Told(t, "its beginning")
		if n := proxy.Accepted(); n != 1 {
			t.Fatalf("%d connections were made until one listened, want 1", n)
		}
	}
}
