package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var _ backend.Inspector = (*Backend)(nil)

const inspectSQL = `SHOW GLOBAL VARIABLES WHERE Variable_name IN
('version', 'version_comment', 'server_uuid', 'server_uid', 'log_bin', 'sync_binlog', 'innodb_flush_log_at_trx_commit', 'max_connections',
 'rpl_semi_sync_source_enabled', 'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_wait_point', 'rpl_semi_sync_master_wait_point',
 'wsrep_on', 'group_replication_group_name', 'group_replication_single_primary_mode')`

// Inspect reads the properties of the server that matter for leases and explains them:
// durability, replication, clock, the greatest TTL. It writes nothing and needs no more
// rights than the Backend has. Its errors are those of any call that reads: the tables do
// not exist, the server is read-only, and so on.
func (b *Backend) Inspect(ctx context.Context, ttl, _ time.Duration) (list []backend.Diagnostic, err error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	err = b.call(ctx, "inspect", func(s *session) error {
		rows, err := s.query(ctx, inspectSQL)
		if err != nil {
			return err
		}
		defer rows.Close()
		vars := map[string]string{}
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				return err
			}
			vars[strings.ToLower(name)] = clean.Text(value, 200, false)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		began := time.Now()
		var micros, maxTTL int64
		const facts = `SELECT TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)), ttl_us FROM %s WHERE name = ''`
		if err := s.conn.QueryRowContext(ctx, fmt.Sprintf(facts, b.tables.lease)).Scan(&micros, &maxTTL); err != nil {
			return err
		}
		trip := time.Since(began)
		list = diagnostics(vars)
		ahead := time.UnixMicro(micros).Sub(began.Add(trip / 2)).Round(time.Millisecond)
		list = append(list,
			clean.Diagnosticf(ahead.Abs() > 10*time.Second, "clock", "the server's is %v ahead of this machine's, give or take %v; it decides nothing, but terms follow it, and people read it", ahead, trip.Round(time.Millisecond)),
			clean.Diagnosticf(false, "greatest TTL", "%v, in the table's own row; after a failover every lease is observed for that long", time.Duration(maxTTL)*time.Microsecond),
		)
		if most := time.Duration(maxTTL) * time.Microsecond; ttl > most {
			refused := clean.Diagnosticf(true, "greatest TTL", "every bid is refused: %v", b.tooLong("any", ttl, most))
			refused.Fatal = true
			list = append(list, refused)
		}
		return nil
	})
	return list, err
}

// diagnostics explains the variables of a server.
func diagnostics(vars map[string]string) (list []backend.Diagnostic) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	first := func(names ...string) string {
		for _, n := range names {
			if vars[n] != "" {
				return vars[n]
			}
		}
		return ""
	}
	add(false, "server", "%s (%s), identity %s", vars["version"], vars["version_comment"], first("server_uuid", "server_uid"))

	flush, sync, binlog := vars["innodb_flush_log_at_trx_commit"], vars["sync_binlog"], !off(vars["log_bin"])
	switch {
	case flush != "1":
		add(true, "durability", "innodb_flush_log_at_trx_commit is %s: a crash loses commits. That is safe, and costs the greatest TTL without a leader after each restart; set it to 1", flush)
	case binlog && sync != "1":
		add(true, "durability", "sync_binlog is %s: a crash loses the binary log's tail. That is safe, and costs the greatest TTL without a leader after each restart; set it to 1", sync)
	default:
		add(false, "durability", "each commit is flushed (innodb_flush_log_at_trx_commit=1%s)", map[bool]string{true: ", sync_binlog=1", false: ", no binary log"}[binlog])
	}
	semi, point := first("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"), first("rpl_semi_sync_source_wait_point", "rpl_semi_sync_master_wait_point")
	switch {
	case !off(vars["wsrep_on"]):
		add(true, "replication", "Galera: send all members' writes to one node; identities that alternate are refused")
	case vars["group_replication_group_name"] != "":
		add(off(vars["group_replication_single_primary_mode"]), "replication", "Group Replication; single primary mode must be ON, and all writes go to the primary")
	case !off(semi):
		add(!strings.EqualFold(point, "AFTER_SYNC"), "replication", "semi-synchronous (%s): a failover loses nothing while a replica acknowledges. Fence off the old primary before the new one is promoted", point)
	case binlog:
		add(false, "replication", "the binary log is on, without semi-synchronous acknowledgement: a failover may lose the last grants, which costs the greatest TTL without a leader. Fence off the old primary before a new one is promoted")
	default:
		add(false, "replication", "none: no binary log")
	}
	add(false, "connections", "max_connections is %s; each process uses up to %d, and one for each leader that it listens to", vars["max_connections"], maxConns)
	return list
}
