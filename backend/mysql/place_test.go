package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// poolOf is a program's own pool.
func poolOf(t *testing.T, c *mysql.Config) *sql.DB {
	made, err := mysql.NewConnector(clone(c, func(c *mysql.Config) { c.MultiStatements, c.Logger = true, &mysql.NopLogger{} }))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(made)
	t.Cleanup(func() { db.Close() })
	return db
}

// tell tells as many connections of a pool something as a Backend uses, and leaves them in the pool.
func tell(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	const used = maxConns + 2
	db.SetMaxIdleConns(used)
	for range used {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// tenant makes a schema in which the user may make tables.
func (l *lab) tenant(t *testing.T) (schema string) {
	schema = l.Name + "_tenant"
	l.exec(t, "CREATE DATABASE "+schema, fmt.Sprintf("GRANT ALL ON %s.* TO %s", schema, l.userAtHost(t)))
	t.Cleanup(func() { l.admin.Exec("DROP DATABASE " + schema) })
	return schema
}

// userAtHost is the user as GRANT names it.
func (l *lab) userAtHost(t *testing.T) string {
	var host string
	if err := l.admin.QueryRowContext(t.Context(), "SELECT Host FROM mysql.user WHERE User = ?", l.User.User).Scan(&host); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("'%s'@'%s'", l.User.User, host)
}

func (l *lab) tables(t *testing.T) int64 {
	return l.number(t, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'election_item' AND TABLE_SCHEMA LIKE ?", l.Name+"%")
}

// A program that says USE on connections of its own pool makes no second leader: its Backend makes no second table, and
// follows.
func TestUseOnTheProgramsPoolMakesNoSecondLeader(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, named := range []bool{false, true} {
			t.Run(fmt.Sprintf("schema named %v", named), func(t *testing.T) {
				t.Parallel()
				l := newLab(t, testbed.Shared(t, k))
				use := "USE " + l.tenant(t)
				options := func() Options {
					o := Options{DB: poolOf(t, l.User)}
					if named {
						o.Schema = l.Name
					}
					return o
				}
				old := join(t, "old", 2*time.Second, options())
				led, err := old.Campaign(t.Context())
				if err != nil {
					t.Fatal(err)
				}

				told := options()
				tell(t, told.DB, use)
				newer := join(t, "new", 2*time.Second, told)
				if err := newer.Lead(nil); err != nil {
					t.Fatal(err)
				}
				testbed.Eventually(t, patience, "the new process follows the old one", func() error {
					if newer.Leading() && old.Leading() {
						t.Fatal("two processes lead one election, each in a schema of its own")
					}
					if who, _, known := newer.Leader(); !known || who.ID != "old" {
						return errors.New(newer.Current().String())
					}
					return nil
				})
				if n := l.tables(t); n != 1 || !led.Leading() {
					t.Errorf("there are %d tables, want 1; the old process leads: %v", n, led.Leading())
				}
				tell(t, told.DB, use)
				if err := led.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				testbed.Eventually(t, patience, "the new process leads", func() error {
					if !newer.Leading() {
						return errors.New(newer.Current().String())
					}
					return nil
				})
			})
		}
	})
}

// A pool of the program's own leads to the schema of its DSN, though all its connections were told another one: for a table
// that is there, beside one of the same name, and for one that is to be made.
func TestAPoolLeadsToTheSchemaOfItsDSN(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		tenant := l.tenant(t)
		l.exec(t, "CREATE TABLE "+tenant+".election_item LIKE election_item")
		own := open(t, Options{Config: l.User})
		v := testbed.Read(t, own, recordKey("jobs"))
		testbed.MustPut(t, own, &v, &lease.Record{Election: "jobs", Term: 7})
		told := func() Options {
			db := poolOf(t, l.User)
			tell(t, db, "USE "+tenant)
			return Options{DB: db}
		}
		if got := testbed.Read(t, open(t, told()), recordKey("jobs")).Items[0]; got.Value == nil {
			t.Fatalf("the record of %s is read as %+v", l.Name, got)
		}

		l.exec(t, "DROP TABLE election_item", "DROP TABLE "+tenant+".election_item", fmt.Sprintf("GRANT CREATE ON %s.* TO %s", l.Name, l.userAtHost(t)))
		b := backendOn(t, told())
		testbed.Eventually(t, patience, "the table is made", func() error {
			if err := b.Prepare(t.Context()); err != nil {
				return err
			}
			if n := l.tables(t); n != 1 {
				return fmt.Errorf("there are %d tables", n)
			}
			return nil
		})
		testbed.Read(t, own, recordKey("jobs"))
	})
}

// A DSN with another schema than that of the table is told as such, besides how to make one there.
func TestATableInAnotherSchemaIsTold(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		tenant := l.tenant(t)
		l.exec(t, "REVOKE CREATE ON "+tenant+".* FROM "+l.userAtHost(t))
		b := backendOn(t, Options{Config: clone(l.User, func(c *mysql.Config) { c.DBName = tenant })})
		if err := b.Prepare(t.Context()); err != nil {
			t.Error(err)
		}
		_, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if want := "the schema " + l.Name + " has one"; !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), ";") {
			t.Errorf("%v; want ErrDenied with %q and a statement at the end", err, want)
		}
	})
}

// Without rights to more than the rows, nothing but the time of its file tells a table of MariaDB from a copy of it.
func TestOnlyItsFileTellsACopyOnMariaDB(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.Shared(t, testbed.MariaDB))
	l.copied(t, "election_item", "copied")
	differ := func(account *sql.DB) (columns []string) {
		rows, err := account.QueryContext(t.Context(), "SELECT c.TABLE_NAME, c.COLUMN_NAME FROM information_schema.COLUMNS c JOIN information_schema.COLUMNS n ON n.TABLE_NAME = c.TABLE_NAME AND n.TABLE_SCHEMA = c.TABLE_SCHEMA"+
			" WHERE c.TABLE_SCHEMA = 'information_schema' AND n.COLUMN_NAME = 'TABLE_NAME' AND c.COLUMN_NAME <> 'TABLE_NAME' AND c.TABLE_NAME NOT LIKE '%PRIVILEGES' ORDER BY 1, 2")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var view, column string
			var kinds int
			if err := rows.Scan(&view, &column); err != nil {
				t.Fatal(err)
			}
			ask := fmt.Sprintf("SELECT COUNT(DISTINCT v) FROM (SELECT TABLE_NAME, GROUP_CONCAT(COALESCE(`%s`, '') ORDER BY 1) AS v FROM information_schema.`%s` WHERE TABLE_NAME IN ('election_item', 'copied') AND TABLE_SCHEMA = '%s' GROUP BY TABLE_NAME) x", column, view, l.Name)
			if err := account.QueryRowContext(t.Context(), ask).Scan(&kinds); err == nil && kinds > 1 {
				columns = append(columns, view+"."+column)
			}
		}
		return columns
	}
	if got := strings.Join(differ(poolOf(t, l.User)), " "); got != "PARTITIONS.CREATE_TIME TABLES.CREATE_TIME" {
		t.Errorf("a table and its copy differ in %q: if that stays when nobody copies, it belongs into placeSQL", got)
	}
}

// A pool that says USE on each connection leads to no schema that is certain.
func TestAPoolThatAlwaysSaysUseNeedsASchema(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		made, err := mysql.NewConnector(l.User)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(sayingUse{made, l.Name})
		t.Cleanup(func() { db.Close() })
		_, err = backendOn(t, Options{DB: db}).Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "Options name none") {
			t.Errorf("without a schema: %v", err)
		}
		observe(t, backendOn(t, Options{DB: db, Schema: l.Name}), "jobs")
	})
}

type sayingUse struct {
	sqldriver.Connector
	schema string
}

func (s sayingUse) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := s.Connector.Connect(ctx)
	if err == nil {
		_, err = c.(sqldriver.ExecerContext).ExecContext(ctx, "USE "+s.schema, nil)
	}
	return c, err
}

// Whatever the program has told a connection of its pool, requests on it do what they do on a new one.
func TestNothingThatAConnectionWasToldMatters(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		tenant := l.tenant(t)
		limit := map[testbed.Kind]string{testbed.MySQL: "max_execution_time = 1", testbed.MariaDB: "max_statement_time = 0.001"}[k]
		l.exec(t, fmt.Sprintf("GRANT CREATE TEMPORARY TABLES ON %s.* TO %s", l.Name, l.userAtHost(t)))
		value, other := "", open(t, Options{Config: l.User})
		for _, told := range []string{
			"CREATE TEMPORARY TABLE " + l.Name + ".election_item (kind VARBINARY(7), name VARBINARY(255))", "SET completion_type = 'RELEASE'",
			"USE " + tenant, "START TRANSACTION WITH CONSISTENT SNAPSHOT", "START TRANSACTION READ ONLY", "SET TRANSACTION READ ONLY", "SET autocommit = 0", "LOCK TABLES " + tenant + ".other READ", "SET SESSION " + limit,
			"SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,NO_ZERO_DATE,ONLY_FULL_GROUP_BY'", "SET sql_mode = ''", "SET NAMES latin1", "SET NAMES binary",
			"SET time_zone = '+05:30'", "SET timestamp = 1000000000", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET SESSION TRANSACTION READ ONLY",
			"SET completion_type = 'CHAIN'", "SET sql_select_limit = 1", "SET sql_safe_updates = 1", "SET sql_big_selects = 0, max_join_size = 1", "SET innodb_lock_wait_timeout = 50",
			"SET group_concat_max_len = 4", "SET max_sort_length = 8", "SET div_precision_increment = 0", "SET optimizer_switch = 'index_condition_pushdown=off,materialization=off'",
			"SET foreign_key_checks = 0, unique_checks = 0", "SET lc_messages = 'de_DE'", "SET @go_election = 'x', @go_election_server = 'y', @go_election_states = 'z'",
		} {
			l.exec(t, "CREATE TABLE IF NOT EXISTS "+tenant+".other (a INT)")
			db := poolOf(t, l.User)
			tell(t, db, told)
			d := open(t, Options{DB: db, Schema: l.Name})
			v := testbed.Read(t, d, recordKey("jobs"))
			if r, _ := v.Items[0].Value.(*lease.Record); value != "" && (r == nil || r.ID != value) {
				t.Fatalf("after %s: a reading has %+v, want %q", told, v.Items[0], value)
			}
			value = told + "é€😀"
			testbed.Eventually(t, patience, "a change is granted after "+told, func() error {
				results, err := testbed.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: value})
				if err == nil && results[0].Outcome == backend.Granted {
					return nil
				}
				if !strings.Contains(told, limit) { // which may end what sets up a connection on a busy machine
					t.Fatalf("after %s: a change is not granted: %+v, %v", told, results, err)
				}
				v = testbed.Read(t, d, recordKey("jobs"))
				return fmt.Errorf("%+v, %w", results, err)
			})
			written := testbed.Read(t, d, recordKey("jobs"))
			value += " by another process"
			testbed.MustPut(t, other, &written, &lease.Record{Election: "jobs", Term: 1, ID: value})
			if r, _ := testbed.Read(t, d, recordKey("jobs")).Items[0].Value.(*lease.Record); r == nil || r.ID != value {
				t.Fatalf("after %s: a reading is older than its call: %+v", told, r)
			}
			d.Close()
			db.Close()
		}
	})
}

// Each statement names the schema: one that a connection leads to by now does not matter, as after a proxy has changed it.
func TestEveryStatementNamesTheSchema(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		tenant := l.tenant(t)
		l.exec(t, "CREATE TABLE "+tenant+".election_item LIKE election_item")
		d := open(t, Options{Config: l.User})
		use := func() {
			t.Helper()
			if _, err := d.query(t.Context(), func() []string { return []string{"USE " + tenant} }); err != nil {
				t.Fatal(err)
			}
		}
		testbed.Read(t, d, recordKey("jobs"))
		use()
		v := testbed.Read(t, d, recordKey("jobs"), recordKey("other"))
		for _, id := range []string{"made", "changed"} {
			use()
			testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: id}, &lease.Record{Election: "other", Term: 1})
			use()
			v = testbed.Read(t, d, recordKey("jobs"), recordKey("other"))
		}
		if n := l.number(t, "SELECT COUNT(*) FROM "+l.Name+".election_item WHERE kind = 'record'"); n != 2 {
			t.Fatal("the records are not in the schema that is meant")
		}
		if n := l.number(t, "SELECT COUNT(*) FROM "+tenant+".election_item"); n != 0 {
			t.Errorf("%d rows are in the schema to which the connection leads", n)
		}
		use()
		if listed, err := d.List(t.Context(), lease.Records, "", 10); err != nil || len(listed.Items) != 2 {
			t.Errorf("the list has %+v, %v; want two records", listed.Items, err)
		}
	})
}

// A program that gives up its roles, or takes others, on connections of its pool takes no rights from its Backend, whose account
// has them by a role.
func TestARoleThatAConnectionWasToldTakesNoRights(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		member, reader, account := l.Name+"_member", l.Name+"_reader", l.userAtHost(t)
		within := map[testbed.Kind]string{testbed.MySQL: "TO", testbed.MariaDB: "FOR"}[k]
		l.exec(t, "REVOKE ALL PRIVILEGES ON "+l.Name+".* FROM "+account, "CREATE ROLE "+member, "CREATE ROLE "+reader,
			fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.election_item TO %s", l.Name, member), fmt.Sprintf("GRANT SELECT ON %s.election_item TO %s", l.Name, reader),
			fmt.Sprintf("GRANT %s TO %s", member, account), fmt.Sprintf("GRANT %s TO %s", reader, account), fmt.Sprintf("SET DEFAULT ROLE %s %s %s", member, within, account))
		t.Cleanup(func() {
			l.admin.Exec("DROP ROLE " + member)
			l.admin.Exec("DROP ROLE " + reader)
		})
		for _, told := range []string{"SET ROLE NONE", "SET ROLE " + reader} {
			db := poolOf(t, l.User)
			tell(t, db, told)
			d := open(t, Options{DB: db, Schema: l.Name})
			v := testbed.Read(t, d, recordKey("jobs"))
			testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: told})
		}
	})
}

// What is written on a connection whose binary log the program has switched off reaches replicas all the same: otherwise the
// next change of such a row would stop their replication.
func TestChangesReachTheBinaryLogWhateverWasTold(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		l.exec(t, "GRANT SUPER ON *.* TO "+l.userAtHost(t))
		if k == testbed.MariaDB {
			l.exec(t, "GRANT BINLOG ADMIN ON *.* TO "+l.userAtHost(t))
		}
		db := poolOf(t, l.User)
		tell(t, db, "SET sql_log_bin = 0")
		d := open(t, Options{DB: db, Schema: l.Name})
		rows, err := d.query(t.Context(), func() []string { return []string{"SELECT @@SESSION.sql_log_bin"} })
		if err != nil || string(rows[0][0]) != "1" {
			t.Errorf("sql_log_bin is %s, want 1: %v", rows, err)
		}
	})
}

// A table that is put in the place of another one is another store on MySQL, though its rows are a copy. MariaDB has nothing
// that tells them apart and stays the same: see placeSQL.
func TestATableInThePlaceOfAnotherIsAnotherStore(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		if k == testbed.MariaDB {
			sameAfterItsFileWasTouched(t, l)
			return
		}
		knew := open(t, Options{Config: l.User})
		before := testbed.Read(t, knew, recordKey("jobs"))
		testbed.MustPut(t, knew, &before, &lease.Record{Election: "jobs", Term: 1})
		l.copied(t, "election_item", "copied")
		l.exec(t, "RENAME TABLE election_item TO former, copied TO election_item")

		if _, err := testbed.Put(t, knew, &before, &lease.Record{Election: "jobs", Term: 2}); !errors.Is(err, lease.ErrEpoch) {
			t.Errorf("a change of what was read in the former table: %v, want ErrEpoch", err)
		}
		after := testbed.Read(t, knew, recordKey("jobs"))
		if after.Epoch == before.Epoch || after.WentBack == before.WentBack {
			t.Errorf("the epoch is %s, was %s; went back %d times, before %d", after.Epoch, before.Epoch, after.WentBack, before.WentBack)
		}
		if fresh := testbed.Read(t, open(t, Options{Config: l.User}), recordKey("jobs")); fresh.Epoch != after.Epoch {
			t.Errorf("a new process reads the epoch %s, the others %s", fresh.Epoch, after.Epoch)
		}
		l.exec(t, "RENAME TABLE election_item TO copied, former TO election_item")
		if _, err := knew.Read(t.Context(), []lease.Key{recordKey("jobs")}); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "take turns") {
			t.Errorf("tables that take turns: %v, want ErrDenied", err)
		}
	})
}

// A copy of all rows is put in the place of the table under a leader, at once and for everybody. Nothing is lost, and the leader
// leads on. A copy that lacks its grant is noticed by the leader and by whoever has seen it: they wait for the greatest TTL.
func TestACopyInThePlaceOfTheTableMakesNoSecondLeader(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, older := range []bool{false, true} {
			t.Run(fmt.Sprintf("older %v", older), func(t *testing.T) {
				t.Parallel()
				l, o := newLab(t, testbed.Shared(t, k)), Options{MaxTTL: 5 * time.Second}
				o.Config = l.User
				old, knew := join(t, "old", 3*time.Second, o), join(t, "knew", 3*time.Second, o)
				led, err := old.Campaign(t.Context())
				if err == nil && older {
					if err = led.Resign(t.Context()); err == nil {
						l.copied(t, "election_item", "copied")
						led, err = old.Campaign(t.Context())
					}
				}
				if err == nil {
					err = knew.Lead(nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				testbed.Eventually(t, patience, "knew has seen the grant", func() error {
					if who, term, known := knew.Leader(); !known || who.ID != "old" || term != led.Term {
						return errors.New(knew.Current().String())
					}
					return nil
				})
				if !older {
					l.copied(t, "election_item", "copied")
				}
				l.exec(t, "RENAME TABLE election_item TO former, copied TO election_item")
				for began := time.Now(); time.Since(began) < 4*time.Second; <-time.After(time.Millisecond) {
					if led.Leading() && knew.Leading() {
						t.Fatalf("two processes lead after %v", time.Since(began))
					}
				}
				testbed.Eventually(t, patience, "one of them leads", func() error {
					if old.Leading() || knew.Leading() {
						return nil
					}
					return errors.New(knew.Current().String())
				})
			})
		}
	})
}

// sameAfterItsFileWasTouched checks that what changes a file of a table, and no row, makes no other store.
func sameAfterItsFileWasTouched(t *testing.T, l *lab) {
	d := open(t, Options{Config: l.User})
	before := testbed.Read(t, d, recordKey("jobs"))
	l.exec(t, "RENAME TABLE election_item TO moved", "RENAME TABLE moved TO election_item")
	if after := testbed.Read(t, d, recordKey("jobs")); after.Epoch != before.Epoch || after.WentBack != before.WentBack {
		t.Errorf("the epoch is %s, was %s", after.Epoch, before.Epoch)
	}
}

// copied makes a copy of a table with its rows, at a later second.
func (l *lab) copied(t *testing.T, table, as string) {
	testbed.Eventually(t, patience, "a copy is younger", func() error {
		l.exec(t, "DROP TABLE IF EXISTS "+as, fmt.Sprintf("CREATE TABLE %s LIKE %s", as, table), fmt.Sprintf("INSERT INTO %s SELECT * FROM %s", as, table))
		if l.number(t, "SELECT COUNT(DISTINCT CREATE_TIME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN (?, ?)", table, as) != 2 {
			return errors.New("it is of the same second")
		}
		return nil
	})
}

// A fence without a schema uses that of the DSN, and no other: after USE it needs a name.
func TestAFenceFindsTheTableOfTheDSN(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		tenant := l.tenant(t)
		l.exec(t, "CREATE TABLE "+tenant+".election_item LIKE election_item")
		d := open(t, Options{Config: l.User})
		v := testbed.Read(t, d, recordKey("jobs"))
		testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 7, Nonce: "n"})
		check := func(f Fence, statement string) error {
			return f.Do(t.Context(), poolOf(t, l.User), "jobs", 7, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(context.Background(), statement)
				return err
			})
		}
		if err := check(Fence{}, "DO 0"); err != nil {
			t.Errorf("beside a table of another schema: %v", err)
		}
		if err := check(Fence{}, "USE "+tenant); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "name the schema") {
			t.Errorf("after USE: %v, want ErrDenied", err)
		}
		if err := check(Fence{Schema: l.Name}, "USE "+tenant); err != nil {
			t.Errorf("after USE, with a schema: %v", err)
		}
	})
}

// A temporary table of the session hides the table from a fence, which must not believe a term that somebody has written there.
func TestAFenceDoesNotReadATemporaryTable(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		l.exec(t, fmt.Sprintf("GRANT CREATE TEMPORARY TABLES ON %s.* TO %s", l.Name, l.userAtHost(t)))
		d := open(t, Options{Config: l.User})
		lead(t, d, 7, "n")
		db := poolOf(t, l.User)
		db.SetMaxOpenConns(1)
		var value []byte
		if err := db.QueryRowContext(t.Context(), "SELECT value FROM election_item WHERE kind = 'record'").Scan(&value); err != nil {
			t.Fatal(err)
		}
		lead(t, d, 8, "m")
		if _, err := db.ExecContext(t.Context(), "CREATE TEMPORARY TABLE election_item SELECT X'7265636f7264' AS kind, X'6a6f6273' AS name, CONVERT(X'"+hex.EncodeToString(value)+"' USING utf8mb4) AS value"); err != nil {
			t.Fatal(err)
		}
		for _, f := range []Fence{{}, {Schema: l.Name}} {
			for term := range uint64(9) {
				err := f.Do(t.Context(), db, "jobs", term+1, func(*sql.Tx) error { return nil })
				if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "a temporary table") {
					t.Errorf("term %d: %v, want ErrDenied", term+1, err)
				}
			}
		}
		db.ExecContext(t.Context(), "DROP TEMPORARY TABLE election_item")
		if err := (Fence{}).Do(t.Context(), db, "jobs", 8, func(*sql.Tx) error { return nil }); err != nil {
			t.Errorf("without the temporary table: %v", err)
		}
	})
}
