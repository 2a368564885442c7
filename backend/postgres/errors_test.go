package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

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
	if isDenied(&pgconn.PgError{Code: "58000", Message: "could not get connection from the pool - AllServersDown"}) {
		t.Error("PgCat has no server: it is denied; want it unavailable")
	}
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
	bids := []backend.Bid{{Election: "jobs", Candidate: backend.Candidate{ID: "a", Nonce: backend.NewNonce()}, TTL: time.Second}}
	err := b.Preflight(t.Context(), bids)[0]
	const want = "RESET default_transaction_read_only"
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) {
		t.Fatalf("a candidate: %v; want ErrDenied with %s", err, want)
	}
	db.Exec(t, err.Error()[strings.Index(err.Error(), "ALTER ROLE"):])
	const limit = 40 * time.Second // a connection without a fault is used for 45 s
	testbed.Eventually(t, limit, "the same process may write after that statement", func() error { return b.Preflight(t.Context(), bids)[0] })
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
	bouncer, scram := testbed.StartPgBouncer(t, db, "transaction"), testbed.StartPgBouncer(t, db, "transaction\nauth_type=scram-sha-256")
	prefer := func(dsn string) string { return strings.Replace(dsn, "sslmode=disable", "sslmode=prefer", 1) }
	for dsn, want := range map[string]string{
		db.DSN(bouncer.Addr()) + "&geqo=off":                                           "unsupported startup parameter",
		strings.Replace(db.DSN(bouncer.Addr()), "/"+db.Name, "/nowhere", 1):            "nowhere",
		prefer(db.DSNOf(db.User, "canary7f3a", bouncer.Addr())):                        "store denied: the server refused the password: FATAL: ",
		prefer(db.DSNOf(db.User, "canary7f3a", scram.Addr())):                          "store denied: the server refused the password: FATAL: ",
		strings.Replace(db.DSN(scram.Addr()), "sslmode=disable", "sslmode=require", 1): "refused TLS",
	} {
		if err := look(t, backendOn(t, Options{DSN: dsn})); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%v; want ErrDenied with %q", err, want)
		}
	}
}

// A login that neither side can complete waits for an administrator, whichever side says so.
func TestALoginOfAnotherKindIsDenied(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]pgproto3.BackendMessage{
		"GSSAPI":            &pgproto3.AuthenticationGSS{},
		"SCRAM-SHA-256":     &pgproto3.AuthenticationSASL{AuthMechanisms: []string{"OTHER"}},
		"F0000":             &pgproto3.ErrorResponse{Severity: "FATAL", Code: "F0000", Message: "client certificates can only be checked if a root certificate store is available"},
		"42501":             &pgproto3.ErrorResponse{SeverityUnlocalized: "FATAL", Code: "42501", Message: `permission denied for database "d"`},
		"refused the login": &pgproto3.ErrorResponse{Severity: "FATAL", Code: "XX000", Message: "Tenant or user not found"}, // Supavisor
		"leave it out":      &pgproto3.ErrorResponse{SeverityUnlocalized: "FATAL", Code: "55P02", Message: `parameter "ssl_min_protocol_version" cannot be changed now`},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testbed.NoError(t, err)
		defer l.Close()
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				server := pgproto3.NewBackend(c, c)
				server.ReceiveStartupMessage()
				server.Send(answer)
				server.Flush()
			}
		}()
		if err := look(t, backendOn(t, Options{DSN: "postgres://u@" + l.Addr().String() + "/d?sslmode=disable"})); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "GRANT") {
			t.Errorf("%s: %v; want ErrDenied, and no right to the table as the remedy", want, err)
		}
	}
}

// What the owner of the table has added is named. No other hint would mend it.
func TestAFunctionOfTheTableIsNamed(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"INSERT INTO audit_log VALUES (NEW.name)", // without its schema
		"PERFORM lower_name(NEW.name)",
		"NEW.updated_at = now()",
	} {
		db := withTable(t, testbed.SharedPostgres(t).Database(t))
		db.Exec(t, "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+body+"; RETURN NEW; END $$",
			"CREATE TRIGGER audit BEFORE INSERT OR UPDATE ON election_item FOR EACH ROW EXECUTE FUNCTION audit()")
		err := backendOn(t, Options{DSN: db.DSN("")}).Preflight(t.Context(), []backend.Bid{{Election: "jobs", Candidate: backend.Candidate{ID: "a", Nonce: backend.NewNonce()}, TTL: time.Second}})[0]
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "function public.audit() line 1") || strings.Contains(err.Error(), "GRANT") || strings.Contains(err.Error(), "elect schema") {
			t.Errorf("%s: %v; want ErrDenied with the function alone", body, err)
		}
	}
}
