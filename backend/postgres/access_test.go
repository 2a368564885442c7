package postgres

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

func TestBadOptionsAreRefused(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "host=127.0.0.1 port=1 sslmode=disable")
	testbed.NoError(t, err)
	defer pool.Close()
	other := sql.OpenDB(nothing{})
	defer other.Close()
	for want, o := range map[string]Options{
		"0 are set":             {},
		"2 are set":             {DSN: "host=127.0.0.1", Pool: pool},
		"may hold a password":   {DSN: "postgres://u:canary7f3a@[/x"},
		"%25 stands for %":      {DSN: "postgres://u:canary7f3a%x@h/x"},
		"%40 for @":             {DSN: "postgres://u:s@canary7f3a@h/x"},
		`schema is "a\nb"`:      {Pool: pool, Schema: "a\nb"},
		`prefix is "a\"b"`:      {Pool: pool, Prefix: `a"b`},
		"max_ttl is 500ms":      {Pool: pool, MaxTTL: 500 * time.Millisecond},
		"max_ttl is 6m0s":       {Pool: pool, MaxTTL: 6 * time.Minute},
		"must be that of githu": {DB: other},
	} {
		_, err := Open(o)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("want an invalid option with %q, got %v", want, err)
		}
	}
}

// Statements of each error can be pasted: an account without rights is told what it needs, one step
// after the other, until it leads.
func TestTheStatementsInErrorsMendThem(t *testing.T) {
	t.Parallel()
	t.Run("of an account", func(t *testing.T) { mendsRights(t, false) })
	t.Run("with a role", func(t *testing.T) { mendsRights(t, true) })
}

// mendsRights begins with an account that has none, or, if asRole is set, with one that is given a role in each session.
func mendsRights(t *testing.T, asRole bool) {
	t.Parallel()
	db := testbed.SharedPostgres(t).Database(t)
	db.Exec(t, "REVOKE CREATE ON SCHEMA public FROM PUBLIC", "REVOKE EXECUTE ON FUNCTION pg_control_system(), pg_walfile_name(pg_lsn) FROM PUBLIC")
	user, password := db.AddUser(t)
	if asRole {
		role, _ := db.AddUser(t)
		db.Exec(t, "GRANT "+role+" TO "+user, "ALTER ROLE "+user+" SET role = '"+role+"'")
	}
	b := backendOn(t, Options{DSN: db.DSNOf(user, password, "")})
	a := candidate(t, b)
	bids := []backend.Bid{a.BidOver(backend.Lease{Election: "jobs"})}
	for step, want := range []string{"CREATE TABLE IF NOT EXISTS", "GRANT EXECUTE ON FUNCTION pg_control_system", "GRANT EXECUTE ON FUNCTION pg_walfile_name"} {
		if err := b.Prepare(t.Context()); err != nil {
			t.Fatalf("step %d: Prepare of an account that may create nothing: %v", step, err)
		}
		errs := b.Preflight(t.Context(), bids)
		_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		for _, err := range append(errs, err) {
			if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
				t.Fatalf("step %d: %v; want ErrDenied and %s", step, err, want)
			}
		}
		db.Exec(t, err.Error()[strings.Index(err.Error(), want):])
	}
	testbed.NoError(t, b.Preflight(t.Context(), bids)[0])
	if n := db.Value(t, "SELECT count(*) FROM election_item WHERE kind <> 'origin'"); n != "0" {
		t.Errorf("Preflight has written %s rows", n)
	}
	a.Leads("jobs")
}

// A table is to be made in a schema in which the account may make none. That another schema has one helps nobody.
func TestAHintForATableThatCannotBeMadeIsToMakeIt(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	user, password := db.AddUser(t)
	db.Exec(t, "CREATE SCHEMA app", "GRANT USAGE ON SCHEMA app TO "+user)
	err := backendOn(t, Options{DSN: db.DSNOf(user, password, ""), Schema: "app"}).CreateTables(t.Context())
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "CREATE TABLE IF NOT EXISTS") {
		t.Errorf("%v; want ErrDenied with the statement that makes the table", err)
	}
}

// An observer needs SELECT only. A candidate with its rights is told what it lacks.
func TestAnObserverOnlyReads(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	user, password := db.AddUser(t)
	text, err := SchemaSQL("", "")
	testbed.NoError(t, err)
	for _, s := range strings.Split(text, "\n") {
		if strings.HasPrefix(s, "GRANT") && strings.Contains(s, `"observer"`) {
			db.Exec(t, strings.Replace(s, `"observer"`, user, 1))
		}
	}
	b := backendOn(t, Options{DSN: db.DSNOf(user, password, "")})
	if l := candidate(t, b).Sees("jobs"); !l.Vacant() { // nobody has written the row with the epoch yet
		t.Errorf("an empty store: %+v", l)
	}
	member := backendOn(t, Options{DSN: db.DSN("")})
	a := candidate(t, member)
	a.Leads("jobs")
	if l := candidate(t, b).Sees("jobs"); l.Holder.ID != "a" {
		t.Errorf("the observer sees %+v", l)
	}
	errs := b.Preflight(t.Context(), []backend.Bid{a.BidOver(backend.Lease{Election: "jobs"})})
	if !errors.Is(errs[0], backend.ErrDenied) || !strings.Contains(errs[0].Error(), "GRANT SELECT, INSERT, UPDATE, DELETE") {
		t.Errorf("a candidate with the rights of an observer: %v", errs[0])
	}
}

// KeepSchema leaves a missing table missing; otherwise the first candidates make it together.
func TestTheFirstCandidatesMakeTheTable(t *testing.T) {
	t.Parallel()
	db := testbed.SharedPostgres(t).Database(t)
	testbed.NoError(t, backendOn(t, Options{DSN: db.DSN(""), KeepSchema: true}).Prepare(t.Context()))
	if got := db.Value(t, "SELECT coalesce(to_regclass('election_item')::text, 'none')"); got != "none" {
		t.Fatalf("with KeepSchema there is %s", got)
	}
	if err := backendOn(t, Options{DSN: db.DSN("127.0.0.1:1")}).Prepare(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("on a server that is down: %v; it must be tried again", err)
	}
	if err := backendOn(t, Options{DSN: db.DSN("") + "&options=-cdefault_tablespace%3Dgone"}).Prepare(t.Context()); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("without its tablespace: %v; want ErrDenied, and why", err)
	}
	for _, schema := range []string{"", "public"} {
		user, password := db.AddUser(t)
		db.Exec(t, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
		late := backendOn(t, Options{DSN: db.DSNOf(user, password, ""), Schema: schema, Prefix: "late" + schema})
		testbed.NoError(t, late.Prepare(t.Context()))
		db.Exec(t, "GRANT CREATE ON SCHEMA public TO "+user)
		candidate(t, late).Leads("jobs") // no program has to begin again
	}
	errs := make(chan error)
	for range 8 {
		b := backendOn(t, Options{DSN: db.DSN("")})
		go func() { errs <- b.Prepare(t.Context()) }()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	drivertest.Read(t, open(t, Options{DSN: db.DSN("")}))
	db.Exec(t, "CREATE SCHEMA app", "GRANT ALL ON SCHEMA app TO "+db.User)
	other := backendOn(t, Options{DSN: db.DSN(""), Schema: "app", Prefix: "jobs"})
	testbed.NoError(t, other.CreateTables(t.Context()))
	if got := db.Value(t, "SELECT count(*) FROM app.jobs_item"); got != "0" {
		t.Errorf("%s rows", got)
	}
}

// Passwords are sent by SCRAM, and the server's certificate is checked, as the DSN says.
func TestTLSAndSCRAM(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{TLS: true, Args: []string{"--password_encryption=scram-sha-256", "--listen_addresses=127.0.0.1,127.0.0.2"},
		Access: []string{"hostssl all all 127.0.0.0/8 scram-sha-256", "hostnossl all postgres 127.0.0.1/32 trust"}})
	db := server.Database(t)
	if scram := server.Value(t, "SELECT left(rolpassword, 13) FROM pg_authid WHERE rolname = '"+db.User+"'"); scram != "SCRAM-SHA-256" {
		t.Fatalf("the password is kept as %s", scram)
	}
	dsn := func(password, options string) string {
		return strings.Split(db.DSNOf(db.User, password, ""), "?")[0] + "?" + options
	}
	verified := "sslmode=verify-full&sslrootcert=" + server.CAFile()
	trusted := Options{DSN: dsn(db.Password, verified)}
	testbed.NoError(t, backendOn(t, trusted).CreateTables(t.Context()))
	drivertest.Read(t, open(t, trusted), recordKey("jobs"))
	for what, bad := range map[string]string{
		"a wrong password":         dsn("canary7f3a", verified),
		"an authority not trusted": dsn(db.Password, "sslmode=verify-full"),
		"a server of another name": strings.Replace(dsn(db.Password, verified), "127.0.0.1", "127.0.0.2", 1),
		"a connection without TLS": dsn(db.Password, "sslmode=disable"),
		"another way to log in":    dsn(db.Password, verified+"&require_auth=md5"),
	} {
		_, err := open(t, Options{DSN: bad}).Read(t.Context(), []lease.Key{recordKey("jobs")})
		if !errors.Is(err, backend.ErrDenied) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), db.Password) {
			t.Errorf("%s: %v; want ErrDenied without the password", what, err)
		}
	}
}

// A file that the DSN names is read for each connection. An error names it, or says that it is one, and not that the
// DSN is wrong; while somebody writes it nobody is denied.
func TestAFileOfTheDSNIsToldFromTheDSN(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{TLS: true})
	db := withTable(t, server.Database(t))
	authority, err := os.ReadFile(server.CAFile())
	testbed.NoError(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	dsn := strings.Replace(db.DSN(""), "sslmode=disable", "sslmode=verify-full&sslrootcert="+file, 1)
	if _, err := Open(Options{DSN: dsn}); !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), file) {
		t.Errorf("it is missing at the start: %v", err)
	}

	testbed.NoError(t, os.WriteFile(file, authority, 0o600))
	d := open(t, Options{DSN: dsn})
	drivertest.Read(t, d)
	for says, half := range map[string]bool{"no such file": false, "a file that the dsn names": true} {
		testbed.NoError(t, os.Remove(file))
		if half {
			testbed.NoError(t, os.WriteFile(file, authority[:100], 0o600))
		}
		d.ServerChanged() // the next call connects
		_, err := d.Read(t.Context(), nil)
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), says) {
			t.Errorf("it is being written, half %v: %v; want ErrUnavailable and %q", half, err, says)
		}
		testbed.NoError(t, os.WriteFile(file, authority, 0o600))
		drivertest.Read(t, d)
	}
}

// A program's own pool or DB serves as well as a DSN, and stays open.
func TestAPoolOrDBOfTheProgramServes(t *testing.T) {
	t.Parallel()
	for what, options := range map[string]func(db *testbed.PostgresDatabase) (o Options, alive func() error){
		"pool": func(db *testbed.PostgresDatabase) (Options, func() error) {
			p := poolOf(t, db.DSN(""), 2)
			return Options{Pool: p}, func() error { return p.Ping(t.Context()) }
		},
		"DB": func(db *testbed.PostgresDatabase) (Options, func() error) {
			own := stdlib.OpenDBFromPool(poolOf(t, db.DSN(""), 2))
			t.Cleanup(func() { own.Close() })
			return Options{DB: own}, func() error { return own.PingContext(t.Context()) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db := testbed.SharedPostgres(t).Database(t)
			o, alive := options(db)
			a, b := join(t, "a", 10*time.Second, o), join(t, "b", 10*time.Second, Options{DSN: db.DSN("")})
			drivertest.HandsOver(t, b, a, 5*time.Second, func() error {
				if who, _, known := a.Leader(); !known || who.ID != "b" {
					return errors.New(a.Current().String())
				}
				return nil
			})
			used := backendOn(t, o)
			candidate(t, used).Sees("jobs")
			used.Close()
			if err := alive(); err != nil {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// A pool without a free connection is named as the cause.
func TestAPoolThatIsUsedUpIsNamed(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	pool := poolOf(t, db.DSN(""), 1)
	used, err := pool.Acquire(t.Context())
	testbed.NoError(t, err)
	b := backendOn(t, Options{Pool: pool})
	look := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
		return err
	}
	if err := look(); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "the program's own pool has no free connection: all 1 are in use") {
		t.Errorf("the program uses the only connection: %v", err)
	}
	used.Release()
	testbed.Eventually(t, patience, "the pool serves again", look)
}

// A program closes its pool first. That does not wait for the connection that a Backend keeps.
func TestAPoolIsClosedBesideABackend(t *testing.T) {
	t.Parallel()
	db := withTable(t, testbed.SharedPostgres(t).Database(t))
	pool := poolOf(t, db.DSN(""), 3)
	candidate(t, backendOn(t, Options{Pool: pool})).Sees("jobs")
	closed := make(chan bool)
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("Close of the pool waits for the Backend")
	}
}

// nothing is a connector of another driver.
type nothing struct{}

func (nothing) Connect(context.Context) (sqldriver.Conn, error) {
	return nil, errors.New("no connection")
}
func (nothing) Driver() sqldriver.Driver { return nil }
