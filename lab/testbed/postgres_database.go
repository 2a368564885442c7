package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A PostgresDatabase is a fresh, empty database that belongs to one test.
type PostgresDatabase struct {
	Name, User, Password string // User owns the database
	superuser
	server *PostgresServer
}

// Database creates a fresh database and a user that owns it.
func (p *PostgresServer) Database(t testing.TB) *PostgresDatabase {
	t.Helper()
	d := &PostgresDatabase{Name: "test_" + random(), server: p}
	d.User, d.Password = d.AddUser(t)
	p.Exec(t, fmt.Sprintf("CREATE DATABASE %s OWNER %s TEMPLATE template0", d.Name, d.User))
	d.pool = must(pgxpool.New(context.Background(), p.AdminDSN(d.Name)))
	t.Cleanup(func() {
		d.pool.Close()
		if p.shared {
			p.pool.Exec(context.Background(), "DROP DATABASE IF EXISTS "+d.Name+" WITH (FORCE)")
		}
	})
	return d
}

// AddUser creates a user without rights.
func (d *PostgresDatabase) AddUser(t testing.TB) (name, password string) {
	t.Helper()
	name, password = "user_"+random(), "secret-"+random()
	d.server.Exec(t, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", name, password))
	return name, password
}

// Disconnect closes the connections of the user on the server's side.
func (d *PostgresDatabase) Disconnect(t testing.TB) {
	t.Helper()
	d.server.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '"+d.User+"'")
}

// DSN is the user's, through a proxy or another address if addr is not empty.
func (d *PostgresDatabase) DSN(addr string) string { return d.DSNOf(d.User, d.Password, addr) }

// DSNOf is the data source name of another user.
func (d *PostgresDatabase) DSNOf(user, password, addr string) string {
	u := must(url.Parse(d.server.AdminDSN(d.Name)))
	u.User = url.UserPassword(user, password)
	if addr != "" {
		u.Host = addr
	}
	return u.String()
}

// StopReplication makes a standby follow nobody: later writes do not reach it.
func (p *PostgresServer) StopReplication(t testing.TB) {
	t.Helper()
	p.Exec(t, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
	Eventually(t, endLimit, "the standby is disconnected", func() error {
		if n := p.Value(t, "SELECT count(*) FROM pg_stat_wal_receiver"); n != "0" {
			return errors.New("it receives")
		}
		return nil
	})
}

// Synchronous makes a primary confirm no commit before its standby has it.
func (p *PostgresServer) Synchronous(t testing.TB) {
	t.Helper()
	p.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()")
	Eventually(t, endLimit, "the standby is synchronous", func() error {
		if n := p.Value(t, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"); n != "1" {
			return fmt.Errorf("%s are", n)
		}
		return nil
	})
}
