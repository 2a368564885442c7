package mysql

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

const inspectSQL = `SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'log_bin',
 'sync_binlog', 'innodb_flush_log_at_trx_commit', 'max_connections', 'max_allowed_packet', 'wsrep_on',
 'group_replication_group_name', 'group_replication_single_primary_mode')`

// connectionsSQL asks how many connections this account has, and may have, and how many processes it has.
const connectionsSQL = `SELECT 'account_limit', @@SESSION.max_user_connections
 UNION ALL SELECT 'account_connected', COUNT(*) FROM information_schema.PROCESSLIST
 WHERE CAST(USER AS BINARY) = CAST(SUBSTRING_INDEX(USER(), '@', 1) AS BINARY)
 UNION ALL SELECT 'processes', COUNT(*) FROM {table}
 WHERE kind = 'session' AND at > UTC_TIMESTAMP(6) - INTERVAL 2 MINUTE`

func (d *driver) Inspect(ctx context.Context) ([]backend.Diagnostic, error) {
	rows, err := d.query(ctx, inspectSQL, d.statement(connectionsSQL, nil),
		"SHOW GLOBAL STATUS WHERE Variable_name = 'Threads_connected'")
	if err != nil {
		return nil, err
	}
	vars := map[string]string{}
	for _, row := range rows {
		vars[strings.ToLower(string(row[0]))] = clean.Text(string(row[1]), 200, false)
	}
	return append(diagnostics(vars), connections(vars)), nil
}

func diagnostics(vars map[string]string) (list []backend.Diagnostic) {
	add := func(when, warning bool, what, format string, args ...any) {
		if when {
			list = append(list, clean.Diagnosticf(warning, what, format, args...))
		}
	}
	add(true, false, "server", "%s (%s)", vars["version"], vars["version_comment"])

	flush, sync, binlog := vars["innodb_flush_log_at_trx_commit"], vars["sync_binlog"], !off(vars["log_bin"])
	add(flush != "1" || binlog && sync != "1", true, "durability", "innodb_flush_log_at_trx_commit is %s "+
		"and sync_binlog %s: a crash loses commits. That is safe, and costs the greatest TTL without a "+
		"leader after each restart; set both to 1", flush, sync)
	galera, group := !off(vars["wsrep_on"]), vars["group_replication_group_name"] != ""
	add(galera, true, "replication",
		"Galera: send all members' writes to one node; identities that alternate are refused")
	add(!galera && group, off(vars["group_replication_single_primary_mode"]), "replication",
		"Group Replication; single primary mode must be ON, and all writes go to the primary")
	add(!galera && !group && binlog, false, "replication", "the binary log is on: a failover may lose the "+
		"last grants, which costs the greatest TTL without a leader. Fence off the old primary before a new "+
		"one is promoted")
	most, err := strconv.Atoi(vars["max_allowed_packet"])
	add(err == nil && most < 1<<20, true, "messages", "max_allowed_packet is %d: a process that leads "+
		"hundreds of elections needs 1048576, and cannot renew what it was granted with less", most)
	return list
}

// connections says how many connections there will be, and how many are left. A follower has one that waits.
func connections(vars map[string]string) backend.Diagnostic {
	fact := func(name string) int {
		n, _ := strconv.Atoi(vars[name])
		return n
	}
	left, of := fact("max_connections")-fact("threads_connected"), fact("max_connections")
	if limit := fact("account_limit"); limit > 0 && limit-fact("account_connected") < left {
		left, of = limit-fact("account_connected"), limit
	}
	return client.Connections(2, maxConns+1, fact("processes"), left, of)
}

// off reports whether a switch is off; newer servers have more than two values for it.
func off(v string) bool { return v == "" || v == "0" || strings.EqualFold(v, "OFF") }
