package testbed

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// A Database is a fresh, empty schema that belongs to one test.
type Database struct {
	Name string

	// User is an ordinary user, who may only SELECT, INSERT and UPDATE in this
	// database. Use a Clone to change it.
	User *mysql.Config

	// Admin is the administrator, connected to this database.
	Admin *mysql.Config

	server *Server
}

// Database creates a fresh database and a user for this test only.
func (s *Server) Database(t testing.TB) *Database {
	t.Helper()
	d := &Database{Name: "test_" + random(), Admin: s.AdminConfig(), server: s}
	d.Admin.DBName = d.Name
	noError(t, s.exec("CREATE DATABASE "+d.Name))
	t.Cleanup(func() { s.tidy("DROP DATABASE IF EXISTS " + d.Name) })
	d.User = d.AddUser(t, "")
	return d
}

// AddUser creates another user with the rights of User. The plugin authenticates the
// user: "" is the server's default, "caching_sha2_password" is for MySQL,
// "mysql_native_password" and "ed25519" are for MariaDB.
func (d *Database) AddUser(t testing.TB, plugin string) *mysql.Config {
	t.Helper()
	s := d.server
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName = s.admin.Net, s.Addr(), d.Name
	c.User, c.Passwd = "user_"+random(), "secret-"+random()
	c.TLS, c.TLSConfig = s.admin.TLS, s.admin.TLSConfig

	name := fmt.Sprintf("'%s'@'%s'", c.User, s.hosts)
	how := fmt.Sprintf("IDENTIFIED BY '%s'", c.Passwd)
	switch {
	case plugin != "" && s.Kind() == MySQL:
		how = fmt.Sprintf("IDENTIFIED WITH %s BY '%s'", plugin, c.Passwd)
	case plugin != "":
		how = fmt.Sprintf("IDENTIFIED VIA %s USING PASSWORD('%s')", plugin, c.Passwd)
	}
	if plugin == "ed25519" {
		// Error 1968: it is installed already.
		if err := s.exec("INSTALL SONAME 'auth_ed25519'"); err != nil && !isServerError(err, 1968) {
			t.Fatal(err)
		}
	}
	s.Exec(t,
		fmt.Sprintf("CREATE USER %s %s", name, how),
		fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO %s", d.Name, name))
	t.Cleanup(func() { s.tidy("DROP USER IF EXISTS " + name) })
	return c
}

// Exec runs statements in this database as the administrator.
func (d *Database) Exec(t testing.TB, statements ...string) {
	t.Helper()
	db := OpenDB(t, d.Admin)
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// OpenDB opens a pool, which it closes at the end of the test. The pool does not log
// broken connections.
func OpenDB(t testing.TB, c *mysql.Config) *sql.DB {
	t.Helper()
	db, err := attempt(func() *sql.DB { return openPool(c) })
	noError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func openPool(c *mysql.Config) *sql.DB {
	c = c.Clone()
	c.Logger = &mysql.NopLogger{} // faults break connections on purpose
	return sql.OpenDB(must(mysql.NewConnector(c)))
}

// tidy cleans up on a server that outlives the test. It ignores errors.
func (s *Server) tidy(statement string) {
	if s.shared || s.options.command == nil {
		_ = s.exec(statement) // no matter if it fails: the next database has another name
	}
}

// isServerError reports whether the server returned this error number.
func isServerError(err error, number uint16) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && e.Number == number
}

func random() string { return strings.ToLower(rand.Text()[:12]) }
