//go:build linux

package chaos

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-election/go-election/lab/testbed"
)

// pooledSite is a server behind PgBouncer in transaction mode. No member names the schema. A
// neighbour in the same pool tells connections what it needs, and leaves them so while faults hit
// the members: new processes meet connections that were told something.
func pooledSite(t testing.TB) *Site {
	server := testbed.StartPostgres(t, testbed.PostgresOptions{})
	d := postgresDatabase(t, server)
	bouncer := testbed.StartPgBouncer(t, d, "transaction")
	role, _ := d.AddUser(t)
	d.Exec(t, "CREATE SCHEMA tenant1 AUTHORIZATION "+d.User, "GRANT "+role+" TO "+d.User)
	n := &neighbour{dsn: d.DSN(bouncer.Addr()), addr: bouncer.Addr(), role: "SET ROLE " + role}

	site := newSite(t, "postgres pooled", greatestTTL, []string{bouncer.Addr()}, postgresEnviron(d), serverFaults(server.Daemon), map[string]fault{
		newcomer: func(r *run) {
			r.current[(r.someLeader().member+1+r.IntN(members-1))%members].kill()
			r.restartEnded()
			r.wait(ttl/2, ttl)
		},
	})
	for name, f := range site.faults {
		if f != nil {
			site.faults[name] = n.during(f)
		}
	}
	return site
}

// newcomer is the fault of a process that starts beside a leader, and meets what was said.
const newcomer = "follower replaced"

// poolSize is how many connections to the server the pool has.
const poolSize = 5

// A neighbour is another client of the pool, as the same user in the same database.
type neighbour struct {
	dsn, addr string
	role      string // sets a role without rights
}

// said is what a neighbour says to a connection; search_path is said as often as all else together.
var said = []string{
	"SET statement_timeout = '1ms'",
	"SET lock_timeout = '1ms'",
	"SET idle_in_transaction_session_timeout = '1ms'",
	"SET idle_session_timeout = '1ms'",
	"SET default_transaction_read_only = on",
	"SET default_transaction_isolation = 'serializable'",
	"SET default_transaction_deferrable = on",
	"SET row_security = off",
	"SET synchronous_commit = off",
	"SET client_encoding = 'LATIN1'",
	"SET standard_conforming_strings = off",
	"SET backslash_quote = off",
	"SET transform_null_equals = on",
	"SET TimeZone = 'Asia/Kathmandu'",
	"SET DateStyle = 'SQL, DMY'",
	"SET IntervalStyle = 'sql_standard'",
	"SET bytea_output = 'escape'",
	"SET extra_float_digits = -15",
	"SET search_path = ''",
}

// during makes the neighbour say something before a fault.
func (n *neighbour) during(f fault) fault {
	return func(r *run) {
		say := said[r.IntN(len(said))]
		switch r.IntN(8) {
		case 0, 1, 2, 3:
			say = "SET search_path TO tenant1"
		case 4:
			say = n.role
		case 5:
			say = "RESET ALL; RESET ROLE"
		}
		b := r.inject(n.addr, byRenewal, func() { n.say(r, say, 1+r.IntN(poolSize)) })
		b.Name = say
		f(r)
		b.To = Now() // it was said until now, and may be said still
	}
}

// say says something to several connections of the pool. Each is in a transaction until all were told.
func (n *neighbour) say(r *run, what string, connections int) {
	ctx, cancel := context.WithTimeout(r.Context(), r.TTL)
	defer cancel()
	for range connections {
		c, err := pgconn.Connect(ctx, n.dsn)
		if err != nil {
			r.Fatalf("the neighbour cannot connect: %v", err)
		}
		defer c.Close(context.WithoutCancel(ctx))
		// Errors are the neighbour's affair: what it said before holds for itself, too.
		if _, err := c.Exec(ctx, "BEGIN; "+what).ReadAll(); err == nil {
			defer func() { c.Exec(ctx, "COMMIT").ReadAll() }()
		}
	}
}
