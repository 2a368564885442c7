package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
)

const (
	maxConns     = 3                // of one Backend, besides one for notifications: one, unless that is slow
	minPool      = 2                // of the program's pool: one is kept, and one waits while others do not need it
	connLifetime = 30 * time.Second // connections follow a DNS name or a proxy that has moved
	ioTimeout    = 5 * time.Second  // where the user set none; each call has its own, shorter deadline
	loginLimit   = 15 * time.Second // for an answer, if the user set less: a server looks up the client's name before its first one
)

// schemaHint is part of an error about a missing schema name.
const schemaHint = "user:password@tcp(host:3306)/schema in the DSN, or the option schema"

// openPool makes the pool, which dials when it is used.
func (d *driver) openPool(o Options) (err error) {
	d.conns.Age, d.conns.Most, d.conns.Open, d.conns.Close = connLifetime, maxConns, d.openForCall, conn.drop
	switch {
	case o.DB != nil:
		d.db = o.DB
		if most := o.DB.Stats().MaxOpenConnections; most > 0 && most < minPool {
			return fmt.Errorf("the DB may open %d connections; it must be at least %d, since one is kept", most, minPool)
		}
		return nil
	case o.Connector != nil:
		d.db, d.ownDB = sql.OpenDB(o.Connector), true
		return nil
	}
	config := o.Config
	if config == nil {
		if config, err = mysql.ParseDSN(strings.TrimSpace(o.DSN)); err != nil {
			return errors.New(dsnProblem(err))
		}
	}
	if d.Table.Schema = cmp.Or(o.Schema, config.DBName); d.Table.Schema == "" {
		return fmt.Errorf("no schema is named: %s", schemaHint)
	}
	d.Password.Set(config.Passwd)
	d.dsn = login{user: config.User, host: "%", schema: config.DBName}
	c := config.Clone()
	if c.Net == "tcp" {
		c.Addr = withPort(cmp.Or(c.Addr, "127.0.0.1"))
	}
	d.location = clean.Location(d.Table.Schema+"/"+d.Table.Prefix, cmp.Or(c.Addr, "127.0.0.1:3306"))
	c.MultiStatements, c.InterpolateParams, c.RejectReadOnly = true, true, false // reading detects a read-only server
	c.Timeout, c.ReadTimeout, c.WriteTimeout = cmp.Or(c.Timeout, ioTimeout), max(c.ReadTimeout, loginLimit), cmp.Or(c.WriteTimeout, ioTimeout)
	c.MaxAllowedPacket = 64 << 20 // no message is as large as a server's limit
	c.Logger = &mysql.NopLogger{} // it would log errors of connections, which are returned as well
	if !strings.Contains(c.ConnectionAttributes, "program_name:") {
		c.ConnectionAttributes = strings.TrimPrefix(c.ConnectionAttributes+",program_name:"+client.Name(), ",")
	}
	c.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
		c.User, c.Passwd = reread(o.DSNFile, c.User, c.Passwd)
		d.Password.Set(c.Passwd)
		return nil
	}))
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return errors.New(dsnProblem(err))
	}
	d.db, d.ownDB = sql.OpenDB(connector), true
	return nil
}

// reread returns user and password of the DSN in a file, where somebody may have replaced them: those of before if there is
// no such file, or no DSN in it, as while it is being written.
func reread(file, user, password string) (nowUser, nowPassword string) {
	content, err := os.ReadFile(file)
	if err != nil {
		return user, password
	}
	c, err := mysql.ParseDSN(strings.TrimSpace(string(content)))
	if err != nil {
		return user, password
	}
	return c.User, c.Passwd
}

// withPort returns an address with its port. The driver makes [[::1]]:3306 of [::1], which leads nowhere.
func withPort(address string) string {
	host, port, err := net.SplitHostPort(strings.NewReplacer("[[", "[", "]]", "]").Replace(address))
	if err != nil {
		host, port = strings.Trim(address, "[]"), "3306"
	}
	return net.JoinHostPort(host, port)
}

// dsnProblem describes the driver's error without the password. Most of its errors quote
// parts of the DSN, which include the password if an @ or a slash is missing.
func dsnProblem(err error) string {
	if s := err.Error(); strings.HasPrefix(s, "invalid DSN:") {
		return s
	}
	return "the DSN or Config cannot be used (it is not shown, it may hold a password); the form is user:password@tcp(host:3306)/schema?tls=true"
}

// A conn is a connection whose session is set up. It never goes back to a pool of the user's. The zero
// value is none.
type conn struct{ *sql.Conn }

func (c conn) drop() {
	if c.Conn != nil {
		client.DropConn(c.Conn)
	}
}

// open returns a new connection. One that waits for notifications has no limit of the running time, which would make
// GET_LOCK fail (MySQL, 3024) or return NULL (MariaDB).
func (d *driver) open(ctx context.Context, waits bool) (c conn, err error) {
	if c.Conn, err = d.db.Conn(ctx); err != nil {
		return c, err
	}
	if !d.ownDB {
		err = c.endTransaction(ctx)
	}
	if err == nil {
		err = c.setUp(ctx, waits)
	}
	if err == nil && !d.ownDB {
		err = d.untold(ctx, c)
	}
	schema := d.Settled().Schema
	if err == nil && schema != d.dsn.schema {
		_, err = c.ExecContext(ctx, "USE "+quoted(schema)) // MySQL evaluates JSON_TABLE only if some schema is selected
	}
	if err == nil {
		err = d.learn(ctx, c)
	}
	if err != nil {
		c.drop()
	}
	return c, err
}

// setUp sets up the session of a connection that waits for notifications, or of one for calls.
func (c conn) setUp(ctx context.Context, waits bool) error {
	limit := 3
	if waits {
		limit = 0
	}
	_, err := c.ExecContext(ctx, fmt.Sprintf(sessionSQL, limit*1000, limit))
	return err
}

// sessionSQL sets all session variables that matter, whatever the server, its init_connect or the DSN say.
// See docs/design/mysql.md, "Connections". A statement waits for a lock for a second at most, so that it ends
// soon after its client has given up. timestamp=DEFAULT undoes a frozen clock. A transaction that a client
// leaves open ends with its connection. Each text names its character set, since that of the connection may be any.
const sessionSQL = `SET NAMES utf8mb4, autocommit=1, time_zone=_utf8mb4'+00:00', timestamp=DEFAULT, completion_type=0,
 sql_mode=_utf8mb4'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', innodb_lock_wait_timeout=1, lock_wait_timeout=1, wait_timeout=60,
 sql_safe_updates=0, sql_big_selects=1, sql_select_limit=18446744073709551615 /*!80000 , transaction_isolation=_utf8mb4'READ-COMMITTED', transaction_read_only=0, max_execution_time=%d */
 /*M! , tx_isolation=_utf8mb4'READ-COMMITTED', tx_read_only=0, max_statement_time=%d, tmp_disk_table_size=18446744073709551615 */`

// learn asks what depends on the server and on the program's connections.
func (d *driver) learn(ctx context.Context, c conn) error {
	var name, value string
	err := c.QueryRowContext(ctx, "SHOW VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid')").Scan(&name, &value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	expression := identity(map[string]string{strings.ToLower(name): value})
	d.identity.Store(&expression)
	if d.oneStatement.Load() == nil {
		_, err = c.ExecContext(ctx, "DO 0; DO 0")
		single := is(err, errSyntax)
		if err != nil && !single {
			return err
		}
		d.oneStatement.Store(&single)
	}
	return nil
}

// query sends statements in one message, and returns the rows of all results. The server has the whole
// message before it begins, so it never waits for this process while it holds a lock. A message is sent
// again on another connection if the first one does not answer or breaks, or if a late notification has ended it: all
// changes are conditional, so that a second copy has no effect.
func (d *driver) query(ctx context.Context, statements func() []string) (rows [][][]byte, err error) {
	for tries := 3; tries > 0; tries-- { // each has its part of the time that is left
		within, cancel := ctx, context.CancelFunc(func() {})
		if by, ok := ctx.Deadline(); ok && tries > 1 {
			within, cancel = context.WithTimeout(ctx, time.Until(by)/time.Duration(tries))
		}
		rows, err = d.queryOnce(within, tries < 3, statements)
		cancel()
		if is(err, errLockTimeout) || tries > 1 && errors.Is(err, context.DeadlineExceeded) && d.waits(ctx, tries-1) {
			return nil, fmt.Errorf("%w: another session keeps the table %s, or rows of it, locked; an administrator can find it by SHOW PROCESSLIST: %w", backend.ErrUnavailable, d.Settled(), err)
		}
		if err == nil || code(err) != 0 && !is(err, readOnly...) && !is(err, errInterrupted) || d.Denied(err) {
			break
		}
	}
	return rows, err
}

// waits reports whether a statement of this account waits for the table. It takes a part of the time that is left.
func (d *driver) waits(ctx context.Context, parts int) bool {
	if by, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(by)/time.Duration(parts))
		defer cancel()
	}
	rows, err := d.queryOnce(ctx, true, func() []string {
		return []string{"SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table % lock' AND INFO LIKE '%" + d.Table.Prefix + "\\_item%' AND ID <> CONNECTION_ID() LIMIT 1"}
	})
	return err == nil && len(rows) > 0
}

// queryOnce sends statements once. A copy does not wait for the connection of another call.
func (d *driver) queryOnce(ctx context.Context, copy bool, statements func() []string) (rows [][][]byte, err error) {
	c, err := d.conns.Take(ctx, copy)
	if err != nil {
		return nil, d.outOfTime(ctx, err)
	}
	texts := statements()
	if !*d.oneStatement.Load() {
		texts = []string{strings.Join(texts, ";\n")}
	} else if len(texts) > 1 { // a process that is stopped between two of them delays others for this long at most
		texts = slices.Concat([]string{"SET SESSION wait_timeout = 2"}, texts, []string{"SET SESSION wait_timeout = 60"})
	}
	for _, text := range texts {
		more, err := c.C.rows(ctx, text)
		if err != nil {
			if is(err, errNoTable) || is(err, rights...) {
				err = d.denied(ctx, c.C, err)
			}
			d.conns.Give(c, true)
			return nil, err
		}
		rows = append(rows, more...)
	}
	d.conns.Give(c, false)
	return rows, nil
}

// outOfTime completes the error of a call that has found no connection: the program's pool may have none left.
func (d *driver) outOfTime(ctx context.Context, err error) error {
	if ctx.Err() == nil || d.ownDB {
		return err
	}
	s := d.db.Stats()
	return client.PoolBusy(s.InUse, s.MaxOpenConnections, err)
}

// rows sends a text and reads all results.
func (c conn) rows(ctx context.Context, text string) (all [][][]byte, err error) {
	rows, err := c.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		columns, err := rows.Columns()
		if err != nil {
			return nil, err
		}
		cells, into := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return nil, err
			}
			all = append(all, lasting(cells))
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return all, rows.Err()
}

// lasting returns a row that outlives the reading of the next one.
func lasting(cells []sql.RawBytes) [][]byte {
	size := 0
	for _, c := range cells {
		size += len(c)
	}
	row, all := make([][]byte, len(cells)), make([]byte, 0, size)
	for i, c := range cells {
		if c != nil {
			all = append(all, c...)
			row[i] = all[len(all)-len(c):]
		}
	}
	return row
}
