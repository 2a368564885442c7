package testbed

import (
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
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
	s.Exec(t, "CREATE DATABASE "+d.Name)
	t.Cleanup(func() { s.tidy("DROP DATABASE IF EXISTS " + d.Name) })
	d.User = d.AddUser(t)
	return d
}

// AddUser creates another user with the rights of User.
func (d *Database) AddUser(t testing.TB) *mysql.Config {
	t.Helper()
	s := d.server
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", s.Addr(), d.Name
	c.User, c.Passwd = "user_"+random(), "secret-"+random()
	c.TLS = s.TLSConfig()

	name := fmt.Sprintf("'%s'@'127.0.0.1'", c.User)
	s.Exec(t,
		fmt.Sprintf("CREATE USER %s IDENTIFIED BY '%s'", name, c.Passwd),
		fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO %s", d.Name, name))
	t.Cleanup(func() { s.tidy("DROP USER IF EXISTS " + name) })
	return c
}

// Disconnect closes the connections of User on the server's side.
func (d *Database) Disconnect(t testing.TB) {
	t.Helper()
	const connections = "SELECT COALESCE(GROUP_CONCAT(id SEPARATOR ' '), '') " +
		"FROM information_schema.processlist WHERE user = ?"
	var ids string
	NoError(t, d.server.db.QueryRow(connections, d.User.User).Scan(&ids))
	for id := range strings.FieldsSeq(ids) {
		d.server.db.Exec("KILL " + id) // the connection may have ended
	}
}

// Exec runs statements in this database as the administrator.
func (d *Database) Exec(t testing.TB, statements ...string) {
	t.Helper()
	execute(t, OpenDB(t, d.Admin), statements)
}

func execute(t testing.TB, db *sql.DB, statements []string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("testbed: %s: %v", statement, err)
		}
	}
}

// OpenDB opens a pool for one test. A message may have several statements. Broken connections are not logged.
func OpenDB(t testing.TB, c *mysql.Config) *sql.DB {
	t.Helper()
	db, err := attempt(func() *sql.DB { return openPool(c) })
	NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func openPool(c *mysql.Config) *sql.DB { return sql.OpenDB(Connector(c)) }

// Connector is that of OpenDB.
func Connector(c *mysql.Config) driver.Connector {
	c = c.Clone()
	c.MultiStatements = true
	c.Logger = &mysql.NopLogger{} // faults break connections on purpose
	return must(mysql.NewConnector(c))
}

// tidy cleans up on a server that outlives the test.
func (s *Server) tidy(statement string) {
	if s.shared {
		s.db.Exec(statement) // no matter if it fails: the next database has another name
	}
}

func random() string { return strings.ToLower(rand.Text()[:12]) }
