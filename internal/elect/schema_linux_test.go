package elect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/lab/testbed"
)

// withRights returns the environment of an account that has only these rights on the table of
// backend mysql. With CREATE among the rights it need not exist.
func withRights(t *testing.T, d *testbed.Database, rights string) []string {
	t.Helper()
	c := d.AddUser(t)
	var grantee string
	db := testbed.OpenDB(t, d.Admin)
	testbed.NoError(t, db.QueryRow("SELECT CONCAT('''', USER, '''@''', HOST, '''') FROM mysql.user WHERE USER = ?", c.User).Scan(&grantee))
	d.Exec(t, fmt.Sprintf("REVOKE ALL PRIVILEGES, GRANT OPTION FROM %s", grantee))
	d.Exec(t, fmt.Sprintf("GRANT %s ON %s.election_item TO %s", rights, d.Name, grantee))
	return onDSN(t, "mysql", c)
}

func onDSN(t *testing.T, backend string, c *mysql.Config) []string {
	t.Helper()
	return environ("ELECTION_TTL=15s", "ELECTION_BACKEND="+backend, "ELECTION_MYSQL_DSN="+c.FormatDSN(),
		"ELECTION_MYSQLTABLE_DSN="+c.FormatDSN(), "ELECTION_MYSQLTABLE_LAYOUT=update_time")
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

// The first hour on PostgreSQL: an ordinary role is told the whole step, which ends in an elected program.
func TestTheFirstHourOnPostgreSQLGoesRoundOnce(t *testing.T) {
	t.Parallel()
	server := testbed.SharedPostgres(t)
	d := server.Database(t)
	d.Exec(t, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	user, password := d.AddUser(t)
	member := onPostgres(t, d.DSNOf(user, password, ""))

	out, code := call(t, member, "schema", "--apply")
	if code != exitElect || !strings.Contains(out, "permission denied for schema public") {
		t.Fatalf("code %d, want a denial: %s", code, out)
	}
	said, code := call(t, member, "run", "job", "--", "true")
	if code != exitElect || !strings.Contains(said, "elect schema --apply --grant-to "+user) || !strings.Contains(out, said[strings.Index(said, "; an administrator"):]) {
		t.Fatalf("code %d: schema --apply says\n%s\nand run\n%s", code, out, said)
	}
	out, code = call(t, onPostgres(t, server.AdminDSN(d.Name)), "schema", "--apply", "--grant-to", user)
	if code != 0 || !strings.Contains(out, user+" has the rights of a member") {
		t.Fatalf("code %d: %s", code, out)
	}
	if out, code := call(t, member, "run", "job", "--", "true"); code != 0 {
		t.Errorf("after that: code %d: %s", code, out)
	}
}

func onPostgres(t *testing.T, dsn string) []string {
	t.Helper()
	return environ("ELECTION_TTL=15s", "ELECTION_BACKEND=postgres", "ELECTION_POSTGRES_DSN="+dsn)
}

func TestSchemaGrantsRightsOnMySQL(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Shared(t, k)
		d := s.Database(t)
		member := d.AddUser(t)
		admin := s.AdminConfig()
		admin.DBName = d.Name
		var host string
		testbed.NoError(t, testbed.OpenDB(t, d.Admin).QueryRow("SELECT HOST FROM mysql.user WHERE USER = ?", member.User).Scan(&host))
		d.Exec(t, fmt.Sprintf("REVOKE ALL PRIVILEGES, GRANT OPTION FROM '%s'@'%s'", member.User, host))

		for range 2 { // the second call changes nothing
			out, code := call(t, onDSN(t, "mysql", admin), "schema", "--apply", "--grant-to", member.User+"@"+host)
			if code != 0 || !strings.Contains(out, "the tables are there, on mysql 127.0.0.1:") || !strings.Contains(out, "has the rights of a member") {
				t.Fatalf("code %d: %s", code, out)
			}
		}
		if out, code := call(t, onDSN(t, "mysql", member), "run", "job", "--", "true"); code != 0 {
			t.Errorf("after that: code %d: %s", code, out)
		}
	})
}
