package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// canary is a password that no error may show.
const canary = "canary7f3a"

func TestBadOptionsAreRefused(t *testing.T) {
	const good = "u:" + canary + "@tcp(localhost:1)/x"
	for want, o := range map[string]Options{
		"0 are set":            {},
		"2 are set":            {DSN: good, Config: mysql.NewConfig()},
		"missing the slash":    {DSN: "u:" + canary + "@tcp(localhost:1)"},
		"may hold a password":  {DSN: "u:" + canary + "@" + canary + "/x"},
		"cannot be used":       {DSN: good + "?timeout=" + canary},
		"parameter strict":     {DSN: good + "?strict=true"},
		"is not host:port":     {DSN: "u:" + canary + "@tcp(localhost:99999)/x"},
		"(it is not shown":     {DSN: good + "?tls=nowhere"},
		"no schema is named":   {DSN: "u:" + canary + "@tcp(localhost:1)/"},
		"prefix is \"a`; DROP": {DSN: good, Prefix: "a`; DROP TABLE x"},
		`prefix is "1a"`:       {DSN: good, Prefix: "1a"},
		`prefix is "aaaa`:      {DSN: good, Prefix: strings.Repeat("a", 49)},
		`schema is "a\nb"`:     {DSN: good, Schema: "a\nb"},
		"max_ttl is 10ms":      {DSN: good, MaxTTL: 10 * time.Millisecond},
		"max_ttl is 6m0s":      {DSN: good, MaxTTL: 6 * time.Minute},
	} {
		_, err := Open(o)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprintf("%+v %#v", err, err), canary) {
			t.Errorf("want an invalid option with %q, got %v", want, err)
		}
	}
}

var pasted = regexp.MustCompile("(GRANT|DROP USER|CREATE TABLE|SET GLOBAL).*;")

// paste runs the statements in err as an administrator does who copies them from a log: unchanged, and
// with no schema selected.
func (l *lab) paste(t testing.TB, err error) {
	t.Helper()
	var printed bytes.Buffer
	slog.New(slog.NewTextHandler(&printed, nil)).Error("denied", "error", err)
	statements := pasted.FindString(printed.String())
	if statements == "" || !errors.Is(err, backend.ErrDenied) {
		t.Fatalf("want ErrDenied and a statement; the log is\n%s", printed.String())
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), canary) {
		t.Errorf("more than one line, or a password: %v", err)
	}
	anywhere := testbed.OpenDB(t, clone(l.Admin, func(c *mysql.Config) { c.DBName = "" }))
	if _, err := anywhere.ExecContext(t.Context(), statements); err != nil {
		t.Fatalf("the log is\n%sand pasting\n%s\nfails: %v", printed.String(), statements, err)
	}
}

// account creates an account with these rights. Its name begins with name.
func (l *lab) account(t testing.TB, name, host string, rights ...string) *mysql.Config {
	t.Helper()
	name += l.Name[len(l.Name)-10:]
	who := "'" + strings.ReplaceAll(name, "'", "''") + "'@'" + host + "'"
	l.Exec(t, "CREATE USER "+who+" IDENTIFIED BY '"+canary+"'")
	t.Cleanup(func() { l.admin.Exec("DROP USER " + who) })
	for _, right := range rights {
		l.Exec(t, "GRANT "+strings.ReplaceAll(right, "{schema}", l.Name)+" TO "+who)
	}
	return clone(l.User, func(c *mysql.Config) { c.User, c.Passwd = name, canary })
}

// preflight asks whether a candidate may take part.
func preflight(t testing.TB, b *Backend) error {
	t.Helper()
	return b.Preflight(t.Context(), []backend.Bid{candidate(t, b).BidOver(backend.Lease{Election: "jobs"})})[0]
}

// The statements name the schema, however it was configured, and the account as the server knows it, whose
// host is not the client's. The account's present rights do not matter.
func TestTheStatementsInErrorsMendThem(t *testing.T) {
	t.Parallel()
	options := map[string]func(t *testing.T, c *mysql.Config) Options{
		"config": func(t *testing.T, c *mysql.Config) Options { return Options{Config: c} },
		"DSN":    func(t *testing.T, c *mysql.Config) Options { return Options{DSN: c.FormatDSN()} },
		"schema": func(t *testing.T, c *mysql.Config) Options {
			return Options{Config: clone(c, func(c *mysql.Config) { c.DBName = "" }), Schema: c.DBName}
		},
		"pool": func(t *testing.T, c *mysql.Config) Options { return Options{DB: testbed.OpenDB(t, c)} },
	}
	const nothing = "sees nothing"
	rights := map[string][]string{
		nothing:              nil,
		"reads alone":        {"SELECT ON {schema}.*"},
		"sees another table": {"SELECT ON {schema}.other"},
		"deletes nothing":    {"SELECT, INSERT, UPDATE ON {schema}.*"},
		"inserts nothing":    {"SELECT, UPDATE, DELETE ON {schema}.election_item"},
	}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for what, rights := range rights {
			for how, options := range options {
				if what != nothing && how != "config" && how != "pool" {
					continue // they differ in where the schema is named, which no right changes
				}
				for _, there := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s, table %v, by %s", what, there, how), func(t *testing.T) {
						t.Parallel()
						l := newLab(t, testbed.Shared(t, k))
						l.Exec(t, "CREATE TABLE other (id INT PRIMARY KEY)")
						c := l.account(t, "p", "127.0.0._", rights...)
						mends(t, l, options(t, c), there)
					})
				}
			}
		}
	})
}

// mends pastes what errors say until a backend with these options leads.
func mends(t *testing.T, l *lab, o Options, there bool) {
	if !there {
		l.Exec(t, "DROP TABLE election_item")
	}
	b := backendOn(t, o)
	for range 3 { // the first grant may not suffice to see the rest
		if err := b.Prepare(t.Context()); err != nil {
			l.paste(t, err)
		}
		if err := preflight(t, b); err != nil {
			l.paste(t, err)
		}
	}
	candidate(t, b).Leads("jobs")
}

// So do those of a server that speaks another language.
func TestTheStatementsInErrorsMendThemInAnyLanguage(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Start(t, k, testbed.Options{})
		for _, language := range []string{"de_DE", "fr_FR", "ja_JP", "sv_SE"} {
			server.Exec(t, "SET GLOBAL lc_messages = '"+language+"'")
			for what, right := range map[string]string{"sees nothing": "USAGE ON *.*", "sees another table": "SELECT ON {schema}.other"} {
				t.Run(language+", "+what, func(t *testing.T) {
					l := newLab(t, server)
					l.Exec(t, "CREATE TABLE other (id INT PRIMARY KEY)")
					mends(t, l, Options{Config: l.account(t, "o'p", "127.0.0._", right)}, false)
				})
			}
		}
	})
}

// Names of schemas and accounts are quoted.
func TestStatementsQuoteNamesOfAnyKind(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		schema := "my-`app` o'" + l.Name[len(l.Name)-10:]
		quoted := "`" + strings.ReplaceAll(schema, "`", "``") + "`"
		l.Exec(t, "CREATE DATABASE "+quoted)
		t.Cleanup(func() { l.admin.Exec("DROP DATABASE " + quoted) })
		testbed.NoError(t, CreateTables(t.Context(), testbed.OpenDB(t, clone(l.Admin, func(c *mysql.Config) { c.DBName = schema })), "", ""))
		for _, name := range []string{"o'brien", "a b", "ü", "a@b", "a'@'b", "se;mi", "tick`", "%"} {
			b := backendOn(t, Options{Config: clone(l.account(t, name, "127.0.0.%"), func(c *mysql.Config) { c.DBName = schema })})
			l.paste(t, preflight(t, b))
			candidate(t, b).Leads(name)
		}
	})
}

// What else an administrator must mend is said, in the class ErrDenied and without the password; a server
// that is not there is not available.
func TestOtherErrorsSayWhatIsWrong(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		tenant := l.tenant(t)
		l.Exec(t, "REVOKE CREATE ON "+tenant+".* FROM "+l.userAtHost(t), "CREATE TABLE old_item (kind VARBINARY(7), name VARBINARY(255))")
		with := func(change func(*mysql.Config)) Options { return Options{Config: clone(l.User, change)} }
		set := func(name, value string) Options {
			return with(func(c *mysql.Config) { c.Params = map[string]string{name: value} })
		}
		l.withTable(t, "orphan")
		l.Exec(t, "CREATE DEFINER='gone'@'%' TRIGGER gone BEFORE INSERT ON orphan_item FOR EACH ROW SET @x = 1")
		nowhere := testbed.OpenDB(t, clone(l.User, func(c *mysql.Config) { c.DBName = "" }))
		secured := l.account(t, "secured", "127.0.0.1")
		l.Exec(t, "ALTER USER "+account(secured.User, "127.0.0.1")+" REQUIRE SSL")
		for what, c := range map[string]struct {
			options Options
			class   error
			says    string
		}{
			"a wrong password":                  {with(func(c *mysql.Config) { c.Passwd = canary }), backend.ErrDenied, "user, password or host are wrong"},
			"an account that needs TLS":         {Options{Config: secured}, backend.ErrDenied, "tls=true"},
			"a schema that is not":              {with(func(c *mysql.Config) { c.DBName, c.User, c.Passwd = "nowhere", "root", l.Admin.Passwd }), backend.ErrDenied, "CREATE DATABASE"},
			"a setting that is not":             {set("nonsense", "1"), backend.ErrDenied, "nonsense"},
			"a setting of the server":           {set("max_connections", "5"), backend.ErrDenied, "SET GLOBAL"},
			"a setting that is fixed":           {set("version", "'x'"), backend.ErrDenied, "read only variable"},
			"a time zone that is not loaded":    {set("time_zone", "'Mars/Base'"), backend.ErrDenied, "time zone"},
			"a collation of another server":     {set("collation_connection", "'utf8mb4_none_ci'"), backend.ErrDenied, "collation"},
			"a collation of no server":          {with(func(c *mysql.Config) { c.Apply(mysql.Charset("utf8mb4", "utf8mb4_none_ci")) }), backend.ErrDenied, "collation"},
			"a language that is not":            {set("lc_time_names", "'xx_XX'"), backend.ErrDenied, "locale"},
			"a pool of small messages":          {Options{DB: testbed.OpenDB(t, clone(l.User, func(c *mysql.Config) { c.MaxAllowedPacket = 999 }))}, backend.ErrDenied, "MaxAllowedPacket"},
			"a trigger of nobody":               {Options{Config: l.User, Prefix: "orphan"}, backend.ErrDenied, "definer"},
			"nobody at that address":            {with(func(c *mysql.Config) { c.Addr, c.Passwd = "127.0.0.1:1", canary }), backend.ErrUnavailable, "refused"},
			"a server that is not trusted":      {with(func(c *mysql.Config) { c.TLSConfig = "true"; c.Passwd = canary }), backend.ErrDenied, ""},
			"a pool that selects no schema":     {Options{DB: nowhere}, backend.ErrDenied, "name the schema"},
			"a table of other columns":          {Options{Config: l.User, Prefix: "old"}, backend.ErrDenied, "the table is not the one"},
			"a schema beside that of the table": {with(func(c *mysql.Config) { c.DBName = tenant }), backend.ErrDenied, "there is one in the schema " + l.Name},
		} {
			_, err := backendOn(t, c.options).Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) || strings.Contains(fmt.Sprintf("%+v %#v", err, err), canary) {
				t.Errorf("%s: %v; want %v and %q, without the password", what, err, c.class, c.says)
			}
		}
		candidate(t, backendOn(t, Options{DB: nowhere, Schema: l.Name})).Leads("jobs")
	})
}

// What answers may be no MySQL server. The driver panics at the first message of the X protocol, and has no words for others, or
// for a proxy that has no server.
func TestAnEndpointThatSpeaksOtherwiseIsNamed(t *testing.T) {
	for what, greeting := range map[string]string{"the X protocol": "\x05\x00\x00\x00\x0b\x08\x05\x1a\x00", "SSH": "SSH-2.0-OpenSSH_9.2\r\n", "a web server": "HTTP/1.1 400 Bad Request\r\n\r\n", "a proxy": ""} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testbed.NoError(t, err)
		defer l.Close()
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				if c.Write([]byte(greeting)); greeting == "" {
					c.Close()
				}
			}
		}()
		_, err = open(t, Options{Config: &mysql.Config{Addr: l.Addr().String(), DBName: "app"}}).Read(t.Context(), nil)
		class, says := backend.ErrDenied, "does not speak MySQL's protocol"
		if greeting == "" {
			class, says = backend.ErrUnavailable, "invalid connection: unexpected EOF"
		}
		if !errors.Is(err, class) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %v: %s", what, err, class, says)
		}
	}
}

// An account that has used up what it may ask in an hour is told so, and does not log in again and again: a place that whoever waits
// gives up does not help.
func TestAQuotaIsNoPlaceToWaitFor(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		c := l.account(t, "q", "127.0.0.1", "SELECT ON {schema}.*")
		l.Exec(t, "ALTER USER "+account(c.User, "127.0.0.1")+" WITH MAX_QUERIES_PER_HOUR 1")
		d := open(t, Options{Config: c})
		gives := context.CancelFunc(func() {})
		d.notifier.yield.Store(&gives)
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		if _, err := d.Read(ctx, nil); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "has exceeded the 'max_q") {
			t.Errorf("%v; want ErrUnavailable and the limit", err)
		}
	})
}

// Somebody else's lock goes away by itself, and the error says that it is one.
func TestALockedTableIsSaidToBeOne(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		b := backendOn(t, Options{Config: l.User})
		candidate(t, b).Leads("jobs")
		unlock := l.lock(t, "LOCK TABLES election_item WRITE")
		defer unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "another session keeps the table") {
			t.Errorf("%v; want ErrUnavailable that says so", err)
		}
	})
}

// So does that of a backup, which locks all tables. A short call does not wait until the server gives up.
func TestALockOfABackupIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Start(t, k, testbed.Options{}))
		b := backendOn(t, Options{Config: l.User})
		a := candidate(t, b)
		bid := a.BidOver(a.Sees("jobs"))
		unlock := l.lock(t, "FLUSH TABLES WITH READ LOCK")
		defer unlock()
		testbed.Eventually(t, patience, "a call says who keeps it", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if _, err := b.Acquire(ctx, []backend.Bid{bid}); err == nil || !strings.Contains(err.Error(), "another session keeps the table") {
				return fmt.Errorf("it says %w", err)
			}
			return nil
		})
	})
}

// Somebody's trigger or constraint, and a column that is missing, go away only by a person.
func TestATableThatSomebodyHasChangedIsDenied(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, change := range []string{
			"ALTER TABLE election_item ADD CHECK (LENGTH(value) < 3)",
			"CREATE TRIGGER frozen BEFORE INSERT ON election_item FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'frozen'",
			"ALTER TABLE election_item ADD COLUMN tenant INT NOT NULL",
			"ALTER TABLE election_item DROP COLUMN created",
			"CREATE TRIGGER frozen BEFORE INSERT ON election_item FOR EACH ROW SET NEW.value = NULL",
			"CREATE TRIGGER frozen BEFORE INSERT ON election_item FOR EACH ROW SET NEW.value = ''",
			"CREATE TRIGGER frozen BEFORE INSERT ON election_item FOR EACH ROW INSERT INTO election_item (kind) VALUES ('x')",
			"ALTER TABLE election_item MODIFY value INT",
			"ALTER TABLE election_item MODIFY value JSON",
			"ALTER TABLE election_item MODIFY created DATE",
			"ALTER TABLE election_item DROP PRIMARY KEY",
			"ALTER TABLE election_item DISCARD TABLESPACE",
			"ALTER TABLE election_item ENGINE=MyISAM", // it would keep no row locked
			"ALTER TABLE election_item ADD COLUMN half INT AS (1 / 0) STORED",
			"RENAME TABLE election_item TO former; CREATE VIEW election_item AS SELECT * FROM former",
		} {
			l := newLab(t, testbed.Shared(t, k))
			l.Exec(t, strings.Split(change, "; ")...)
			b := backendOn(t, Options{Config: l.User})
			_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
			if !errors.Is(err, backend.ErrDenied) {
				t.Errorf("%s: %v; want ErrDenied", change, err)
			}
		}
	})
}

// An observer needs SELECT only, and leaves nothing. A candidate with its rights is told what it lacks.
func TestAnObserverOnlyReads(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		c := l.account(t, "o", "127.0.0._", "SELECT ON {schema}.election_item")
		b := backendOn(t, Options{Config: c})
		if seen := candidate(t, b).Sees("jobs"); !seen.Vacant() { // nobody has written the row with the epoch yet
			t.Errorf("an empty store: %+v", seen)
		}
		if n := l.number(t, "SELECT COUNT(*) FROM election_item"); n != 0 {
			t.Errorf("an observer has left %d rows", n)
		}
		candidate(t, backendOn(t, Options{Config: l.User})).Leads("jobs")
		if seen := candidate(t, b).Sees("jobs"); seen.Holder.ID != "a" {
			t.Errorf("the observer sees %+v", seen)
		}
		if _, err := b.Inspect(t.Context(), time.Second, 0); err != nil {
			t.Errorf("an observer inspects: %v", err)
		}
		if err := preflight(t, b); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE, DELETE ON") {
			t.Errorf("a candidate with the rights of an observer: %v", err)
		}
	})
}

// KeepSchema leaves a missing table missing; otherwise the first candidates make it together. Preflight
// leaves nothing in it.
func TestTheFirstCandidatesMakeTheTable(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		const prefix = "fresh"
		c := l.account(t, "m", "127.0.0._", makerRights+" ON {schema}.*")
		kept := backendOn(t, Options{Config: c, Prefix: prefix, KeepSchema: true})
		testbed.NoError(t, kept.Prepare(t.Context()))
		if err := preflight(t, kept); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "CREATE TABLE IF NOT EXISTS `"+l.Name+"`.`fresh_item`") {
			t.Errorf("with KeepSchema and no table: %v", err)
		}
		down := backendOn(t, Options{Config: clone(c, func(c *mysql.Config) { c.Addr = "127.0.0.1:1" }), Prefix: prefix})
		if err := down.Prepare(t.Context()); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("on a server that is down: %v; it must be tried again", err)
		}
		if l.kind == testbed.MariaDB { // MySQL is told when it starts
			other := backendOn(t, Options{Config: clone(l.Admin, func(c *mysql.Config) { c.Params = map[string]string{"enforce_storage_engine": "'Aria'"} }), Prefix: prefix})
			if err := other.Prepare(t.Context()); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "NO_ENGINE_SUBSTITUTION") {
				t.Errorf("with another engine: %v; want ErrDenied, and why", err)
			}
		}
		later := l.account(t, "l", "127.0.0._", memberRights+" ON {schema}.*")
		late := backendOn(t, Options{Config: later, Prefix: "late"})
		testbed.NoError(t, late.Prepare(t.Context()))
		l.Exec(t, fmt.Sprintf("GRANT CREATE ON %s.* TO %s", l.Name, account(later.User, "127.0.0._")))
		candidate(t, late).Leads("jobs") // no program has to begin again
		errs := make(chan error)
		for range 8 {
			b := backendOn(t, Options{Config: c, Prefix: prefix})
			go func() { errs <- b.Prepare(context.Background()) }()
		}
		for range 8 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		testbed.NoError(t, preflight(t, kept))
		if n := l.number(t, "SELECT COUNT(*) FROM fresh_item WHERE kind <> 'origin'"); n != 0 {
			t.Errorf("Preflight has written %d rows", n)
		}
		candidate(t, kept).Leads("jobs")
	})
}

// An address without a port has that of a server, in brackets, too.
func TestAnAddressMayLackItsPort(t *testing.T) {
	for given, want := range map[string]string{"[::1]": "[::1]:3306", "::1": "[::1]:3306", "[fe80::1%lo]": "[fe80::1%lo]:3306", "db": "db:3306", "[::1]:7": "[::1]:7"} {
		for _, o := range []Options{{DSN: "app@tcp(" + given + ")/app"}, {Config: &mysql.Config{Net: "tcp", Addr: given, DBName: "app"}}} {
			if got := open(t, o).Location; !strings.HasPrefix(got, want+"/") {
				t.Errorf("%s leads to %s, want %s", given, got, want)
			}
		}
	}
}

// The server's certificate is checked, as the DSN says, with each way of authentication.
func TestTLSWithAnOwnAuthorityAndEachPlugin(t *testing.T) {
	t.Parallel()
	plugins := map[testbed.Kind][]string{
		testbed.MariaDB: {"VIA mysql_native_password USING PASSWORD('%s')", "VIA ed25519 USING PASSWORD('%s')"},
		testbed.MySQL:   {"WITH caching_sha2_password BY '%s'", "WITH sha256_password BY '%s'"},
	}
	stranger := httptest.NewTLSServer(nil)
	t.Cleanup(stranger.Close)
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Start(t, k, testbed.Options{TLS: true, Args: []string{"--require-secure-transport=ON"}})
		l := newLab(t, server)
		if k == testbed.MariaDB {
			server.Exec(t, "INSTALL SONAME 'auth_ed25519'")
		}
		for _, plugin := range plugins[k] {
			c := l.AddUser(t)
			server.Exec(t, fmt.Sprintf("ALTER USER '%s'@'127.0.0.1' IDENTIFIED "+plugin, c.User, c.Passwd))
			trusting := func(c *mysql.Config) { c.TLS, c.TLSConfig = server.TLSConfig(), "" }
			drivertest.Read(t, open(t, Options{Config: clone(c, trusting)}), recordKey("jobs"))
			for what, bad := range map[string]func(*mysql.Config){
				"a connection without TLS": func(c *mysql.Config) { c.TLS, c.TLSConfig = nil, "" },
				"an authority not trusted": func(c *mysql.Config) { c.TLS, c.TLSConfig = nil, "true" },
				"a server of another name": func(c *mysql.Config) { trusting(c); c.TLS.ServerName = "other.example" },
				"a client not trusted":     func(c *mysql.Config) { trusting(c); c.TLS.Certificates = stranger.TLS.Certificates },
				"a wrong password":         func(c *mysql.Config) { trusting(c); c.Passwd = canary },
			} {
				var err error
				for range 9 { // the driver drops a zero at the end of ed25519's challenge, one in 256, and an alert can be lost
					_, err = open(t, Options{Config: clone(c, bad)}).Read(t.Context(), []lease.Key{recordKey("jobs")})
					lost := err != nil && what == "a client not trusted" && !strings.Contains(err.Error(), "tls: ")
					if err == nil || !lost && !strings.Contains(err.Error(), mysql.ErrMalformPkt.Error()) {
						break
					}
				}
				if !errors.Is(err, backend.ErrDenied) || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), c.Passwd) {
					t.Errorf("%s: %s: %v; want ErrDenied without the password", plugin, what, err)
				}
			}
		}
	})
}
