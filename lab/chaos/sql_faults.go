//go:build linux

package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/lab/testbed"
)

// sqlFaults are faults that an administrator of a database can cause.
func sqlFaults(s *testbed.Server, d *testbed.Database) map[string]fault {
	user := fmt.Sprintf("'%s'@'127.0.0.1'", d.User.User)
	return map[string]fault{
		"row deleted": func(r *run) {
			name := elections[r.IntN(len(elections))]
			r.inject("row deleted", name, byEnd, func() {
				d.Exec(r, fmt.Sprintf("DELETE FROM election_item WHERE kind = 'record' AND name = '%s'", name))
				r.wait(r.TTL/2, r.TTL)
			})
		},
		"rights revoked": func(r *run) {
			r.inject("rights revoked", s.Addr(), byCall, func() {
				s.Exec(r, fmt.Sprintf("REVOKE SELECT, INSERT, UPDATE, DELETE ON %s.* FROM %s", d.Name, user))
				closeConnections(r, s.Admin(), d.User.User) // an open one keeps its rights in a database
				r.wait(r.TTL/2, 2*r.TTL)
				s.Exec(r, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO %s", d.Name, user))
			})
		},
		// Another client takes all connections, after those of the members were closed.
		"connections used up": func(r *run) {
			r.inject("connections used up", s.Addr(), byCall, func() {
				// The administrator uses one connection, opened before all are taken.
				admin, err := s.Admin().Conn(r.Context())
				if err != nil {
					r.Fatal(err)
				}
				defer admin.Close()
				execAdmin(r, admin, "SET GLOBAL max_connections = 12")
				closeConnections(r, admin, d.User.User)
				db := testbed.OpenDB(r, d.User)
				defer db.Close()
				for end := Now() + r.TTL + r.N(r.TTL); Now() < end; {
					if c, err := db.Conn(r.Context()); err == nil {
						defer c.Close()
						continue
					}
					r.wait(20*time.Millisecond, 50*time.Millisecond)
				}
				execAdmin(r, admin, "SET GLOBAL max_connections = 151")
			})
		},
	}
}

// execAdmin runs a statement as the administrator.
func execAdmin(r *run, c *sql.Conn, statement string) {
	r.Helper()
	if _, err := c.ExecContext(r.Context(), statement); err != nil {
		r.Fatalf("%s: %v", statement, err)
	}
}

// closeConnections closes the connections of a user on the server's side. The administrator has a connection or a pool.
func closeConnections(r *run, admin interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, user string) {
	r.Helper()
	rows, err := admin.QueryContext(r.Context(), "SELECT id FROM information_schema.processlist WHERE user = ?", user)
	if err != nil {
		r.Fatal(err)
	}
	defer rows.Close()
	var ids []uint64
	for rows.Next() {
		var id uint64
		if err := rows.Scan(&id); err != nil {
			r.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids { // ignore errors: a connection may have ended
		_, _ = admin.ExecContext(r.Context(), fmt.Sprintf("KILL %d", id))
	}
}

// installed reports whether the error says that a plugin is already installed.
func installed(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && (e.Number == 1125 || e.Number == 1968)
}
