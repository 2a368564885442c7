package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

const (
	maxConns     = 3                // of one Backend, besides one that waits: one, unless that is slow
	minPool      = 2                // of the program's pool: one is kept, and another one waits
	connLifetime = 30 * time.Second // those of calls follow a DNS name or a proxy that has moved
	ioTimeout    = 5 * time.Second  // where the user set none; each call has its own, shorter deadline
	loginLimit   = 15 * time.Second // for an answer: a server looks up the client's name before the first
	schemaHint   = "user:password@tcp(host:3306)/schema in the DSN, or the option schema"
)

// openPool makes the pool, which dials when it is used.
func (d *driver) openPool(o Options) (err error) {
	d.conns.Age, d.conns.Most, d.conns.Open, d.conns.Close = connLifetime, maxConns, d.openForCall, conn.drop
	if o.DB != nil {
		d.db = o.DB
		if most := o.DB.Stats().MaxOpenConnections; most > 0 && most < minPool {
			return fmt.Errorf("the DB may open %d connections; it needs %d, since one is kept", most, minPool)
		}
		return nil
	}
	config := o.Config
	if config == nil {
		if config, err = parse(o.DSN); err != nil {
			return dsnError(err)
		}
	}
	if d.Table.Schema = cmp.Or(o.Schema, config.DBName); d.Table.Schema == "" {
		return errors.New("no schema is named: " + schemaHint)
	}
	d.Password.Set(config.Passwd)
	c := config.Clone()
	c.Timeout, c.WriteTimeout = cmp.Or(c.Timeout, ioTimeout), cmp.Or(c.WriteTimeout, ioTimeout)
	c.ReadTimeout = max(c.ReadTimeout, loginLimit)
	if c.Net = cmp.Or(c.Net, "tcp"); c.Net == "tcp" {
		one := strings.NewReplacer("[[", "[", "]]", "]") // the driver makes [[::1]]:3306 of [::1]
		var ok bool
		if c.Addr, _, ok = client.HostPort(cmp.Or(one.Replace(c.Addr), "127.0.0.1"), "3306"); !ok {
			return errors.New("the address of the server is not host:port, with a port of 1 to 65535")
		}
		if c.DialFunc == nil {
			c.DialFunc = (&client.Dialer{Greeting: greeting}).DialContext
		}
	}
	d.Location = clean.Location(d.Table.Schema+"/"+d.Table.Prefix, c.Addr)
	c.MultiStatements, c.InterpolateParams = true, true
	c.RejectReadOnly = false      // reading detects a read-only server
	c.MaxAllowedPacket = 64 << 20 // no message is as large as a server's limit
	c.Logger = &d.alert           // of errors of connections, most of which are returned as well
	if !strings.Contains(c.ConnectionAttributes, "program_name:") {
		c.ConnectionAttributes = strings.Trim(c.ConnectionAttributes+",program_name:"+client.Name(), ",")
	}
	c.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
		content, err := os.ReadFile(o.DSNFile)
		if now, bad := parse(string(content)); err == nil && bad == nil { // or somebody is writing the file
			c.User, c.Passwd = now.User, now.Passwd
		}
		d.Password.Set(c.Passwd)
		return nil
	}))
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return dsnError(err)
	}
	d.db, d.ownDB = sql.OpenDB(connector), true
	return nil
}

// parse reads a DSN. The driver panics at a parameter of its first versions.
func parse(dsn string) (c *mysql.Config, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("invalid DSN: the parameter strict is no longer supported")
		}
	}()
	return mysql.ParseDSN(strings.TrimSpace(dsn))
}

// dsnError is an error of the driver without the password. Most of its errors quote parts of the DSN, which
// include the password if an @ or a slash is missing.
func dsnError(err error) error {
	if strings.HasPrefix(err.Error(), "invalid DSN:") {
		return err
	}
	return errors.New("the DSN or Config cannot be used (it is not shown, it may hold a password); " +
		"the form is user:password@tcp(host:3306)/schema?tls=true")
}

// A conn is a connection whose session is set up. It never goes back to a pool of the user's.
type conn struct{ *sql.Conn }

func (c conn) drop() { client.DropConn(c.Conn) }

// An alert is why there is no connection, where the driver only logs it: it was closed, what answers is no
// server, or that has refused the certificate of this process, which with TLS 1.3 comes after the handshake.
type alert struct{ atomic.Pointer[error] }

// Print implements [mysql.Logger].
func (a *alert) Print(v ...any) {
	if err, ok := v[len(v)-1].(error); ok && (isDenied(err) || a.Load() == nil) {
		a.Store(&err)
	}
}

// greeting returns an error if a server does not begin like this: a length, sequence 0, and version 10 or an
// error. The driver panics at the few bytes with which the X protocol begins.
func greeting(b []byte) error {
	if len(b) > 4 && (b[3] != 0 || b[4] != 255 && (b[4] != 10 || int(b[0])+int(b[1])<<8 < 33)) {
		return errGreeting
	}
	return nil
}

// open returns a new connection, which is set up for calls, or to wait for notifications.
func (d *driver) open(ctx context.Context, waits bool) (c conn, err error) {
	d.alert.Store(nil) // what connections have said that are open
	if c.Conn, err = d.db.Conn(ctx); err != nil {
		if why := d.alert.Swap(nil); why != nil && (isDenied(*why) || errors.Is(err, mysql.ErrInvalidConn)) {
			err = fmt.Errorf("%w: %w", err, *why)
		}
		return c, err
	}
	err = d.setUp(ctx, c, waits)
	if err == nil && !d.ownDB {
		err = d.reset(ctx, c)
	}
	if err != nil {
		c.drop()
	}
	return c, err
}

// openForCall opens a connection for calls. If the server has no place, the one that waits gives up its own.
func (d *driver) openForCall(ctx context.Context) (conn, error) {
	c, err := d.open(ctx, false)
	for gave := false; isFull(err) && (gave || d.notifier.giveWay()); gave = true {
		if !client.Pause(ctx, 200*time.Millisecond) { // it takes the server a moment to see that
			return c, err
		}
		c, err = d.open(ctx, false)
	}
	return c, err
}

// setUp sets up the session of a connection in one message. One that waits has no limit of the running time,
// which would make GET_LOCK fail (MySQL, 3024) or return NULL (MariaDB).
func (d *driver) setUp(ctx context.Context, c conn, waits bool) error {
	limit, slow := 3, 0
	if waits {
		limit, slow = 0, 31536000 // or the log of slow statements has each wait
	}
	texts := []string{endTransactionSQL, fmt.Sprintf(sessionSQL, slow, limit*1000, limit), uidSQL}
	if schema := d.Settled().Schema; schema != "" {
		texts = append(texts, "USE "+relational.Quoted(schema, "`")) // or MySQL evaluates no JSON_TABLE
	}
	_, err := c.rows(ctx, texts...)
	if !d.ownDB && is(err, errSyntax) {
		err = fmt.Errorf("%w: the DB must be opened with multiStatements=true, "+
			"since a change is one message: %v", backend.ErrDenied, err)
	}
	return err
}

// endTransactionSQL ends what the program has left open on a connection of its pool, before anything else:
// the snapshot is old, and autocommit=1 would commit it.
const endTransactionSQL = "ROLLBACK AND NO CHAIN NO RELEASE;\nUNLOCK TABLES"

// sessionSQL sets all session variables that matter, whatever the server, its init_connect or the DSN say:
// see docs/design/mysql.md, "Connections". A statement waits for a lock for a second at most, so that it ends
// soon after its client has given up. A leader with the greatest TTL is silent for 100 s (wait_timeout). Each
// text names its character set, since that of the connection may be any. Hints depend on English errors.
const sessionSQL = `SET NAMES utf8mb4, lc_messages=_utf8mb4'en_US', autocommit=1, time_zone=_utf8mb4'+00:00',
 timestamp=DEFAULT, completion_type=0,
 sql_mode=_utf8mb4'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
 innodb_lock_wait_timeout=1, lock_wait_timeout=1, wait_timeout=300,
 sql_safe_updates=0, sql_big_selects=1, sql_select_limit=18446744073709551615,
 long_query_time=GREATEST(@@long_query_time, %d)
 /*!80000 , transaction_isolation=_utf8mb4'READ-COMMITTED', transaction_read_only=0, max_execution_time=%d */
 /*M! , tx_isolation=_utf8mb4'READ-COMMITTED', tx_read_only=0, max_statement_time=%d,
 tmp_disk_table_size=18446744073709551615 */`

// query sends statements in one message, so that the server never waits for this process while it holds a
// lock, and returns all rows. A second copy has no effect ([client.Send]): all changes are conditional.
func (d *driver) query(ctx context.Context, statements ...string) ([][][]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if by, ok := ctx.Deadline(); ok {
		defer time.AfterFunc(time.Until(by)/3, func() { // when client.Send would send a copy, too
			if d.blocked(ctx) {
				cancel(errBlocked)
			}
		}).Stop()
	}

	sendCopy := func(within context.Context, c conn) (rows [][][]byte, broken bool, err error) {
		rows, err = c.rows(within, statements...)
		return rows, err != nil, err
	}
	isFinal := func(err error) bool { // another connection would answer the same
		return code(err) != 0 && !is(err, readOnly...) && !is(err, errInterrupted) || isDenied(err)
	}
	rows, err := client.Send(ctx, d.Context, &d.conns, sendCopy, isFinal)
	switch {
	case is(err, errLockTimeout) || errors.Is(err, errBlocked):
		return nil, fmt.Errorf("%w: another session keeps the table %s, or rows of it, locked; "+
			"an administrator can find it by SHOW PROCESSLIST: %w", backend.ErrUnavailable, d.Settled(), err)
	case err != nil && ctx.Err() != nil && !d.ownDB: // the program's pool may have no connection left
		s := d.db.Stats()
		return nil, client.PoolBusy(s.InUse, s.MaxOpenConnections, err)
	}
	return rows, err
}

// Query sends statements about another table in one message, for package mysqltable, and returns all rows.
// The session is in UTC, in strict mode, and at READ COMMITTED. A message may arrive twice, and must do
// nothing then.
func (b *Backend) Query(ctx context.Context, statements ...string) ([][][]byte, error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	if _, err := b.driver.Place(ctx); err != nil { // the schema in which connections are
		return nil, b.driver.Fail(err)
	}
	rows, err := b.driver.query(ctx, statements...)
	return rows, b.driver.FailWith(err, nil)
}

var errBlocked = errors.New("a statement waits")

// blocked reports whether a statement of this account waits for the table, or for a backup's lock, also to
// commit. It asks on a connection beside the one that may wait.
func (d *driver) blocked(ctx context.Context) bool {
	c, err := d.conns.Take(ctx, true)
	if err != nil {
		return false
	}
	within, cancel := context.WithTimeout(d.Context, 2*time.Second) // it may outlast the call, as all do
	defer cancel()
	rows, err := c.C.rows(within, `SELECT 1 FROM information_schema.PROCESSLIST
 WHERE STATE LIKE 'Waiting for % lock' AND (INFO LIKE '%`+d.Table.Prefix+`\_item%' OR INFO = 'COMMIT')
 AND ID <> CONNECTION_ID() LIMIT 1`)
	d.conns.Give(c, err != nil)
	return err == nil && len(rows) > 0
}

// rows sends statements in one message, and reads all results.
func (c conn) rows(ctx context.Context, statements ...string) (all [][][]byte, err error) {
	rows, err := c.QueryContext(ctx, strings.Join(statements, ";\n"))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for more := true; more; more = rows.NextResultSet() {
		columns, err := rows.Columns()
		for err == nil && rows.Next() {
			row, into := make([][]byte, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			err = rows.Scan(into...)
			all = append(all, row)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, rows.Err()
}
