package testbed

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
)

// A Replica replicates a primary asynchronously, and is read-only until it is
// promoted.
type Replica struct {
	*Server
	primary *Server
}

// StartPair starts a primary and a replica, with global transaction ids.
// The replica has caught up with the primary when StartPair returns.
//
// For a failover that loses writes: StopReplication, write to the primary, Kill the
// primary, Promote the replica.
func StartPair(t testing.TB, o Options) (primary *Server, replica *Replica) {
	t.Helper()
	o.Replication = true
	primary = Start(t, o)
	return primary, StartReplica(t, primary)
}

// StartReplica starts a replica of a primary that was started with Replication,
// or of a replica. It has caught up when StartReplica returns.
func StartReplica(t testing.TB, primary *Server) *Replica {
	t.Helper()
	primary.requireOwn(t, "StartReplica")
	replica := &Replica{Server: Start(t, primary.o), primary: primary}
	source := fmt.Sprintf("MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos", primary.port)
	change := "CHANGE MASTER TO " + source
	if primary.Kind() == MySQL {
		change = fmt.Sprintf("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='root', SOURCE_CONNECT_RETRY=1, SOURCE_AUTO_POSITION=1", primary.port)
	}
	replica.ReadOnly(t, true)
	replica.Exec(t, change, "START REPLICA")
	replica.WaitCaughtUp(t)
	return replica
}

// StopReplication stops fetching from the primary: later writes do not reach the
// replica.
func (r *Replica) StopReplication(t testing.TB) {
	t.Helper()
	r.Exec(t, "STOP REPLICA IO_THREAD")
}

// StartReplication resumes fetching from the primary.
func (r *Replica) StartReplication(t testing.TB) {
	t.Helper()
	r.Exec(t, "START REPLICA IO_THREAD")
}

// WaitCaughtUp waits until the replica has applied all writes that the primary has
// made so far.
func (r *Replica) WaitCaughtUp(t testing.TB) {
	t.Helper()
	position := "SELECT @@GLOBAL.gtid_binlog_pos"
	if r.Kind() == MySQL {
		position = "SELECT @@GLOBAL.gtid_executed"
	}
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	var at string
	noError(t, r.primary.db.QueryRowContext(ctx, position).Scan(&at))
	r.waitFor(t, at)
}

// waitFor waits until the replica has applied a set of transactions.
func (r *Replica) waitFor(t testing.TB, at string) {
	t.Helper()
	wait := "SELECT MASTER_GTID_WAIT(?, 50)"
	if r.Kind() == MySQL {
		wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 50)"
	}
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	var answer int
	noError(t, r.db.QueryRowContext(ctx, wait, at).Scan(&answer))
	if answer != 0 {
		status := r.status(t)
		t.Fatalf("%s replica has not caught up with %q: %s %s", r.Kind(), at, status["Last_IO_Error"], status["Last_SQL_Error"])
	}
}

// Promote makes the replica a primary: it applies what it has fetched, forgets the
// old primary and accepts writes. The test must fence the old primary first, as an
// operator must.
func (r *Replica) Promote(t testing.TB) {
	t.Helper()
	r.requireOwn(t, "Promote")
	r.Exec(t, "STOP REPLICA IO_THREAD")
	fetched := "Gtid_IO_Pos"
	if r.Kind() == MySQL {
		fetched = "Retrieved_Gtid_Set"
	}
	r.waitFor(t, r.status(t)[fetched])
	r.Exec(t, "STOP REPLICA", "RESET REPLICA ALL")
	r.ReadOnly(t, false)
}

// status returns the replica's status by column.
func (r *Replica) status(t testing.TB) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	rows, err := r.db.QueryContext(ctx, "SHOW REPLICA STATUS")
	noError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	noError(t, err)
	if !rows.Next() {
		t.Fatalf("%s %s is no replica: %v", r.Kind(), r.Addr(), rows.Err())
	}
	values := make([]sql.NullString, len(columns))
	into := make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	noError(t, rows.Scan(into...))
	result := make(map[string]string)
	for i, column := range columns {
		result[column] = values[i].String
	}
	return result
}
