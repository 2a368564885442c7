//go:build linux

package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// What an administrator does to the connections and rights of all members. Edits are in the stores' tests.

// closing closes the members' connections again and again.
func closing(addr string, do func(r *run)) fault {
	return while(addr, byCall, func(r *run) {
		r.again(ttl, 20*time.Millisecond, 200*time.Millisecond, func() { do(r) })
	})
}

func postgresAdmin(server *testbed.PostgresServer, d *testbed.PostgresDatabase) map[string]fault {
	return map[string]fault{
		"row locked": while(server.Addr(), byCall, func(r *run) {
			tx, err := d.Admin().Begin(r.Context())
			testbed.NoError(r, err)
			defer tx.Rollback(context.WithoutCancel(r.Context()))
			_, err = tx.Exec(r.Context(), "SELECT FROM election_item FOR UPDATE")
			testbed.NoError(r, err)
			r.wait(ttl/2, 2*ttl)
		}),
		"connections closed": closing(server.Addr(), func(r *run) { d.Disconnect(r) }),
	}
}

// sqlFaults are faults that an administrator of a database can cause.
func sqlFaults(s *testbed.Server, d *testbed.Database) map[string]fault {
	rights := fmt.Sprintf("SELECT, INSERT, UPDATE, DELETE ON %s.*", d.Name)
	user := fmt.Sprintf("'%s'@'127.0.0.1'", d.User.User)
	return map[string]fault{
		"rights revoked": while(s.Addr(), byCall, func(r *run) {
			s.Exec(r, "REVOKE "+rights+" FROM "+user)
			d.Disconnect(r) // an open one keeps its rights in a database
			r.wait(ttl/2, 2*ttl)
			s.Exec(r, "GRANT "+rights+" TO "+user)
		}),
		// Another client takes all connections but the administrator's, after the members' were closed.
		"connections used up": while(s.Addr(), byCall, func(r *run) {
			s.Exec(r, "SET GLOBAL max_connections = 12")
			d.Disconnect(r)
			db := testbed.OpenDB(r, d.User)
			var taken []*sql.Conn
			r.again(ttl+r.N(ttl), 0, 20*time.Millisecond, func() {
				if c, err := db.Conn(r.Context()); err == nil {
					taken = append(taken, c)
				}
			})
			for _, c := range taken {
				c.Close()
			}
			db.Close()
			s.Exec(r, "SET GLOBAL max_connections = 151")
		}),
	}
}
