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

	"github.com/go-election/go-election/backend"
	"github.com/go-sql-driver/mysql"
)

const (
	// connLifetime makes connections follow a DNS name or proxy that has moved.
	connLifetime = 30 * time.Second

	// ioTimeout is the backstop where the user set none. Each call has a
	// deadline of its own, which is shorter.
	ioTimeout = 5 * time.Second

	// notifyWait is how long one GET_LOCK waits, in whole seconds: MySQL rounds.
	notifyWait = 10

	// notifyTimeout is the reading timeout of a notification lock's connection.
	notifyReadTimeout = (notifyWait + 5) * time.Second
)

// nameSchema is what a message about a missing name says.
const schemaHint = "user:password@tcp(host:3306)/schema in the DSN, or the option schema"

// connectors returns what makes the connections of the two pools.
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
	b.location = backend.Place(within, cmp.Or(config.Addr, "127.0.0.1:3306"))
	if o.Schema == "" {
		b.notifier.tables = strings.ToLower(config.DBName + "." + b.tables.plainLease)
	}
	for _, notifier := range []bool{false, true} {
		c := config.Clone()
		c.InterpolateParams = true
		c.CheckConnLiveness = true
		c.RejectReadOnly = false // [fail] does it, with a message
		setDefault(&c.Timeout, ioTimeout)
		setDefault(&c.WriteTimeout, ioTimeout)
		setDefault(&c.ReadTimeout, ioTimeout)
		if notifier {
			c.ReadTimeout = notifyReadTimeout
		}
		// The driver prints what goes wrong with a connection; the error says it too.
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

// dsnProblem describes the driver's error. Most of them quote pieces of the DSN,
// and where an @ or a slash is missing, the password is such a piece.
func dsnProblem(err error) string {
	if s := err.Error(); strings.HasPrefix(s, "invalid DSN:") {
		return s
	}
	return "the DSN or Config cannot be used (it is not shown, it may hold a password); the form is user:password@tcp(host:3306)/schema?tls=true"
}

// A connector makes connections whose session has no surprises left: whatever
// the server, its init_connect or the DSN say, it is set here.
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
			err = errors.New("connection lost while it was set up") // not: try again at once, for ever
		}
		return nil, err
	}
	return conn, nil
}

// prepare learns the server's dialect and pins the session.
func (c *connector) prepare(ctx context.Context, conn sqldriver.Conn) error {
	exec, ok := conn.(sqldriver.ExecerContext)
	if !ok {
		return fmt.Errorf("%w: connections of this Connector cannot execute statements directly (driver.ExecerContext)", backend.ErrInvalid)
	}
	vars, err := variables(ctx, conn)
	if is(err, errManyRows) || err == nil && vars["sql_select_limit"] != allRows { // a limit for SHOW, too
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

// variables reads those that tell one server from another. A variable that the
// server does not know is simply not there.
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

// off reads a switch; newer servers have more words than two for it.
func off(v string) bool { return v == "" || v == "0" || strings.EqualFold(v, "OFF") }

const showVariables = `SHOW VARIABLES WHERE Variable_name IN
('server_uuid', 'server_uid', 'read_only', 'tx_isolation', 'transaction_isolation', 'max_execution_time', 'max_statement_time', 'sql_select_limit')`

// unlimited undoes limits of how many rows are read. Some rows are not an answer.
const (
	unlimited = "sql_big_selects=1, sql_select_limit=" + allRows
	allRows   = "18446744073709551615"
)

// pins returns the statement that pins a session. Everything that a server, an
// init_connect or a DSN could have set otherwise and that matters is here.
//
// A statement waits a second for a lock at most, so that one whose client has
// given up is gone soon. timestamp=DEFAULT undoes a clock that was frozen. With
// completion_type=CHAIN a COMMIT begins the next transaction: what was renewed in it
// would read back on this connection, and for nobody else.
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
