package mysqltable

import (
	"cmp"
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/dsn"
)

const (
	maxConns     = 2
	connLifetime = 30 * time.Second
	ioTimeout    = 5 * time.Second
)

// sessionSettings sets the session variables that matter, whatever the server or the DSN say.
// In UTC the table's TIMESTAMPs and NOW() do not depend on the other programs' zones. A
// statement waits for a lock for one second at most. Each text names its character set, since that of the connection may be any.
const sessionSettings = `SET NAMES utf8mb4, autocommit=1, time_zone=_utf8mb4'+00:00', timestamp=DEFAULT,
 sql_mode=_utf8mb4'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',
 innodb_lock_wait_timeout=1, lock_wait_timeout=1, wait_timeout=60,
 completion_type=0, sql_safe_updates=0, sql_big_selects=1, sql_select_limit=18446744073709551615
 /*!80000 , max_execution_time=3000 */ /*M! , max_statement_time=3, tmp_disk_table_size=18446744073709551615 */`
const isolation = `SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE`

// connect makes the pool for the table, which dials when it is used. wrap may be nil.
func (t *table) connect(wrap func(sqldriver.Connector) sqldriver.Connector) error {
	config := t.options.Config
	if config == nil {
		var err error
		if config, err = driver.ParseDSN(t.options.DSN); err != nil { // mysql.Open has reported the details
			return fmt.Errorf("%w: the DSN cannot be used", backend.ErrInvalid)
		}
	}
	c := config.Clone()
	c.InterpolateParams, c.CheckConnLiveness, c.RejectReadOnly = true, true, true
	c.Logger = &driver.NopLogger{}
	for _, d := range []*time.Duration{&c.Timeout, &c.ReadTimeout, &c.WriteTimeout} {
		if *d == 0 {
			*d = ioTimeout
		}
	}
	if c.Net == "tcp" && c.DialFunc == nil {
		c.DialFunc = (&client.Dialer{Dialer: net.Dialer{Timeout: c.Timeout}}).DialContext
	}
	t.password.Set(c.Passwd)
	c.Apply(driver.BeforeConnect(func(_ context.Context, c *driver.Config) error {
		c.User, c.Passwd = dsn.Login(t.options.DSNFile, c.User, c.Passwd)
		t.password.Set(c.Passwd)
		return nil
	}))

	// Each statement names the schema, so that none depends on what a connection was told to use. mysql.Open refuses
	// a configuration that names none.
	t.options.Schema = cmp.Or(t.options.Schema, c.DBName)
	t.location = clean.Location(t.options.Schema+"/"+t.options.Table, cmp.Or(c.Addr, "127.0.0.1:3306"))
	var driverConnector sqldriver.Connector
	driverConnector, err := driver.NewConnector(c)
	if err != nil {
		return fmt.Errorf("%w: the DSN cannot be used", backend.ErrInvalid)
	}
	if wrap != nil {
		driverConnector = wrap(driverConnector)
	}
	pool := func() *sql.DB {
		db := sql.OpenDB(connector{driverConnector})
		db.SetMaxOpenConns(maxConns)
		db.SetMaxIdleConns(maxConns)
		return db
	}
	t.pools.Age, t.pools.Close = connLifetime, func(db *sql.DB) { db.Close() }
	t.pools.Open = func(ctx context.Context) (*sql.DB, error) {
		next := pool()
		err := next.PingContext(ctx)
		if err != nil {
			next.Close()
		}
		return next, err
	}
	t.pools.Set(pool())
	return nil
}

// A connector makes connections and sets their session variables.
type connector struct{ sqldriver.Connector }

func (c connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*ioTimeout)
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	exec, ok := conn.(sqldriver.ExecerContext)
	if !ok {
		conn.Close()
		return nil, errors.New("connections cannot execute statements directly")
	}
	for _, statement := range []string{sessionSettings, isolation} {
		if _, err := exec.ExecContext(ctx, statement, nil); err != nil {
			conn.Close()
			if errors.Is(err, sqldriver.ErrBadConn) {
				err = errors.New("connection lost while it was set up")
			}
			return nil, err
		}
	}
	return conn, nil
}

// Errors of the server, by number.
const (
	errDuplicate   = 1062
	errLockTimeout = 1205
	errDeadlock    = 1213
	errAutoIncr    = 167 // MariaDB: out of range
)

func is(err error, numbers ...uint16) bool {
	e, ok := errors.AsType[*driver.MySQLError](err)
	if !ok {
		return false
	}
	for _, n := range numbers {
		if e.Number == n {
			return true
		}
	}
	return false
}

// fail wraps err for the caller with the operation and the class of the error.
func (t *table) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	class := backend.Class(err)
	if is(err, 1044, 1045, 1046, 1049, 1054, 1142, 1143, 1146, 1227, 1251, 1370, 1698, 1820, 1862, 3118, 3159, 4151) {
		class = backend.ErrDenied
	}
	err = clean.Secrets(err, t.password.All()...)
	if errors.Is(err, class) {
		return fmt.Errorf("mysqltable: %s: %w", op, err)
	}
	return fmt.Errorf("mysqltable: %s: %w: %w", op, class, err)
}
