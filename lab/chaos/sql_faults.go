//go:build linux

package chaos

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// sqlFaults are faults that an administrator of a database can cause.
func sqlFaults(s *testbed.Server, d *testbed.Database) map[string]fault {
	rights := fmt.Sprintf("SELECT, INSERT, UPDATE, DELETE ON %s.*", d.Name)
	user := fmt.Sprintf("'%s'@'127.0.0.1'", d.User.User)
	return map[string]fault{
		"row deleted": edit(func(r *run, election string) {
			s.Exec(r, fmt.Sprintf("DELETE FROM %s.election_item WHERE kind = 'record' AND name = '%s'", d.Name, election))
		}),
		"rights revoked": while(s.Addr(), byCall, func(r *run) {
			s.Exec(r, "REVOKE "+rights+" FROM "+user)
			d.Disconnect(r) // an open one keeps its rights in a database
			r.wait(ttl/2, 2*ttl)
			s.Exec(r, "GRANT "+rights+" TO "+user)
		}),
		// Another client takes all connections, after those of the members were closed. The server keeps one for the
		// administrator.
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
