package elect

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/lab/testbed"
)

// withRights returns the environment of an account that has only these rights on the table of
// backend mysql. With CREATE among the rights it need not exist.
func withRights(t *testing.T, d *testbed.Database, rights string) []string {
	t.Helper()
	c := d.AddUser(t, "")
	var grantee string
	db := testbed.OpenDB(t, d.Admin)
	if err := db.QueryRow("SELECT CONCAT('''', USER, '''@''', HOST, '''') FROM mysql.user WHERE USER = ?", c.User).Scan(&grantee); err != nil {
		t.Fatal(err)
	}
	d.Exec(t, fmt.Sprintf("REVOKE ALL PRIVILEGES, GRANT OPTION FROM %s", grantee))
	d.Exec(t, fmt.Sprintf("GRANT %s ON %s.election_item TO %s", rights, d.Name, grantee))
	return onDSN(t, "mysql", c)
}

func onDSN(t *testing.T, backend string, c *mysql.Config) []string {
	t.Helper()
	return environ(t.TempDir(), "ELECTION_TTL=15s", "ELECTION_BACKEND="+backend, "ELECTION_MYSQL_DSN="+c.FormatDSN(),
		"ELECTION_MYSQLTABLE_DSN="+c.FormatDSN(), "ELECTION_MYSQLTABLE_LAYOUT=update_time")
}

func TestTheFirstTermInNewTablesIsTheClocks(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		d := testbed.Shared(t, k).Database(t)
		env := withRights(t, d, "CREATE, SELECT, INSERT, UPDATE, DELETE")
		for range 2 { // the second call must not change the tables
			if out, code := call(t, env, "schema", "--apply"); code != 0 || !strings.Contains(out, "the tables are there, on mysql 127.0.0.1:") {
				t.Fatalf("code %d: %s", code, out)
			}
		}
		out, code := call(t, env, "run", "job", "-q", "--", "sh", "-c", `echo "term $ELECTION_TERM"`)
		var term int64
		if _, err := fmt.Sscanf(out, "term %d", &term); err != nil || code != 0 {
			t.Fatalf("code %d, %v: %s", code, err, out)
		}
		if ahead := time.Until(time.UnixMicro(term)); ahead > 24*time.Hour {
			t.Errorf("the first term is %d, which is %v ahead of the clock", term, ahead)
		}
	})
}

// When rights are missing, elect prints the GRANT statement. An administrator can paste it into a
// client without choosing a schema first.
func TestPrintedStatementsCanBePasted(t *testing.T) {
	t.Parallel()
	s := testbed.Shared(t, testbed.MariaDB)
	d := s.Database(t)
	c := s.AdminConfig()
	c.MultiStatements = true
	root := testbed.OpenDB(t, c)
	for _, step := range []struct {
		env  func() []string
		args []string
	}{
		{func() []string { return onDSN(t, "mysql", d.User) }, []string{"schema", "--apply"}},
		{func() []string { return withRights(t, d, "SELECT") }, []string{"run", "job", "--", "true"}},
	} {
		env := step.env()
		out, code := call(t, env, step.args...)
		statements := regexp.MustCompile("GRANT .*;").FindString(out)
		if _, err := root.ExecContext(t.Context(), statements); err != nil || code != exitElect {
			t.Fatalf("elect %v: code %d, and the statement that it prints fails: %v\n%s", step.args, code, err, out)
		}
		if out, code := call(t, env, step.args...); code != 0 {
			t.Errorf("elect %v, after the statement: code %d: %s", step.args, code, out)
		}
	}
}

func TestSchemaApplyCreatesTablesForMySQLTable(t *testing.T) {
	t.Parallel()
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	if out, code := call(t, onDSN(t, "mysqltable", d.Admin), "schema", "--apply"); code != 0 {
		t.Fatalf("code %d: %s", code, out)
	}
	d.Exec(t, "SELECT 1 FROM election_shared_item")
}

func TestSchemaApplySaysWhyItCreatesNoTables(t *testing.T) {
	t.Parallel()
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	migration := onFiles(t, "ELECTION_BACKEND=migration", "ELECTION_MIGRATION_FROM=file", "ELECTION_MIGRATION_TO=memory", "ELECTION_MIGRATION_STAGE=both")
	for _, x := range []struct {
		what, says string
		code       int
		env        []string
		args       []string
	}{
		{"an account without CREATE", "CREATE, SELECT, INSERT, UPDATE, DELETE", exitElect, onDSN(t, "mysql", d.User), nil},
		{"a store that needs none", "file needs no tables", 0, onFiles(t), nil},
		{"another prefix than the configuration's", "none of the others can be", exitElect, onFiles(t), []string{"--prefix", "other"}},
		{"two stores", "name the one", exitElect, migration, nil},
	} {
		if out, code := call(t, x.env, append([]string{"schema", "--apply"}, x.args...)...); code != x.code || !strings.Contains(out, x.says) {
			t.Errorf("%s: code %d: %s", x.what, code, out)
		}
	}
}

// The first hour on PostgreSQL: an ordinary role is told the whole step. Either command or statements of an administrator
// end in an elected program.
func TestTheFirstHourOnPostgreSQLGoesRoundOnce(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	for what, administer := range map[string]func(t *testing.T, d *testbed.PostgresDatabase, user, said string){
		"by the command": func(t *testing.T, d *testbed.PostgresDatabase, user, said string) {
			if !strings.Contains(said, "elect schema --apply --grant-to "+user) {
				t.Fatalf("the command is not in: %s", said)
			}
			out, code := call(t, onPostgres(t, server.AdminDSN(d.Name)), "schema", "--apply", "--grant-to", user)
			if code != 0 || !strings.Contains(out, user+" has the rights of a member") {
				t.Fatalf("code %d: %s", code, out)
			}
		},
		"by the statements": func(t *testing.T, d *testbed.PostgresDatabase, _, said string) {
			d.Exec(t, said[strings.Index(said, "CREATE TABLE"):])
		},
	} {
		t.Run(what, func(t *testing.T) {
			d := server.Database(t)
			d.Exec(t, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
			user, password := d.AddUser(t)
			member := onPostgres(t, d.DSNOf(user, password, ""))

			out, code := call(t, member, "schema", "--apply")
			if code != exitElect || !strings.Contains(out, "permission denied for schema public") {
				t.Fatalf("code %d, want a denial: %s", code, out)
			}
			said, code := call(t, member, "run", "job", "--", "true")
			if code != exitElect || !strings.Contains(out, said[strings.Index(said, "; an administrator"):]) {
				t.Fatalf("code %d: schema --apply says\n%s\nand run\n%s", code, out, said)
			}
			administer(t, d, user, said)
			if out, code := call(t, member, "run", "job", "--", "true"); code != 0 {
				t.Errorf("after that: code %d: %s", code, out)
			}
		})
	}
}

func onPostgres(t *testing.T, dsn string) []string {
	t.Helper()
	return environ(t.TempDir(), "ELECTION_TTL=15s", "ELECTION_BACKEND=postgres", "ELECTION_POSTGRES_DSN="+dsn)
}

func TestSchemaGrantsRightsOnMySQL(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Shared(t, k)
		d := s.Database(t)
		member := d.AddUser(t, "")
		admin := s.AdminConfig()
		admin.DBName = d.Name
		var host string
		if err := testbed.OpenDB(t, d.Admin).QueryRow("SELECT HOST FROM mysql.user WHERE USER = ?", member.User).Scan(&host); err != nil {
			t.Fatal(err)
		}
		d.Exec(t, fmt.Sprintf("REVOKE ALL PRIVILEGES, GRANT OPTION FROM '%s'@'%s'", member.User, host))

		out, code := call(t, onDSN(t, "mysql", admin), "schema", "--apply", "--grant-to", member.User+"@"+host)
		if code != 0 || !strings.Contains(out, "has the rights of a member") {
			t.Fatalf("code %d: %s", code, out)
		}
		if out, code := call(t, onDSN(t, "mysql", member), "run", "job", "--", "true"); code != 0 {
			t.Errorf("after that: code %d: %s", code, out)
		}
	})
}
