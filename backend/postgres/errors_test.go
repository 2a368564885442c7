package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// look observes an election, and returns the error.
func look(t testing.TB, b *Backend) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
	return err
}

// By default a client tries TLS first, and says that it was refused whatever comes after it.
func TestAServerThatIsDownIsNotDenied(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{})
	db := withTable(t, server.Database(t))
	dsn := func(mode string) string { return strings.Replace(db.DSN(""), "sslmode=disable", "sslmode="+mode, 1) }
	if err := look(t, backendOn(t, Options{DSN: dsn("require")})); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "refused TLS") {
		t.Errorf("sslmode=require, and the server has no TLS: %v; want ErrDenied", err)
	}
	b := backendOn(t, Options{DSN: dsn("prefer")})
	testbed.NoError(t, look(t, b))
	server.Exec(t, "ALTER DATABASE "+db.Name+" ALLOW_CONNECTIONS false")
	if err := look(t, backendOn(t, Options{DSN: dsn("prefer")})); !errors.Is(err, backend.ErrDenied) {
		t.Errorf("the database takes no connections: %v; want ErrDenied", err)
	}
	server.Exec(t, "ALTER DATABASE "+db.Name+" ALLOW_CONNECTIONS true")
	proxy := testbed.NewProxy(t, server.Addr())
	through := backendOn(t, Options{DSN: strings.Replace(db.DSN(proxy.Addr()), "sslmode=disable", "sslmode=prefer", 1)})
	server.Terminate(t)
	for what, b := range map[string]*Backend{"itself": b, "a proxy that ends connections": through} {
		if err := look(t, b); !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s, after an ordinary stop: %v; want ErrUnavailable in one line", what, err)
		}
	}
}

// By default pgx tries TLS first, too, and its text begins with what is no fault. The method md5 takes SCRAM passwords as well,
// which PostgreSQL 13 does not make by default.
func TestARefusedPasswordIsSaidFirst(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{Access: []string{"host all hasty 127.0.0.1/32 md5", "host all all 127.0.0.1/32 trust"}})
	db := server.Database(t)
	server.Exec(t, "CREATE ROLE hasty LOGIN PASSWORD 'secret'")
	dsn := strings.Replace(db.DSNOf("hasty", "canary7f3a", ""), "sslmode=disable", "sslmode=prefer", 1)
	for what, o := range map[string]Options{"a dsn": {DSN: dsn}, "a pool": {Pool: poolOf(t, dsn, 3)}} {
		if err := look(t, backendOn(t, o)); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "store denied: the server refused the password: ") || strings.Contains(err.Error(), "TLS") {
			t.Errorf("%s: %v; want the refused password first", what, err)
		}
	}
	other := Options{DSN: strings.Replace(db.DSNOf("hasty", "secret", ""), db.Name+"?sslmode=disable", "nowhere?sslmode=prefer", 1)}
	if err := look(t, backendOn(t, other)); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "store denied: the server refused the database: ") {
		t.Errorf("a database that is not there: %v", err)
	}
}

func TestALockedTableSaysWhoHasLockedIt(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	b := backendOn(t, Options{DSN: db.DSN("")})
	candidate(t, b).Sees("jobs")
	tx, err := db.Admin().Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "SET application_name = 'nightly'; ALTER TABLE election_item ADD COLUMN note text")
	}
	testbed.NoError(t, err)
	defer tx.Rollback(context.Background())

	err = look(t, b)
	for _, want := range []string{"another session keeps the table", fmt.Sprintf("process %d ", tx.Conn().PgConn().PID()), `"nightly"`} {
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want ErrUnavailable with %q", err, want)
		}
	}
}

// An account that may only read can observe. A candidate with it is told so, and not that the server is a standby.
func TestAReadOnlyAccountIsNoStandby(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	db.Exec(t, "ALTER ROLE "+db.User+" SET default_transaction_read_only = on")
	b := backendOn(t, Options{DSN: db.DSN("")})
	if err := look(t, b); err != nil {
		t.Errorf("an observer: %v", err)
	}
	err := b.Preflight(t.Context(), []backend.Bid{{Election: "jobs", Candidate: backend.Candidate{ID: "a", Nonce: backend.NewNonce()}, TTL: time.Second}})[0]
	const want = "RESET default_transaction_read_only"
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) {
		t.Fatalf("a candidate: %v; want ErrDenied with %s", err, want)
	}
	db.Exec(t, err.Error()[strings.Index(err.Error(), "ALTER ROLE"):])
	b = backendOn(t, Options{DSN: db.DSN("")})
	if err := look(t, b); err != nil {
		t.Errorf("after that statement: %v", err)
	}
}

// Somebody's trigger or constraint, and a column that is missing, go away only by a person.
func TestATableThatSomebodyHasChangedIsDenied(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		"ALTER TABLE election_item ADD CHECK (length(value) < 3)",
		"CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'frozen'; END $$; CREATE TRIGGER no BEFORE INSERT ON election_item FOR EACH ROW EXECUTE FUNCTION no()",
		"ALTER TABLE election_item ADD COLUMN tenant text NOT NULL",
		"ALTER TABLE election_item DROP COLUMN written",
		"CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$; CREATE TRIGGER no BEFORE INSERT ON election_item FOR EACH ROW EXECUTE FUNCTION no()",
		"CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 / 0; RETURN NEW; END $$; CREATE TRIGGER no BEFORE INSERT ON election_item FOR EACH ROW EXECUTE FUNCTION no()",
		"CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no' USING ERRCODE = '38000'; END $$; CREATE TRIGGER no BEFORE INSERT ON election_item FOR EACH ROW EXECUTE FUNCTION no()",
		"CREATE RULE no AS ON INSERT TO election_item DO INSTEAD NOTHING",
		"CREATE RULE no AS ON UPDATE TO election_item DO ALSO SELECT 1",
		"ALTER TABLE election_item ALTER COLUMN value TYPE varchar(10)",
		"ALTER TABLE election_item ALTER COLUMN value TYPE char(1000)",
		"CREATE PUBLICATION p FOR TABLE election_item; ALTER TABLE election_item REPLICA IDENTITY NOTHING",
		"ALTER TABLE election_item SET UNLOGGED", // a crash of the server would empty it
		"ALTER TABLE election_item RENAME TO former; CREATE VIEW election_item AS SELECT * FROM former; GRANT ALL ON election_item TO PUBLIC",
	} {
		db := withTable(t, testbed.SharedPostgres(t).Database(t))
		db.Exec(t, change)
		err := look(t, backendOn(t, Options{DSN: db.DSN("")}))
		if !errors.Is(err, backend.ErrDenied) || strings.Contains(err.Error(), "CREATE TABLE") {
			t.Errorf("%s: %v; want ErrDenied, and no second table", change, err)
		}
	}
}

// What PgBouncer refuses by its configuration stays refused.
func TestAPoolerThatIsNotSetUpIsDenied(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{})
	strict := withTable(t, server.Database(t))
	addr := testbed.StartPgBouncer(t, strict, "transaction\ndisable_pqexec=1").Addr()
	if err := look(t, backendOn(t, Options{DSN: strict.DSN(addr)})); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "disable_pqexec 0") {
		t.Errorf("with disable_pqexec: %v; want ErrDenied", err)
	}
	db := withTable(t, server.Database(t))
	bouncer := testbed.StartPgBouncer(t, db, "transaction")
	for dsn, want := range map[string]string{db.DSN(bouncer.Addr()) + "&geqo=off": "unsupported startup parameter", strings.Replace(db.DSN(bouncer.Addr()), "/"+db.Name, "/nowhere", 1): "nowhere"} {
		if err := look(t, backendOn(t, Options{DSN: dsn})); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want ErrDenied with %q", err, want)
		}
	}
}
