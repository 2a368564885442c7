package testbed

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
)

// ReadOnly makes the server refuse writes of ordinary users, like a demoted primary,
// or accept them again. MySQL also refuses writes of the administrator.
func (s *Server) ReadOnly(t testing.TB, on bool) {
	t.Helper()
	s.requireOwn(t, "ReadOnly")
	if on {
		s.Exec(t, "SET GLOBAL "+s.program.readOnly+" = ON")
	} else {
		s.Exec(t, "SET GLOBAL read_only = OFF") // and super_read_only
	}
}

// StartPrimary starts a server that may have replicas, with global transaction ids.
//
// For a failover that loses writes: StopReplication, write to the primary, Kill the
// primary, Promote the replica.
func StartPrimary(t testing.TB, k Kind, o Options) *Server {
	t.Helper()
	return startOwn(t, func() *Server {
		common := []string{"--log-bin=binlog", "--relay-log=relay"}
		o.Args = slices.Concat(o.Args, common, must(programs[k]()).replication)
		return start(k, o)
	})
}

// StartReplica starts a replica of such a server, or of a replica. It replicates asynchronously, and is
// read-only until it is promoted. It has caught up when StartReplica returns.
func StartReplica(t testing.TB, primary *Server) *Server {
	t.Helper()
	replica := Start(t, primary.kind, primary.o)
	replica.ReadOnly(t, true)
	replica.Exec(t, fmt.Sprintf(primary.program.follow, primary.port), "START REPLICA")
	replica.CatchUp(t, primary)
	return replica
}

// StopReplication stops fetching from the primary: later writes do not reach it.
func (s *Server) StopReplication(t testing.TB) {
	t.Helper()
	s.Exec(t, "STOP REPLICA IO_THREAD")
}

// CatchUp waits until a replica has applied all writes that its primary has made so far.
func (s *Server) CatchUp(t testing.TB, primary *Server) {
	t.Helper()
	var at string
	NoError(t, primary.db.QueryRow(s.program.written).Scan(&at))
	s.waitFor(t, at)
}

// waitFor waits until the replica has applied a set of transactions.
func (s *Server) waitFor(t testing.TB, at string) {
	t.Helper()
	var answer int
	NoError(t, s.db.QueryRow(s.program.wait, at).Scan(&answer))
	if answer != 0 {
		is := s.status(t)
		t.Fatalf("%s has not caught up with %q: %s %s", s.kind, at, is["Last_IO_Error"], is["Last_SQL_Error"])
	}
}

// Promote makes the replica a primary: it applies what it has fetched, forgets the old
// primary and accepts writes. As an operator must, the test fences the old primary first.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Exec(t, "STOP REPLICA IO_THREAD")
	s.waitFor(t, s.status(t)[s.program.fetched])
	s.Exec(t, "STOP REPLICA", "RESET REPLICA ALL")
	s.ReadOnly(t, false)
}

// status returns the replica's status by column.
func (s *Server) status(t testing.TB) map[string]string {
	t.Helper()
	rows, err := s.db.Query("SHOW REPLICA STATUS")
	NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	NoError(t, err)
	if !rows.Next() {
		t.Fatalf("%s %s is no replica: %v", s.Kind(), s.Addr(), rows.Err())
	}
	values := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	NoError(t, rows.Scan(into...))
	result := make(map[string]string)
	for i, column := range columns {
		result[column] = values[i].String
	}
	return result
}
