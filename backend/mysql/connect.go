package mysql

import (
	"cmp"
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

const (
	// connLifetime makes connections follow a DNS name or a proxy that has moved.
	connLifetime = 30 * time.Second

	// ioTimeout applies where the user set none. Each call has its own, shorter
	// deadline.
	ioTimeout = 5 * time.Second

	// notifyWait is how long one GET_LOCK waits, in whole seconds: MySQL rounds.
	notifyWait = 10

	// notifyReadTimeout is the read timeout of connections for notification locks.
	notifyReadTimeout = (notifyWait + 5) * time.Second
)

// schemaHint is part of an error about a missing schema name.
const schemaHint = "user:password@tcp(host:3306)/schema in the DSN, or the option schema"

// connectors returns the connectors of the two pools.
func (b *Backend) connectors(o Options) (main, notifyConns *connector, err error) {
	given := 0
	for _, set := range []bool{o.DSN != "", o.Config != nil, o.Connector != nil} {
		if set {
			given++
		}
	}
	if given != 1 {
		return nil, nil, fmt.Errorf("mysql: %w: set dsn or dsn_file, in a program exactly one of DSN, Config and Connector; %d are set", backend.ErrInvalid, given)
	}
	if o.Connector != nil {
		return &connector{o.Connector, b, false}, &connector{o.Connector, b, true}, nil
	}
	config := o.Config
	if config == nil {
		if config, err = mysql.ParseDSN(o.DSN); err != nil {
			return nil, nil, fmt.Errorf("mysql: %w: %s", backend.ErrInvalid, dsnProblem(err))
		}
	}
	if config.DBName == "" && o.Schema == "" {
		return nil, nil, fmt.Errorf("mysql: %w: no schema is named: %s", backend.ErrInvalid, schemaHint)
	}
	b.password, b.dsn = config.Passwd, login{config.User, "%", config.DBName}
	within := cmp.Or(o.Schema, config.DBName)
	if o.Prefix != "" {
		within += "/" + o.Prefix
	}
	b.location = clean.Location(within, cmp.Or(config.Addr, "127.0.0.1:3306"))
	if o.Schema == "" {
		b.notifier.tables = strings.ToLower(config.DBName + "." + b.tables.plainLease)
	}
	for _, notifier := range []bool{false, true} {
		c := config.Clone()
		c.InterpolateParams = true
		c.CheckConnLiveness = true
		c.RejectReadOnly = false // prepare and unusable detect a read-only server
		setDefault(&c.Timeout, ioTimeout)
		setDefault(&c.WriteTimeout, ioTimeout)
		setDefault(&c.ReadTimeout, ioTimeout)
		if notifier {
			c.ReadTimeout = notifyReadTimeout
		}
		// The driver would log errors of connections, which are returned as well.
		c.Logger = &mysql.NopLogger{}
		inner, err := mysql.NewConnector(c)
		if err != nil {
			return nil, nil, fmt.Errorf("mysql: %w: %s", backend.ErrInvalid, dsnProblem(err))
		}
		if notifier {
			notifyConns = &connector{inner, b, true}
		} else {
			main = &connector{inner, b, false}
		}
	}
	return main, notifyConns, nil
}

func setDefault(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

// dsnProblem describes the driver's error without the password. Most of its errors quote
// parts of the DSN, which include the password if an @ or a slash is missing.
func dsnProblem(err error) string {
	if s := err.Error(); strings.HasPrefix(s, "invalid DSN:") {
		return s
	}
	return "the DSN or Config cannot be used (it is not shown, it may hold a password); the form is user:password@tcp(host:3306)/schema?tls=true"
}

// A connector makes connections and sets all session variables that matter, whatever the
// server, its init_connect or the DSN say.
type connector struct {
	sqldriver.Connector
	backend *Backend
	notify  bool
}

func (c *connector) Connect(ctx context.Context) (sqldriver.Conn, error) {
	// database/sql may call this with a context that never ends.
	ctx, cancel := context.WithTimeout(ctx, 2*ioTimeout)
	defer cancel()
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.prepare(ctx, conn); err != nil {
		conn.Close()
		if errors.Is(err, sqldriver.ErrBadConn) {
			err = errors.New("connection lost while it was set up") // ErrBadConn would make database/sql try again at once
		}
		return nil, err
	}
	return conn, nil
}

// prepare detects the server's dialect and sets the session variables.
func (c *connector) prepare(ctx context.Context, conn sqldriver.Conn) error {
	exec, ok := conn.(sqldriver.ExecerContext)
	if !ok {
		return fmt.Errorf("%w: connections of this Connector cannot execute statements directly (driver.ExecerContext)", backend.ErrInvalid)
	}
	vars, err := variables(ctx, conn)
	if is(err, errManyRows) || err == nil && vars["sql_select_limit"] != allRows { // the limit applies to SHOW too
		if _, err = exec.ExecContext(ctx, "SET "+unlimited, nil); err == nil {
			vars, err = variables(ctx, conn)
		}
	}
	if err != nil {
		return err
	}
	if !off(vars["read_only"]) {
		return errReadOnly
	}
	if _, err := exec.ExecContext(ctx, sessionSettings(vars, c.notify), nil); err != nil {
		return err
	}
	d := dialect(vars)
	if old := c.backend.statements.Load(); old == nil || old.identity != d {
		c.backend.statements.Store(newStatements(c.backend.tables, d))
	}
	return nil
}

// variables reads the variables that tell servers and dialects apart. A variable that the
// server does not know is absent.
func variables(ctx context.Context, conn sqldriver.Conn) (map[string]string, error) {
	query, ok := conn.(sqldriver.QueryerContext)
	if !ok {
		return nil, fmt.Errorf("%w: connections of this Connector cannot query directly (driver.QueryerContext)", backend.ErrInvalid)
	}
	rows, err := query.QueryContext(ctx, showVariables, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	vars := make(map[string]string)
	values := make([]sqldriver.Value, len(rows.Columns()))
	if len(values) != 2 {
		return nil, fmt.Errorf("SHOW VARIABLES has %d columns", len(values))
	}
	for {
		switch err := rows.Next(values); err {
		case nil:
			vars[strings.ToLower(text(values[0]))] = text(values[1])
		case io.EOF:
			return vars, nil
		default:
			return nil, err
		}
	}
}

func text(v sqldriver.Value) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case string:
		return v
	}
	return fmt.Sprint(v)
}

// off reports whether a switch is off; newer servers have more than two values for it.
func off(v string) bool { return v == "" || v == "0" || strings.EqualFold(v, "OFF") }

const showVariables = `SHOW VARIABLES WHERE Variable_name IN
('server_uuid', 'server_uid', 'read_only', 'tx_isolation', 'transaction_isolation', 'max_execution_time', 'max_statement_time', 'sql_select_limit')`

// unlimited removes limits on how many rows a SELECT returns: a part of the rows would be
// a wrong answer.
const (
	unlimited = "sql_big_selects=1, sql_select_limit=" + allRows
	allRows   = "18446744073709551615"
)

// sessionSettings returns the statement that sets all session variables that matter. See
// docs/design/mysql.md, "Connections and sessions".
//
// A statement waits for a lock for one second at most, so that it ends soon after its client
// has given up. timestamp=DEFAULT undoes a frozen clock. With completion_type=CHAIN a COMMIT
// begins the next transaction, and no other process would see a renewal in it.
func sessionSettings(vars map[string]string, notify bool) string {
	set := []string{
		"NAMES utf8mb4", "autocommit=1", "time_zone='+00:00'", "timestamp=DEFAULT",
		"sql_mode='STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"innodb_lock_wait_timeout=1", "lock_wait_timeout=1",
		"completion_type='NO_CHAIN'", "sql_safe_updates=0", unlimited,
	}
	if _, ok := vars["transaction_isolation"]; ok {
		set = append(set, "transaction_isolation='READ-COMMITTED'", "transaction_read_only=0")
	} else {
		set = append(set, "tx_isolation='READ-COMMITTED'", "tx_read_only=0") // MariaDB before 11.1
	}
	// A limit would make GET_LOCK fail (MySQL, 3024) or return NULL (MariaDB).
	limit := 3
	if notify {
		limit = 0
		set = append(set, "wait_timeout=28800")
	} else {
		set = append(set, "wait_timeout=60")
	}
	if _, ok := vars["max_execution_time"]; ok {
		set = append(set, fmt.Sprintf("max_execution_time=%d", 1000*limit)) // MySQL: SELECT only, milliseconds
	}
	if _, ok := vars["max_statement_time"]; ok {
		set = append(set, fmt.Sprintf("max_statement_time=%d", limit)) // MariaDB: all statements, seconds
	}
	return "SET " + strings.Join(set, ", ")
}
