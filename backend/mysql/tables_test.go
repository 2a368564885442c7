package mysql

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

func TestErrorsSayWhatAnAdministratorMustDo(t *testing.T) {
	const toMake = "elect schema --apply" // which is CreateTables
	const toPaste = "what the error says"
	problems := map[string]struct {
		cause func(t *testing.T, l *lab) Options
		says  []string
		cure  string // %[1]s: database, %[2]s: user; or toMake or toPaste; "": not tried
	}{
		"no tables": {
			func(t *testing.T, l *lab) Options {
				l.exec(t, "DROP TABLE election_lease, election_term, election_member")
				return Options{}
			}, []string{"election_lease", "GRANT CREATE, SELECT"}, toMake},
		"one table missing": {
			func(t *testing.T, l *lab) Options { l.exec(t, "DROP TABLE election_term"); return Options{} },
			[]string{"`election_term`"}, toMake},
		"another prefix": {
			func(*testing.T, *lab) Options { return Options{Prefix: "other"} },
			[]string{"`other_lease`", "CreateTables"}, toMake},
		"a schema that is not there": {
			func(*testing.T, *lab) Options { return Options{Schema: "nowhere"} },
			[]string{toMake, "`nowhere`.`election_lease`"}, ""},
		"a column is missing": {
			func(t *testing.T, l *lab) Options {
				l.exec(t, "ALTER TABLE election_lease DROP COLUMN heartbeat")
				return Options{}
			}, []string{"column heartbeat is missing", "CREATE TABLE"}, toPaste},
		"a column has another type": {
			func(t *testing.T, l *lab) Options {
				l.exec(t, "ALTER TABLE election_term MODIFY name VARCHAR(255) NOT NULL")
				return Options{}
			}, []string{"column name", "varchar(255)", "varbinary(255)"}, "ALTER TABLE election_term MODIFY name VARBINARY(255) NOT NULL"},
		"a table of another engine": {
			func(t *testing.T, l *lab) Options {
				l.exec(t, "ALTER TABLE election_lease ENGINE=MyISAM")
				return Options{}
			}, []string{"InnoDB", "MyISAM"}, "ALTER TABLE election_lease ENGINE=InnoDB"},
		"no primary key": {
			func(t *testing.T, l *lab) Options {
				l.exec(t, "ALTER TABLE election_lease DROP PRIMARY KEY")
				return Options{}
			}, []string{"column name", "pri"}, "ALTER TABLE election_lease ADD PRIMARY KEY (name)"},
		"the table's own row is missing": {
			func(t *testing.T, l *lab) Options {
				l.exec(t, "DELETE FROM election_lease WHERE name = ''")
				return Options{}
			}, []string{"INSERT INTO", "row of the table itself"}, toPaste},
		"another layout": {
			func(t *testing.T, l *lab) Options {
				l.exec(t, "UPDATE election_lease SET holder = 'layout 2' WHERE name = ''")
				return Options{}
			}, []string{"layout 1", "layout 2"}, "UPDATE election_lease SET holder = 'layout 1' WHERE name = ''"},
		"no right to see anything": {
			func(t *testing.T, l *lab) Options {
				l.exec(t, fmt.Sprintf("REVOKE SELECT, INSERT, UPDATE ON %s.* FROM '%s'@'127.0.0.1'", l.Name, l.User.User))
				return Options{}
			}, []string{"GRANT CREATE, SELECT, INSERT, UPDATE", "`election_lease`"}, toPaste},
	}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for what, p := range problems {
			t.Run(what, func(t *testing.T) {
				l := newLab(t, k)
				o := p.cause(t, l)
				o.Config = l.User.Clone()
				if strings.HasPrefix(what, "no right") {
					o.Config.DBName = ""
					o.Schema = l.Name
				}
				n := openNode(t, "n", o)
				_, err := n.tryObserve("a")
				if !errors.Is(err, backend.ErrDenied) {
					t.Fatalf("%v; want ErrDenied", err)
				}
				if !strings.HasPrefix(err.Error(), `mysql: observe "a": `) {
					t.Errorf("the error does not name the operation: %v", err)
				}
				if p.cure == toMake {
					p.says = append(p.says, toMake)
				}
				for _, words := range p.says {
					if !strings.Contains(err.Error(), words) {
						t.Errorf("the error does not contain %q: %v", words, err)
					}
				}
				switch p.cure {
				case "":
					return
				case toMake:
					if err := CreateTables(t.Context(), l.admin, l.Name, o.Prefix); err != nil {
						t.Fatal(err)
					}
				case toPaste:
					if strings.Contains(err.Error(), "rename that table") {
						l.exec(t, "RENAME TABLE election_lease TO old_lease")
					}
					l.paste(t, err)
					if _, err := n.tryObserve("a"); err != nil { // the own row of a new table is missing
						l.paste(t, err)
					}
				default:
					l.exec(t, strings.NewReplacer("%[1]s", l.Name, "%[2]s", l.User.User).Replace(p.cure))
				}
				if l := n.observe("a"); l.Term != 0 {
					t.Errorf("after the cure: %+v", l)
				}
			})
		}
	})
}

func TestAMissingSchemaNameIsReported(t *testing.T) {
	for what, o := range map[string]Options{
		"a DSN":    {DSN: "app:secret-word@tcp(127.0.0.1:3306)/"},
		"a Config": {Config: &mysql.Config{User: "app", Passwd: "secret-word", Net: "tcp", Addr: "127.0.0.1:3306"}},
	} {
		_, err := Open(o)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(err.Error(), "no schema is named") || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s without a schema: want ErrInvalid that says so, got %v", what, err)
		}
	}
}

func TestTheMinimalRightsAreEnough(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		user := fmt.Sprintf("'m%s'@'127.0.0.1'", l.Name[len(l.Name)-10:])
		l.exec(t, "CREATE USER "+user+" IDENTIFIED BY 'only-this'")
		t.Cleanup(func() { l.admin.Exec("DROP USER " + user) })
		text, _ := SchemaSQL(l.Name, "")
		_, grants, _ := strings.Cut(text, "write the account in.\n")
		for line := range strings.Lines(grants) {
			l.exec(t, strings.Replace(strings.TrimSuffix(line, ";\n"), "'user'@'host'", user, 1))
		}
		c := l.User.Clone()
		c.User, c.Passwd = strings.Trim(strings.Split(user, "@")[0], "'"), "only-this"
		lifecycle(t, l, Options{Config: c}, "a")

		// An observer needs no more than SELECT.
		reader := fmt.Sprintf("'r%s'@'127.0.0.1'", l.Name[len(l.Name)-10:])
		l.exec(t, "CREATE USER "+reader+" IDENTIFIED BY 'only-this'", fmt.Sprintf("GRANT SELECT ON %s.* TO %s", l.Name, reader))
		t.Cleanup(func() { l.admin.Exec("DROP USER " + reader) })
		c.User = strings.Trim(strings.Split(reader, "@")[0], "'")
		n := openNode(t, "n", Options{Config: c})
		a, err := n.bid(n.observe("a"), time.Second)
		if !errors.Is(err, backend.ErrDenied) || a.Outcome != backend.Unknown || !strings.Contains(err.Error(), "GRANT SELECT, INSERT, UPDATE ON") {
			t.Errorf("a bid without the right to write: %v, %v; want ErrDenied and the statement that grants it", a.Outcome, err)
		}
	})
}

func TestADroppedTableIsReportedAndCanComeBack(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n, other := l.node(t, "n"), l.node(t, "other")
		held := n.lead("a", time.Second)
		other.observe("a")
		l.exec(t, "DROP TABLE election_lease")
		a, err := n.renew(held)
		if !errors.Is(err, backend.ErrDenied) || a.Outcome != backend.Unknown || !strings.Contains(err.Error(), "elect schema --apply") {
			t.Errorf("a renewal without the table: %v, %v; want ErrDenied and the command that creates it", a.Outcome, err)
		}
		if err := CreateTables(t.Context(), l.admin, "", ""); err != nil {
			t.Fatal(err)
		}
		if a, err := n.renew(held); err != nil || a.Outcome != backend.Refused {
			t.Errorf("a renewal in a new table: %v, %v; want refused", a.Outcome, err)
		}
		if got := other.observe("a"); got.ObserveFor != maxTTL {
			t.Errorf("the table was dropped and created again: ObserveFor %v; the holder may not know yet, want the greatest TTL", got.ObserveFor)
		}
		if got := other.lead("a", time.Second); got.Term <= held.Term {
			t.Errorf("term %d after %d", got.Term, held.Term)
		}
	})
}

func TestABidAboveTheGreatestTTLSaysHowToRaiseIt(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n := l.node(t, "n")
		a, err := n.bid(n.observe("a"), maxTTL+time.Microsecond)
		if err != nil || a.Outcome != backend.Unknown || backend.Class(a.Err) != backend.ErrDenied {
			t.Fatalf("%v, %v, %v; want ErrDenied for this bid: an operator can raise the limit", a.Outcome, a.Err, err)
		}
		l.paste(t, a.Err)
		n.lead("a", maxTTL+time.Microsecond)
		if _, err := n.bid(n.observe("b"), maxTTL+time.Microsecond); err != nil {
			t.Error(err)
		}
	})
}

func TestABidAboveWhatAnyTableCanAllowIsInvalid(t *testing.T) {
	l := newLab(t, testbed.MariaDB)
	l.exec(t, "UPDATE election_lease SET ttl_us = 18446744073709551615 WHERE name = ''") // "no limit"
	n := l.node(t, "n")
	if a, err := n.bid(n.observe("a"), maxDuration+1); err != nil || a.Outcome != backend.Unknown || backend.Class(a.Err) != backend.ErrInvalid {
		t.Errorf("a TTL of more than %v: %v, %v, %v; want ErrInvalid", maxDuration, a.Outcome, a.Err, err)
	}
	n.lead("a", maxDuration)
	if got := l.node(t, "other").observe("a"); got.TTL != maxDuration || got.ObserveFor != maxDuration {
		t.Errorf("the longest TTL reads back as %v, observed for %v, want %v", got.TTL, got.ObserveFor, maxDuration)
	}
}

func TestDurationsInTheTablesNeverOverflow(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n, other := l.node(t, "n"), l.node(t, "other")
		n.lead("held", time.Second)
		n.lead("elsewhere", time.Second)
		l.exec(t, "UPDATE election_lease SET ttl_us = 18446744073709551615, renew_us = 18446744073709551615, renewed_at = '1000-01-01' WHERE name <> ''",
			"UPDATE election_lease SET ttl_us = 18446744073709551615 WHERE name = ''",
			"UPDATE election_lease SET server = 'gone' WHERE name = 'elsewhere'")
		for _, name := range []string{"held", "elsewhere"} {
			got := other.observe(name)
			for what, d := range map[string]time.Duration{"ObserveFor": got.ObserveFor, "TTL": got.TTL, "Renew": got.Renew, "Age": got.Age} {
				if d <= 0 || d > maxDuration {
					t.Errorf("%q: %s is %v, want at most %v", name, what, d, maxDuration)
				}
			}
			// What a manager may add up.
			if sum := got.ObserveFor + got.TTL + got.Renew + got.Age + 100*maxDuration; sum < 0 {
				t.Errorf("%q: %+v overflows", name, got)
			}
		}
	})
}

func TestTablesMadeByHandWaitOnce(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		admin := testbed.OpenDB(t, clone(d.Admin, func(c *mysql.Config) { c.MultiStatements = true }))
		if _, err := admin.Exec(Schema); err != nil {
			t.Fatalf("schema.sql: %v", err)
		}
		l := &lab{d, testbed.Shared(t, k), admin}
		n := l.node(t, "n")
		if got := n.observe("a"); got.ObserveFor != maxTTL {
			t.Errorf("in tables that record no server: ObserveFor %v, want the greatest TTL", got.ObserveFor)
		}
		if held := n.lead("a", time.Second); time.Until(time.UnixMicro(int64(held.Term))) > time.Hour {
			t.Errorf("the first term, %d, is far ahead of the clock: terms would decrease when the store changes", held.Term)
		}
		if got := n.observe("b"); got.ObserveFor != 0 {
			t.Errorf("the second election must not wait: %+v", got)
		}
		if err := CreateTables(t.Context(), admin, "", ""); err != nil {
			t.Errorf("creating tables that exist: %v", err)
		}
		if got := n.observe("a"); got.Vacant() {
			t.Errorf("creating tables that exist must change nothing: %+v", got)
		}
	})
}

func TestRowsOfGoneProcessesAreReused(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		announce := func(n *node) {
			t.Helper()
			ctx, cancel := n.ctx()
			defer cancel()
			if err := n.Announce(ctx, backend.Member{Candidate: n.me, TTL: 10 * callLimit}); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			announce(l.node(t, "gone"))
		}
		l.exec(t, "UPDATE election_member SET seen_at = seen_at - INTERVAL 2 DAY")
		live := l.node(t, "live")
		announce(live)
		for range 3 {
			announce(l.node(t, "new"))
			announce(live)
		}
		if n := l.number(t, "SELECT COUNT(*) FROM election_member"); n != 5 {
			t.Errorf("%d rows, want 5: those of processes that have been gone for a day are reused", n)
		}
		ctx, cancel := live.ctx()
		defer cancel()
		members, err := live.Members(ctx, "", 100)
		if err != nil || len(members) != 4 {
			t.Errorf("%d members, %v; want the four that are alive", len(members), err)
		}
		var page []string
		for from := ""; ; {
			some, err := live.Members(ctx, from, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(some) == 0 {
				break
			}
			page = append(page, string(some[0].Nonce))
			from = string(some[0].Nonce + "\x00")
		}
		if len(page) != 4 {
			t.Errorf("page by page: %d members, want 4", len(page))
		}
	})
}

func TestAReadOnlyTermTableIsEnoughForTheFence(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		l.createAccount(t)
		user := fmt.Sprintf("'f%s'@'127.0.0.1'", l.Name[len(l.Name)-10:])
		l.exec(t, "CREATE USER "+user+" IDENTIFIED BY 'only-this'",
			fmt.Sprintf("GRANT SELECT ON %s.election_term TO %s", l.Name, user), fmt.Sprintf("GRANT SELECT, UPDATE ON %s.account TO %s", l.Name, user))
		t.Cleanup(func() { l.admin.Exec("DROP USER " + user) })
		held := l.node(t, "n").lead("a", time.Second)
		c := l.User.Clone()
		c.User, c.Passwd = strings.Trim(strings.Split(user, "@")[0], "'"), "only-this"
		if err := l.fenced(t, testbed.OpenDB(t, c), held.Term); err != nil {
			t.Errorf("the fence with SELECT on the term table: %v", err)
		}
	})
}

func TestCreateTablesWorksWithoutAutocommit(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		db := testbed.OpenDB(t, clone(l.Admin, func(c *mysql.Config) { c.DBName, c.Params = l.Name, map[string]string{"autocommit": "0"} }))
		if err := CreateTables(t.Context(), db, "", "other"); err != nil {
			t.Fatal(err)
		}
		if _, err := openNode(t, "n", Options{Config: l.User, Prefix: "other"}).tryObserve("a"); err != nil {
			t.Errorf("tables that were created with autocommit=0: %v", err)
		}
	})
}

func TestServersWithLowerCaseTableNamesWork(t *testing.T) {
	l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: testbed.MariaDB, Args: []string{"--lower-case-table-names=1"}}))
	if err := CreateTables(t.Context(), l.admin, "", "App"); err != nil {
		t.Fatal(err)
	}
	lifecycle(t, l, Options{Config: l.User, Prefix: "App"}, "a")
}
