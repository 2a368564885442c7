package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

// tableSQL has the collation in which package lease lists names. kind is record, session, meta or origin.
const tableSQL = `CREATE TABLE IF NOT EXISTS {table} (
  kind    text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  value   text NOT NULL,
  written xid8 NOT NULL,
  created xid8 NOT NULL,
  at      timestamptz NOT NULL,
  PRIMARY KEY (kind, name)
) WITH (fillfactor = 70);`

func createSQL(table string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(tableSQL, "{table}", table)), " ")
}

func grantSQL(t relational.Table, account string) (text string) {
	if t.Schema != "" {
		text = "GRANT USAGE ON SCHEMA " + relational.Quoted(t.Schema, `"`) + " TO " + account + "; "
	}
	return text + "GRANT SELECT, INSERT, UPDATE, DELETE ON " + t.String() + " TO " + account + ";"
}

// SchemaSQL returns the statements that create the table of [Options] and grant the rights, for people.
func SchemaSQL(schema, prefix string) (string, error) {
	d, err := unconnected(schema, prefix)
	if err != nil {
		return "", fmt.Errorf("postgres: %w: %w", backend.ErrInvalid, err)
	}
	t := d.Table
	const rights = "\n\n-- The rights that members need, and those of observers; write the accounts in.\n"
	return strings.ReplaceAll(tableSQL, "{table}", t.String()) + rights +
		strings.ReplaceAll(grantSQL(t, `"account"`), "; ", ";\n") +
		"\nGRANT SELECT ON " + t.String() + " TO \"observer\";\n", nil
}

// Grant implements [relational.Dialect]. This account must own the table, or be an administrator.
func (d *driver) Grant(ctx context.Context, t relational.Table, account string) error {
	_, err := d.exec(ctx, writingSQL+grantSQL(t, relational.Quoted(account, `"`))+" COMMIT")
	return err
}

// inspectSQL asks for what matters, and how many connections server, role and database leave to this account.
const inspectSQL = readingSQL + `
SELECT current_setting('server_version'), getdatabaseencoding(), current_setting('fsync'),
 current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
 (SELECT count(*) FROM pg_stat_replication),
 coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false), pg_backend_pid() <> {pid},
 (SELECT reset_val FROM pg_settings WHERE name = 'default_transaction_read_only'),
 current_setting('max_connections'),
 least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
 - coalesce(current_setting('reserved_connections', true)::int, 0)
 - (SELECT sum(numbackends) FROM pg_stat_database),
 (SELECT CASE WHEN rolconnlimit >= 0 THEN rolconnlimit - (SELECT count(*) FROM pg_stat_activity
 WHERE usename = current_user) END FROM pg_roles WHERE rolname = current_user),
 (SELECT CASE WHEN datconnlimit >= 0 THEN datconnlimit - numbackends END
 FROM pg_database JOIN pg_stat_database USING (datname) WHERE datname = current_database())),
 (SELECT count(*) FROM {table} WHERE kind = 'session' AND at > now() - interval '2 minutes'); COMMIT`

func (d *driver) Inspect(ctx context.Context) (list []backend.Diagnostic, err error) {
	results, err := d.exec(ctx, d.statement(inspectSQL, nil))
	if err != nil {
		return nil, err
	}
	add := func(when, warning bool, what, format string, args ...any) {
		if when {
			list = append(list, clean.Diagnosticf(warning, what, format, args...))
		}
	}
	fact := func(column int) string { return text(results[0], 0, column) }
	add(true, false, "server", "PostgreSQL %s", fact(0))
	add(fact(1) != "UTF8", true, "encoding",
		"that of the database is %s, which cannot keep every name: it must be UTF8", fact(1))
	add(fact(2) != "on" || fact(3) != "on", true, "durability", "fsync is %s and full_page_writes %s: a "+
		"crash may lose what was acknowledged, so that two processes lead. Set both to on", fact(2), fact(3))
	add(fact(8) == "on", true, "writing", "default_transaction_read_only is on for this account, the "+
		"database or the server: nobody can lead until it is off")
	const fence = "Fence off the old primary before a new one is promoted"
	synchronous, standbys := fact(4) != "", fact(5) != "0"
	add(synchronous && !standbys, true, "replication", "synchronous (%s), and no standby is connected: "+
		"each commit waits for one, so nobody can lead until it is there, or synchronous_standby_names "+
		"is empty", fact(4))
	add(synchronous && standbys, false, "replication",
		"synchronous (%s): a failover to such a standby loses nothing. "+fence, fact(4))
	add(!synchronous && standbys, false, "replication", "%s standbys, asynchronous: a failover may lose the "+
		"last grants, which costs the greatest TTL without a leader. "+fence, fact(5))
	add(fact(6) != "t", false, "encryption",
		"the connection has no TLS: set sslmode=verify-full in the dsn if it leaves the machine")
	add(fact(7) == "t", true, "notifications", "none: a pooler, such as PgBouncer, does not pass them on: a "+
		"handover takes until the next poll. Connect to the server itself for handovers in milliseconds")
	count := func(column int) int { return int(number(results[0], 0, column)) }
	return append(list, client.Connections(1, maxConns, count(11), count(10), count(9))), nil
}
