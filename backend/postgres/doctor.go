package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

var (
	_ backend.Inspector   = (*Backend)(nil)
	_ backend.Preflighter = (*Backend)(nil)
	_ backend.Preparer    = (*Backend)(nil)
)

// Preflight implements [backend.Preflighter]. It sends a change whose condition is never met: the
// server checks the rights first.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	err := b.Enter(bids[0].Candidate.Nonce)
	if err == nil {
		err = b.driver.preflight(ctx)
	}
	errs := make([]error, len(bids))
	for i := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("postgres: preflight %q: %w", bids[i].Election, err)
		}
	}
	return errs
}

func (d *driver) preflight(ctx context.Context) error {
	v, err := d.Read(ctx, nil)
	if err != nil {
		return err
	}
	never := lease.Item{Key: lease.Key{Kind: lease.Sessions, Name: "preflight"}, Version: "none"}
	w, err := d.Write(ctx, v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{{Over: never, Value: &lease.Session{}}}}}, nil)
	if err == nil {
		err = w.Results[0].Err
	}
	return err
}

// inspectSQL also fails as every call would, if the table is missing or must not be read.
const inspectSQL = `SELECT FROM %s LIMIT 0;
SELECT current_setting('server_version'), getdatabaseencoding(), current_setting('fsync'), current_setting('full_page_writes'),
 current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication), current_setting('max_connections'),
 (1000000 * extract(epoch FROM clock_timestamp()))::bigint, coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)`

// Inspect implements [backend.Inspector]. It reads the settings of the server that matter for leases.
func (b *Backend) Inspect(ctx context.Context, ttl, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	d := b.driver
	began := time.Now()
	results, err := d.exec(ctx, fmt.Sprintf(inspectSQL, d.table))
	if err != nil {
		return nil, fmt.Errorf("postgres: inspect: %w", d.fail(err))
	}
	list := diagnostics(results[1], began, time.Since(began))
	if ttl > d.maxTTL {
		refused := clean.Diagnosticf(true, "greatest TTL", "every bid is refused: the TTL is %v, and max_ttl %v", ttl, d.maxTTL)
		refused.Fatal = true
		list = append(list, refused)
	} else {
		list = append(list, clean.Diagnosticf(false, "greatest TTL", "%v; after a failover every lease is observed for that long", d.maxTTL))
	}
	pooled := false
	if err := d.withConn(ctx, func(c *pgx.Conn) (err error) {
		pooled, err = behindPooler(ctx, c)
		return err
	}); err != nil {
		return list, fmt.Errorf("postgres: inspect: %w", d.fail(err))
	}
	if pooled {
		list = append(list, clean.Diagnosticf(true, "notifications", "none: the connection leads to a pooler, such as PgBouncer, which does not pass them on. A handover takes until the next poll. Elections work; connect to the server itself for handovers in milliseconds"))
	}
	return list, nil
}

// diagnostics explains the settings of a server.
func diagnostics(r *pgconn.Result, began time.Time, trip time.Duration) (list []backend.Diagnostic) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	add(false, "server", "PostgreSQL %s", text(r, 0, 0))
	if encoding := text(r, 0, 1); encoding != "UTF8" {
		add(true, "encoding", "that of the database is %s, which cannot keep every name: it must be UTF8", encoding)
	}
	if text(r, 0, 2) != "on" || text(r, 0, 3) != "on" {
		add(true, "durability", "fsync is %s and full_page_writes %s: a crash of the machine may lose or damage what was acknowledged, without a new timeline, so that two processes may lead. Set both to on", text(r, 0, 2), text(r, 0, 3))
	} else {
		add(false, "durability", "each commit is flushed: synchronous_commit is at least on for each transaction of leases")
	}
	switch names, standbys := text(r, 0, 4), text(r, 0, 5); {
	case names != "":
		add(false, "replication", "synchronous (%s): a failover to such a standby loses nothing. Fence off the old primary before a new one is promoted", names)
	case standbys != "0":
		add(false, "replication", "%s standbys, asynchronous: a failover may lose the last grants, which costs the greatest TTL without a leader. Fence off the old primary before a new one is promoted", standbys)
	default:
		add(false, "replication", "none")
	}
	add(false, "connections", "max_connections is %s; each process uses up to %d and one that listens", text(r, 0, 6), maxConns)
	ahead := time.UnixMicro(int64(number(r, 0, 7))).Sub(began.Add(trip / 2)).Round(time.Millisecond)
	add(ahead.Abs() > 10*time.Second, "clock", "the server's is %v ahead of this machine's, give or take %v; it decides nothing", ahead, trip.Round(time.Millisecond))
	if text(r, 0, 8) != "t" {
		add(false, "encryption", "the connection has no TLS: set sslmode=verify-full in the dsn if it leaves the machine")
	}
	return list
}
