package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// tell tells as many connections of a pool something as a Backend uses, and leaves them in the pool.
func tell(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	const used = maxConns + 2
	db.SetMaxIdleConns(used)
	for range used {
		c, err := db.Conn(t.Context())
		testbed.NoError(t, err)
		defer c.Close()
		_, err = c.ExecContext(t.Context(), statement)
		testbed.NoError(t, err)
	}
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
				joined := func(id string, o Options) *election.Election {
					if named {
						o.Schema = l.Name
					}
					return join(t, id, 2*time.Second, o)
				}
				told := Options{DB: testbed.OpenDB(t, l.User)}
				drivertest.FollowsOneLeader(t, joined("old", Options{DB: testbed.OpenDB(t, l.User)}),
					func() { tell(t, told.DB, use) },
					func() *election.Election { return joined("new", told) })
				if n := l.tables(t); n != 1 {
					t.Errorf("there are %d tables, want 1", n)
				}
			})
		}
	})
}

// A pool of the program's own leads to the schema of its DSN, though all its connections were told another one: for a table
// that is there, beside one of the same name, and for one that is to be made.
func TestAPoolLeadsToTheSchemaOfItsDSN(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		tenant := l.tenant(t)
		l.Exec(t, "CREATE TABLE "+tenant+".election_item LIKE election_item")
		own := open(t, Options{Config: l.User})
		v := drivertest.Read(t, own, recordKey("jobs"))
		drivertest.MustPut(t, own, &v, &lease.Record{Election: "jobs", Term: 7})
		told := func() Options {
			db := testbed.OpenDB(t, l.User)
			tell(t, db, "USE "+tenant)
			return Options{DB: db}
		}
		if got := drivertest.Read(t, open(t, told()), recordKey("jobs")).Items[0]; got.Value == nil {
			t.Fatalf("the record of %s is read as %+v", l.Name, got)
		}

		l.Exec(t, "DROP TABLE election_item", "DROP TABLE "+tenant+".election_item", fmt.Sprintf("GRANT CREATE ON %s.* TO %s", l.Name, l.userAtHost(t)))
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
		drivertest.Read(t, own, recordKey("jobs"))
	})
}

// A pool that says USE on each connection leads to no schema that is certain.
func TestAPoolThatAlwaysSaysUseNeedsASchema(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		db := sql.OpenDB(sayingUse{testbed.Connector(l.User), l.Name})
		t.Cleanup(func() { db.Close() })
		_, err := backendOn(t, Options{DB: db}).Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
		if !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "Options name none") {
			t.Errorf("without a schema: %v", err)
		}
		candidate(t, backendOn(t, Options{DB: db, Schema: l.Name})).Sees("jobs")
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
	each(t, func(t *testing.T, l *lab) {
		tenant := l.tenant(t)
		limit := map[testbed.Kind]string{testbed.MySQL: "max_execution_time = 1", testbed.MariaDB: "max_statement_time = 0.001"}[l.kind]
		l.Exec(t, fmt.Sprintf("GRANT CREATE TEMPORARY TABLES ON %s.* TO %s", l.Name, l.userAtHost(t)))
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
			l.Exec(t, "CREATE TABLE IF NOT EXISTS "+tenant+".other (a INT)")
			db := testbed.OpenDB(t, l.User)
			tell(t, db, told)
			d := open(t, Options{DB: db, Schema: l.Name})
			v := drivertest.Read(t, d, recordKey("jobs"))
			if r, _ := v.Items[0].Value.(*lease.Record); value != "" && (r == nil || r.ID != value) {
				t.Fatalf("after %s: a reading has %+v, want %q", told, v.Items[0], value)
			}
			if rows, err := d.query(t.Context(), "SELECT DATABASE()"); err != nil || string(rows[0][0]) != l.Name {
				t.Errorf("after %s: the statements of package mysqltable, which name no schema, are about %s: %v", told, rows, err)
			}
			value = told + "é€😀"
			testbed.Eventually(t, patience, "a change is granted after "+told, func() error {
				results, err := drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: value})
				if err == nil && results[0].Outcome == backend.Granted {
					return nil
				}
				if !strings.Contains(told, limit) { // which may end what sets up a connection on a busy machine
					t.Fatalf("after %s: a change is not granted: %+v, %v", told, results, err)
				}
				v = drivertest.Read(t, d, recordKey("jobs"))
				return fmt.Errorf("%+v, %w", results, err)
			})
			written := drivertest.Read(t, d, recordKey("jobs"))
			value += " by another process"
			drivertest.MustPut(t, other, &written, &lease.Record{Election: "jobs", Term: 1, ID: value})
			if r, _ := drivertest.Read(t, d, recordKey("jobs")).Items[0].Value.(*lease.Record); r == nil || r.ID != value {
				t.Fatalf("after %s: a reading is older than its call: %+v", told, r)
			}
			d.Close()
			db.Close()
		}
	})
}

// Each statement names the schema: one that a connection leads to by now does not matter, as after a proxy has changed it.
func TestEveryStatementNamesTheSchema(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		tenant := l.tenant(t)
		l.Exec(t, "CREATE TABLE "+tenant+".election_item LIKE election_item")
		d := open(t, Options{Config: l.User})
		use := func() {
			t.Helper()
			_, err := d.query(t.Context(), "USE "+tenant)
			testbed.NoError(t, err)
		}
		drivertest.Read(t, d, recordKey("jobs"))
		use()
		v := drivertest.Read(t, d, recordKey("jobs"), recordKey("other"))
		for _, id := range []string{"made", "changed"} {
			use()
			drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: id}, &lease.Record{Election: "other", Term: 1})
			use()
			v = drivertest.Read(t, d, recordKey("jobs"), recordKey("other"))
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
	each(t, func(t *testing.T, l *lab) {
		member, reader, account := l.Name+"_member", l.Name+"_reader", l.userAtHost(t)
		within := map[testbed.Kind]string{testbed.MySQL: "TO", testbed.MariaDB: "FOR"}[l.kind]
		l.Exec(t, "REVOKE ALL PRIVILEGES ON "+l.Name+".* FROM "+account, "CREATE ROLE "+member, "CREATE ROLE "+reader,
			fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.election_item TO %s", l.Name, member), fmt.Sprintf("GRANT SELECT ON %s.election_item TO %s", l.Name, reader),
			fmt.Sprintf("GRANT %s TO %s", member, account), fmt.Sprintf("GRANT %s TO %s", reader, account), fmt.Sprintf("SET DEFAULT ROLE %s %s %s", member, within, account))
		t.Cleanup(func() {
			l.admin.Exec("DROP ROLE " + member)
			l.admin.Exec("DROP ROLE " + reader)
		})
		for _, told := range []string{"SET ROLE NONE", "SET ROLE " + reader} {
			db := testbed.OpenDB(t, l.User)
			tell(t, db, told)
			d := open(t, Options{DB: db, Schema: l.Name})
			v := drivertest.Read(t, d, recordKey("jobs"))
			drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: told})
		}
	})
}

// What is written on a connection whose binary log the program has switched off reaches replicas all the same: otherwise the
// next change of such a row would stop their replication.
func TestChangesReachTheBinaryLogWhateverWasTold(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.Exec(t, "GRANT SUPER ON *.* TO "+l.userAtHost(t))
		if l.kind == testbed.MariaDB {
			l.Exec(t, "GRANT BINLOG ADMIN ON *.* TO "+l.userAtHost(t))
		}
		db := testbed.OpenDB(t, l.User)
		tell(t, db, "SET sql_log_bin = 0")
		d := open(t, Options{DB: db, Schema: l.Name})
		rows, err := d.query(t.Context(), "SELECT @@SESSION.sql_log_bin")
		if err != nil || string(rows[0][0]) != "1" {
			t.Errorf("sql_log_bin is %s, want 1: %v", rows, err)
		}
	})
}
