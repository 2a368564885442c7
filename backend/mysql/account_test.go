package mysql

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

var pasted = regexp.MustCompile("(GRANT|DROP USER|CREATE TABLE|INSERT INTO|UPDATE `).*;")

// paste runs the statements in err as an administrator does who copies them from a log:
// unchanged, and with no schema selected.
func (l *lab) paste(t testing.TB, err error) {
	t.Helper()
	var printed bytes.Buffer
	slog.New(slog.NewTextHandler(&printed, nil)).Error("denied", "error", err)
	statements := pasted.FindString(printed.String())
	if statements == "" || !errors.Is(err, backend.ErrDenied) {
		t.Fatalf("want ErrDenied and a statement; the log is\n%s", printed.String())
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "only-this") {
		t.Errorf("more than one line, or a password: %v", err)
	}
	c := l.server.AdminConfig()
	c.MultiStatements = true
	if _, err := testbed.OpenDB(t, c).ExecContext(t.Context(), statements); err != nil {
		t.Fatalf("the log is\n%sand pasting\n%s\nfails: %v", printed.String(), statements, err)
	}
}

// user creates an account with this name and rights in the lab's schema.
func (l *lab) user(t testing.TB, name, host string, rights ...string) *mysql.Config {
	t.Helper()
	account := "'" + strings.ReplaceAll(name, "'", "''") + "'@'" + host + "'"
	l.exec(t, "CREATE USER "+account+" IDENTIFIED BY 'only-this'")
	t.Cleanup(func() { l.admin.Exec("DROP USER " + account) })
	for _, right := range rights {
		l.exec(t, "GRANT "+right+" TO "+account)
	}
	return clone(l.User, func(c *mysql.Config) { c.User, c.Passwd = name, "only-this" })
}

// The statements name the schema, however it was configured, and the account as the server
// knows it, whose host is not the client's. The account's present rights do not matter.
func TestStatementsInErrorsCanBePasted(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		rights := map[string][]string{
			"reads alone":         {"SELECT ON {schema}.*"},
			"sees nothing":        nil,
			"sees another table":  {"SELECT ON {schema}.other"},
			"writes no terms":     {"SELECT, INSERT, UPDATE ON {schema}.election_lease", "SELECT ON {schema}.election_term"},
			"writes one of three": {"SELECT ON {schema}.*", "INSERT, UPDATE ON {schema}.election_lease"},
		}
		l.exec(t, "CREATE TABLE other (id INT PRIMARY KEY)")
		i := 0
		for what, list := range rights {
			for how, options := range map[string]func(c *mysql.Config) Options{
				"config": func(c *mysql.Config) Options { return Options{Config: c} },
				"DSN":    func(c *mysql.Config) Options { return Options{DSN: c.FormatDSN()} },
				"schema": func(c *mysql.Config) Options { c.DBName = ""; return Options{Config: c, Schema: l.Name} },
				"connector": func(c *mysql.Config) Options {
					made, err := mysql.NewConnector(c)
					if err != nil {
						t.Fatal(err)
					}
					return Options{Connector: made}
				},
			} {
				t.Run(what+", by "+how, func(t *testing.T) {
					i++
					for j, right := range list {
						list[j] = strings.ReplaceAll(right, "{schema}", l.Name)
					}
					n := openNode(t, "n", options(l.user(t, fmt.Sprintf("p%d%s", i, l.Name[len(l.Name)-10:]), "127.0.0._", list...)))
					for range 2 { // the first grant may not suffice to see the rest
						if _, err := n.tryObserve("a"); err != nil {
							l.paste(t, err)
						}
						if errs := n.Preflight(t.Context(), []backend.Bid{{Election: "a", Candidate: n.me, TTL: time.Second}}); errs[0] != nil {
							l.paste(t, errs[0])
						}
					}
					if a, err := n.bid(n.observe("a"), time.Second); err != nil || a.Err != nil {
						t.Errorf("once it was pasted: %v, %v", a.Err, err)
					}
				})
			}
		}
	})
}

// Without tables the statements include CREATE, so that they can be pasted and the member makes
// the tables.
func TestStatementsCanBePastedWithoutTables(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		l.exec(t, "CREATE TABLE other (id INT PRIMARY KEY)")
		for i, rights := range [][]string{nil, {"SELECT ON " + l.Name + ".other"}, {"SELECT, INSERT, UPDATE ON " + l.Name + ".*"}} {
			l.exec(t, "DROP TABLE election_lease, election_term, election_member")
			n := openNode(t, "n", Options{Config: l.user(t, fmt.Sprintf("n%d%s", i, l.Name[len(l.Name)-10:]), "127.0.0._", rights...)})
			observe := func() error {
				if err := n.Prepare(t.Context()); err != nil {
					return err
				}
				_, err := n.tryObserve("a")
				return err
			}
			l.paste(t, observe())
			if err := observe(); err != nil {
				t.Errorf("an account with the rights %q, once it was pasted: %v", rights, err)
			}
		}
	})
}

// Old installations have an anonymous account, which the server prefers to 'app'@'%'.
func TestAnAnonymousAccountIsReportedAndRemovable(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		app := l.user(t, "app", "%", "SELECT, INSERT, UPDATE ON "+l.Name+".*")
		app.Net = "unix" // the server resolves no names, and sees localhost only this way
		if err := l.admin.QueryRow("SELECT @@socket").Scan(&app.Addr); err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]struct{ password, rights string }{
			"a login that is refused":      {"only-this", ""},
			"a schema that it may not use": {"", ""},
			"tables that it may not see":   {"", "SELECT ON {schema}.other"},
			"tables that it may not write": {"", "SELECT ON {schema}.*"},
		} {
			t.Run(what, func(t *testing.T) {
				l.exec(t, "CREATE TABLE IF NOT EXISTS other (id INT PRIMARY KEY)", "CREATE USER ''@'localhost'",
					"ALTER USER 'app'@'%' IDENTIFIED BY '"+c.password+"'")
				t.Cleanup(func() { l.admin.Exec("DROP USER IF EXISTS ''@'localhost'") })
				if c.rights != "" {
					l.exec(t, "GRANT "+strings.ReplaceAll(c.rights, "{schema}", l.Name)+" TO ''@'localhost'")
				}
				n := openNode(t, "n", Options{Config: clone(app, func(o *mysql.Config) { o.Passwd = c.password })})
				preflight := func() error {
					return n.Preflight(t.Context(), []backend.Bid{{Election: "a", Candidate: n.me, TTL: time.Second}})[0]
				}
				err := preflight()
				if !strings.Contains(fmt.Sprint(err), "anonymous account") || !strings.HasSuffix(fmt.Sprint(err), "DROP USER ''@'localhost';") {
					t.Fatalf("%v; want the anonymous account, and the statement that removes it", err)
				}
				l.paste(t, err)
				if err := preflight(); err != nil {
					t.Errorf("once it was pasted: %v", err)
				}
			})
		}
	})
}

func TestARemoteLoginBlamesNoAnonymousAccount(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n := openNode(t, "n", Options{Config: clone(l.User, func(c *mysql.Config) { c.Passwd = "wrong" })})
		if _, err := n.tryObserve("a"); !errors.Is(err, backend.ErrDenied) || strings.Contains(err.Error(), "anonymous") {
			t.Errorf("a wrong password, not from localhost: %v", err)
		}
	})
}

func TestStatementsQuoteNamesOfAnyKind(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		schema := "my-`app` o'" + l.Name[len(l.Name)-10:]
		quoted := "`" + strings.ReplaceAll(schema, "`", "``") + "`"
		l.exec(t, "CREATE DATABASE "+quoted)
		t.Cleanup(func() { l.admin.Exec("DROP DATABASE " + quoted) })
		if err := CreateTables(t.Context(), testbed.OpenDB(t, clone(l.Admin, func(c *mysql.Config) { c.DBName = schema })), "", ""); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"o'brien", "a b", "ü", "a@b", "a'@'b", "se;mi", "tick`", "%"} {
			name += l.Name[len(l.Name)-6:]
			n := openNode(t, "n", Options{Config: clone(l.user(t, name, "127.0.0.%"), func(c *mysql.Config) { c.DBName = schema })})
			_, err := n.tryObserve("a") // the login is refused
			l.paste(t, err)
			l.exec(t, fmt.Sprintf("REVOKE INSERT ON %s.election_lease FROM %s", quoted, account(name, "127.0.0.%")))
			l.paste(t, n.Preflight(t.Context(), []backend.Bid{{Election: "a", Candidate: n.me, TTL: time.Second}})[0])
			if a, err := n.bid(n.observe(name), time.Second); err != nil || a.Err != nil {
				t.Errorf("%q, once it was pasted: %v, %v", name, a.Err, err)
			}
		}
	})
}

func TestFenceAndCreateTablesNameTheRightsTheyNeed(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		for i, right := range []string{"", "SELECT ON " + l.Name + ".*"} {
			var rights []string
			if right != "" {
				rights = []string{right}
			}
			c := l.user(t, fmt.Sprintf("t%d%s", i, l.Name[len(l.Name)-10:]), "127.0.0._", rights...)
			prefix := fmt.Sprint("new", i)
			make := func() error { return CreateTables(t.Context(), testbed.OpenDB(t, c), "", prefix) }
			l.paste(t, make())
			if err := make(); err != nil {
				t.Errorf("once it was pasted: %v", err)
			}
		}
		var held backend.Lease
		c := l.user(t, "f"+l.Name[len(l.Name)-10:], "127.0.0._", "SELECT ON "+l.Name+".election_lease")
		fenced := func() error {
			return Fence{}.Do(t.Context(), testbed.OpenDB(t, c), "a", held.Term, func(*sql.Tx) error { return nil })
		}
		// Without the table, the GRANT fails: the error tells to make the table first.
		l.exec(t, "DROP TABLE election_term")
		held.Term = 1
		err := fenced()
		if create, grant, _ := strings.Cut(err.Error(), "GRANT SELECT ON"); !strings.Contains(create, "elect schema --apply") || grant == "" {
			t.Errorf("want the command that makes the tables, then a GRANT: %v", err)
		}
		if err := CreateTables(t.Context(), l.admin, l.Name, ""); err != nil {
			t.Fatal(err)
		}
		held = l.node(t, "n").lead("a", time.Second)
		l.paste(t, err)
		if err := fenced(); err != nil {
			t.Errorf("once it was pasted: %v", err)
		}
	})
}

func TestTheDeniedAccountIsInTheErrorOrTheDSN(t *testing.T) {
	bare, err := newTables("", "")
	if err != nil {
		t.Fatal(err)
	}
	dsn := login{"app", "%", "app"}
	for _, c := range []struct {
		dsn     login
		number  uint16
		message string
		says    string
	}{
		{dsn, 1044, "Access denied for user 'app'@'10.0.%' to database 'app'", "ON `app`.`election_lease` TO 'app'@'10.0.%';"},
		{dsn, 1044, "Benutzer 'app'@'10.0.%' hat keine Zugriffsberechtigung für Datenbank 'app'", "ON `app`.`election_lease` TO 'app'@'%';"},
		{dsn, 1044, "Access denied for user ''@'localhost' to database 'app'", ": DROP USER ''@'localhost';"},
		{login{}, 1044, "Access denied for user 'app'@'10.0.%' to database 'app'", "ON `app`.`election_lease` TO 'app'@'10.0.%';"},
		{login{}, 1044, "", "ON `election_lease` TO 'user'@'host';"},
		{dsn, 1142, "INSERT command denied to user 'app'@'10.0.0.7' for table `app`.`election_lease`", "ON `app`.`election_lease` TO 'app'@'%';"},
		{dsn, 1045, "Access denied for user 'app'@'localhost' (using password: YES)", "; user, password or host are wrong; if they are right, an anonymous account hides the user's; an administrator can remove it: DROP USER ''@'localhost';"},
		{dsn, 1045, "Access denied for user 'app'@'localhost' (using password: NO)", "; user, password or host are wrong"}, // an anonymous account would have let it in
		{dsn, 1045, "Access denied for user 'app'@'10.0.0.7' (using password: YES)", "; user, password or host are wrong"},
	} {
		b := &Backend{tables: bare, dsn: c.dsn}
		got := b.fail("renew", &mysql.MySQLError{Number: c.number, Message: c.message}).Error()
		got = regexp.MustCompile(" GRANT [A-Z, ]* ON (`app`.)?`election_term`.*").ReplaceAllString(got, "")
		if !strings.HasSuffix(got, c.says) {
			t.Errorf("%d %s: %s; want it to end in %s", c.number, c.message, got, c.says)
		}
	}
}

var inQuotes = regexp.MustCompile("'(?:[^']|'')*'|`(?:[^`]|``)*`")

// Whatever the server and the DSN contain, nothing ends its quotes early, and a log writes the
// text unchanged.
func FuzzAccountsAndSchemasStayInTheirQuotes(f *testing.F) {
	for _, s := range []string{"app", "", "o'brien", "'; DROP USER root; --", "`", `\`, `\'`, `"`, "a\nb", "\x1b]0;x\x07", "\u202e", "\xff", "\u00a0", "@", "%", strings.Repeat("x", 400)} {
		f.Add(s, "%", "app")
		f.Add("app", s, "app")
		f.Add("app", "%", s)
	}
	f.Fuzz(func(t *testing.T, user, host, schema string) {
		bare, err := newTables("", "")
		if err != nil {
			t.Fatal(err)
		}
		s := login{user, host, schema}.grantHint(memberRights, bare.inSchema(schema).lease)
		if strconv.Quote(s) != `"`+s+`"` || len(s) > 2000 {
			t.Errorf("a log changes the text: %q", s)
		}
		quoted := inQuotes.FindAllString(s, -1)
		switch rest := inQuotes.ReplaceAllString(strings.Replace(s, "the user's", "", 1), "_"); rest {
		case "; an administrator can grant what is needed: GRANT SELECT, INSERT, UPDATE ON _ TO _@_;",
			"; an administrator can grant what is needed: GRANT SELECT, INSERT, UPDATE ON _._ TO _@_;":
			if got := quoted[len(quoted)-2:]; got[0]+"@"+got[1] != placeholderAccount && (unquoted(got[0]) != user || unquoted(got[1]) != host) {
				t.Errorf("the account %q, %q has become %q", user, host, got)
			}
			if len(quoted) == 4 && unquoted(quoted[0]) != schema {
				t.Errorf("the schema %q has become %q", schema, quoted[0])
			}
		case "; the server takes this login for an anonymous account, which hides ; an administrator can remove it: DROP USER _@_;":
			if user != "" {
				t.Errorf("%q is not anonymous: %s", user, s)
			}
		default:
			t.Errorf("unexpected text: %s", rest)
		}
	})
}

func unquoted(s string) string {
	quote := s[:1]
	return strings.ReplaceAll(s[1:len(s)-1], quote+quote, quote)
}
