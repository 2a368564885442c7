package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// While it is not certain where the table is, or where one is to be made, nobody leads and none is made. The error says
// what is known, and what to write into the configuration.
func TestNoTableIsMadeOrUsedInAPlaceInDoubt(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	for what, c := range map[string]struct {
		want    string // in the error
		prepare func(t *testing.T, db *testbed.PostgresDatabase) Options
	}{
		"behind a pooler": {"none is made by itself, since it is not certain where: others may set the search_path of this connection", func(t *testing.T, db *testbed.PostgresDatabase) Options {
			return Options{DSN: db.DSN(testbed.StartPgBouncer(t, db, "transaction").Addr())}
		}},
		"behind somebody's search_path": {`others may set the search_path of this connection`, func(t *testing.T, db *testbed.PostgresDatabase) Options {
			pool := poolOf(t, db.DSN(""), 3)
			tellPool(t, pool, "SET search_path TO tenant1")
			return Options{Pool: pool}
		}},
		"with two tables on the search path": {`these schemas have one: public, tenant1;`, func(t *testing.T, db *testbed.PostgresDatabase) Options {
			withTable(t, withTable(t, db), "tenant1")
			db.Exec(t, fmt.Sprintf("ALTER ROLE %s SET search_path = public, tenant1", db.User))
			return Options{DSN: db.DSN("")}
		}},
		"on a path that was changed under a leader": {`none is made beside that of the schema public`, func(t *testing.T, db *testbed.PostgresDatabase) Options {
			withTable(t, db)
			db.Exec(t, fmt.Sprintf("ALTER ROLE %s SET search_path = tenant1", db.User))
			return Options{DSN: db.DSN("")}
		}},
		"on a path that leads nowhere": {`the connection leads to no schema`, func(t *testing.T, db *testbed.PostgresDatabase) Options {
			db.Exec(t, fmt.Sprintf("ALTER ROLE %s SET search_path = nowhere", db.User))
			return Options{DSN: db.DSN("")}
		}},
		"with a role's own schema": {`these schemas have one: public, `, func(t *testing.T, db *testbed.PostgresDatabase) Options {
			withTable(t, db)
			db.Exec(t, fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", db.User, db.User))
			withTable(t, db, db.User)
			return Options{DSN: db.DSN("")}
		}},
		"with a table that another role's path leads to": {`name the schema`, func(t *testing.T, db *testbed.PostgresDatabase) Options {
			db.Exec(t, fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", db.User, db.User))
			withTable(t, db)
			user, password := db.AddUser(t)
			db.Exec(t, fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", user, user))
			return Options{DSN: db.DSNOf(user, password, "")}
		}},
		"with a table in a schema that may not be used": {`GRANT USAGE ON SCHEMA "app"`, func(t *testing.T, db *testbed.PostgresDatabase) Options {
			db.Exec(t, "CREATE SCHEMA app", "GRANT ALL ON SCHEMA app TO "+db.User)
			withTable(t, db, "app")
			user, password := db.AddUser(t)
			db.Exec(t, fmt.Sprintf("ALTER ROLE %s SET search_path = app, public", user))
			return Options{DSN: db.DSNOf(user, password, "")}
		}},
		"in another database": {`"; if it is in another database, correct the dsn; an administrator`, func(t *testing.T, db *testbed.PostgresDatabase) Options {
			withTable(t, server.Database(t))
			db.Exec(t, "REVOKE ALL ON SCHEMA public FROM PUBLIC", "GRANT USAGE ON SCHEMA public TO PUBLIC")
			user, password := db.AddUser(t)
			return Options{DSN: db.DSNOf(user, password, "")}
		}},
		"in a schema that is not there": {`; it has no such schema; an administrator makes it for this account: CREATE SCHEMA "nowhere" AUTHORIZATION`, func(t *testing.T, db *testbed.PostgresDatabase) Options {
			return Options{DSN: db.DSN(""), Schema: "nowhere"}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db := server.Database(t)
			db.Exec(t, "CREATE SCHEMA tenant1", "GRANT ALL ON SCHEMA tenant1, public TO PUBLIC")
			o := c.prepare(t, db)
			before := db.Value(t, "SELECT count(*) FROM pg_class WHERE relname = 'election_item'")
			b := backendOn(t, o)
			if err := b.Prepare(t.Context()); err != nil {
				t.Errorf("Prepare: %v", err)
			}
			_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
			for _, err := range []error{err, b.Preflight(t.Context(), []backend.Bid{{Election: "jobs", Candidate: backend.Candidate{ID: "a", Nonce: backend.NewNonce()}, TTL: time.Second}})[0]} {
				if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v; want ErrDenied with %q", err, c.want)
				}
				if n := strings.Count(err.Error(), strconv.Quote(db.Name)); n != 1 {
					t.Errorf("%v; it names the database %d times, want once", err, n)
				}
			}
			if _, err := b.Inspect(t.Context(), time.Second, time.Second); !errors.Is(err, backend.ErrDenied) {
				t.Errorf("the doctor says %v, want ErrDenied", err)
			}
			if after := db.Value(t, "SELECT count(*) FROM pg_class WHERE relname = 'election_item'"); after != before {
				t.Errorf("there were %s tables, and now %s", before, after)
			}
		})
	}
}

// What others make in schemas to which the search path leads nobody, or with other columns, does not matter, and a schema
// may have any name.
func TestTablesOfStrangersDoNotMatter(t *testing.T) {
	t.Parallel()
	db := withTable(t, withTenant(t))
	withTable(t, db, "tenant1")
	stranger, _ := db.AddUser(t)
	db.Exec(t, "CREATE SCHEMA "+stranger, "CREATE TABLE "+stranger+".election_item (a int)", `CREATE SCHEMA "My App's"`, `GRANT ALL ON SCHEMA "My App's" TO `+db.User)
	d := open(t, Options{DSN: db.DSN("")})
	v := drivertest.Read(t, d, recordKey("jobs"))
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, Nonce: "n"})
	if n := db.Value(t, "SELECT count(*) FROM public.election_item WHERE kind = 'record'"); n != "1" {
		t.Errorf("the schema public has %s records, want 1", n)
	}
	other := backendOn(t, Options{DSN: db.DSN(""), Schema: "My App's"})
	testbed.NoError(t, other.Prepare(t.Context()))
	if l := candidate(t, other).Sees("jobs"); !l.Vacant() {
		t.Errorf("another schema shows %+v", l)
	}
}

// A table that was moved to another schema is not made a second time, and the error says where it is.
func TestAMovedTableIsToldAsMoved(t *testing.T) {
	t.Parallel()
	db := withTable(t, withTenant(t))
	b := backendOn(t, Options{DSN: db.DSN("")})
	candidate(t, b).Sees("jobs")
	db.Exec(t, fmt.Sprintf("ALTER ROLE %s SET search_path = public, tenant1", db.User), "ALTER TABLE election_item SET SCHEMA tenant1")
	testbed.Eventually(t, patience, "the error says where the table is", func() error {
		_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if !errors.Is(err, backend.ErrDenied) {
			t.Fatalf("without the table: %v", err)
		}
		if strings.Contains(err.Error(), "there is one in the schema tenant1") && !strings.Contains(err.Error(), "CREATE TABLE") {
			return nil
		}
		b.driver.conns.Moved() // only new connections have the new search path
		return err
	})
}

// Many processes whose roles lead to different schemas make one table among them, or none.
func TestRolesWithDifferentPathsMakeOneTable(t *testing.T) {
	t.Parallel()
	db := withTenant(t)
	const roles = 6
	errs := make(chan error)
	for n := range roles {
		user, password := db.AddUser(t)
		db.Exec(t, fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", user, user))
		if n%2 == 0 {
			db.Exec(t, fmt.Sprintf("ALTER ROLE %s SET search_path = public", user))
		}
		b := backendOn(t, Options{DSN: db.DSNOf(user, password, "")})
		go func() { errs <- b.Prepare(context.Background()) }()
	}
	for range roles {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := db.Value(t, "SELECT count(*) FROM pg_class WHERE relname = 'election_item'"); n != "1" {
		t.Errorf("%s tables were made, want 1", n)
	}
}

// Row security that hides rows is denied, from the start and under a leader: who may not see a row must not take it for
// one that is not there.
func TestHiddenRowsAreDenied(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	user, password := db.AddUser(t)
	db.Exec(t, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON election_item TO %s", user))
	led, err := join(t, "leader", 2*time.Second, Options{DSN: db.DSN("")}).Campaign(t.Context())
	testbed.NoError(t, err)
	member := backendOn(t, Options{DSN: db.DSNOf(user, password, "")})
	if l := candidate(t, member).Sees("jobs"); l.Holder.ID != "leader" {
		t.Fatalf("before: %+v", l)
	}

	hide := "ALTER TABLE public.election_item ENABLE ROW LEVEL SECURITY"
	db.Exec(t, hide)
	for what, b := range map[string]*Backend{"a member": member, "a new one": backendOn(t, Options{DSN: db.DSNOf(user, password, ""), Schema: "public"})} {
		_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		_, listed := b.List(t.Context(), "", 10)
		_, doctor := b.Inspect(t.Context(), time.Second, time.Second)
		for call, err := range map[string]error{"Observe": err, "List": listed, "Inspect": doctor} {
			if want := `ALTER TABLE "public"."election_item" DISABLE ROW LEVEL SECURITY;`; !errors.Is(err, backend.ErrDenied) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s of %s: %v; want ErrDenied with %q at the end", call, what, err, want)
			}
		}
	}
	if !led.Leading() {
		t.Error("the owner of the table, from whom nothing is hidden, does not lead any more")
	}
	db.Exec(t, strings.Replace(hide, "ENABLE", "DISABLE", 1))
	if l := candidate(t, member).Sees("jobs"); l.Holder.ID != "leader" {
		t.Errorf("afterwards: %+v", l)
	}
}

// A table that is put in the place of another one is another store for those who knew the first, and for those who did
// not: its rows are a copy.
func TestATableInThePlaceOfAnotherIsAnotherStore(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	drivertest.IsAnotherStore(t, func() lease.Driver { return open(t, Options{DSN: db.DSN("")}) }, func() {
		db.Exec(t, "CREATE TABLE copied (LIKE election_item INCLUDING ALL)", "INSERT INTO copied SELECT * FROM election_item", "ALTER TABLE copied OWNER TO "+db.User,
			"ALTER TABLE election_item RENAME TO former", "ALTER TABLE copied RENAME TO election_item")
	}, func() {
		db.Exec(t, "ALTER TABLE election_item RENAME TO copied", "ALTER TABLE former RENAME TO election_item")
	})
}

// Somebody makes a trigger that keeps renewals, or all changes, from the table without an error. Nothing counts as written
// that is not: the leader loses its lease instead of leading beside the next one.
func TestAChangeThatATriggerKeepsBackIsNotGranted(t *testing.T) {
	t.Parallel()
	for what, body := range map[string]string{"kept back": "return null", "altered": "new.value = old.value; return new"} {
		db := withTable(t, testbed.SharedPostgres(t).Database(t))
		d := open(t, Options{DSN: db.DSN("")})
		v := drivertest.Read(t, d, recordKey("jobs"))
		drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
		v = drivertest.Read(t, d, recordKey("jobs"))
		db.Exec(t, "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'begin "+body+"; end'",
			"CREATE TRIGGER keep BEFORE UPDATE ON election_item FOR EACH ROW EXECUTE FUNCTION keep()")
		results, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 2})
		if err == nil || results[0].Outcome == backend.Granted || !strings.Contains(err.Error(), "a trigger has kept back or altered changes") {
			t.Errorf("a change that is %s: %+v, %v", what, results, err)
		}
	}
}

// A fence finds the table whatever search_path the transaction has.
func TestAFenceFindsTheTableBehindAnySearchPath(t *testing.T) {
	t.Parallel()
	db := withTable(t, withTenant(t))
	d := open(t, Options{DSN: db.DSN("")})
	v := drivertest.Read(t, d, recordKey("jobs"))
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 7, Nonce: "n"})
	own := stdlib.OpenDBFromPool(db.Admin())
	defer own.Close()
	check := func(f Fence) error {
		tx, err := own.BeginTx(t.Context(), &sql.TxOptions{})
		testbed.NoError(t, err)
		defer tx.Rollback()
		_, err = tx.Exec("SET LOCAL search_path TO tenant1")
		testbed.NoError(t, err)
		return f.CheckSQL(t.Context(), tx, "jobs", 7)
	}
	if err := check(Fence{}); err != nil {
		t.Errorf("with one table: %v", err)
	}
	withTable(t, db, "tenant1")
	if err := check(Fence{}); err != nil {
		t.Errorf("with another table, to which no connection leads by itself: %v", err)
	}
	db.Exec(t, fmt.Sprintf("CREATE SCHEMA %s AUTHORIZATION %s", db.User, db.User))
	withTable(t, db, db.User)
	if err := check(Fence{}); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "name the schema") {
		t.Errorf("with two tables: %v, want ErrDenied", err)
	}
	if err := check(Fence{Schema: "public"}); err != nil {
		t.Errorf("with two tables and a schema: %v", err)
	}
}
