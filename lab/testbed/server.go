package testbed

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	startLimit = 3 * time.Minute // for a busy machine; otherwise a start takes one or two seconds
	endLimit   = 2 * time.Minute
	sqlLimit   = time.Minute
)

// A Server is a database server. Its methods are for one goroutine at a time,
// except those of [Daemon] that are not, Admin, AdminConfig and Database.
type Server struct {
	*Daemon
	admin *mysql.Config
	db    *sql.DB
	hosts string // from which created users may connect

	// The rest is zero for a running server from an environment variable.
	program *program
	o       Options
	port    int
}

// start starts a server and waits until it answers.
func start(o Options) (*Server, error) {
	p, err := find(o.Kind)
	if err != nil {
		return nil, err
	}
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	if err := p.copyTemplate(filepath.Join(dir, "data")); err != nil {
		return nil, err
	}
	d := daemonOptions{kind: o.Kind, version: p.version, dir: dir, env: p.env}
	if o.TLS {
		if d.ca, err = newAuthority(dir); err != nil {
			return nil, err
		}
	}
	if o.Clock {
		var env []string
		if d.clock, env, err = newClock(o.Kind, p.faketime, dir, 0); err != nil {
			return nil, err
		}
		d.env = append(slices.Clip(d.env), env...)
	}
	s := &Server{hosts: "127.0.0.1", program: p, o: o}
	s.Daemon, err = launchOnPort(func(port int) (daemonOptions, error) {
		s.port, d.addr = port, loopback(port)
		d.command = s.command(d)
		c := &mysql.Config{User: "root", Net: "tcp", Addr: d.addr}
		if d.ca != nil {
			c.TLS = d.ca.clientConfig() // the server's options may require TLS
		}
		s.setAdmin(c)
		d.ready = s.db.PingContext
		return d, nil
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("start %s: %w", o.Kind, err)
	}
	return s, nil
}

// setAdmin takes user and address from c and replaces the administrator's pool.
func (s *Server) setAdmin(c *mysql.Config) {
	s.close()
	s.admin = mysql.NewConfig()
	s.admin.User, s.admin.Passwd, s.admin.Net, s.admin.Addr = c.User, c.Passwd, c.Net, c.Addr
	s.admin.TLS, s.admin.TLSConfig = c.TLS, c.TLSConfig
	s.admin.AllowNativePasswords = true
	s.admin.InterpolateParams = true
	s.admin.Timeout = sqlLimit
	s.admin.ReadTimeout = sqlLimit
	s.admin.WriteTimeout = sqlLimit
	s.admin.Logger = &mysql.NopLogger{} // faults break connections on purpose
	s.db = sql.OpenDB(must(mysql.NewConnector(s.admin)))
	s.db.SetMaxIdleConns(1)
}

// close closes the administrator's pool.
func (s *Server) close() {
	if s.db != nil {
		s.db.Close()
	}
}

func (s *Server) endWithTest(t testing.TB) {
	endWithTest(t, s.Daemon)
	t.Cleanup(s.close)
}

// external returns the running server that the environment names by a dsn.
func external(k Kind, dsn string) (*Server, error) {
	// Errors must not contain the DSN, which has a password.
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("%s is not a valid data source name", k.variable())
	}
	s := &Server{hosts: "%"}
	s.setAdmin(c)
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	var version string
	if err := s.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		s.close()
		return nil, fmt.Errorf("the server that %s names: %w", k.variable(), err)
	}
	if is := strings.Contains(version, "MariaDB"); is != (k == MariaDB) {
		s.close()
		return nil, fmt.Errorf("%s names a server of another kind: %s", k.variable(), version)
	}
	s.Daemon = &Daemon{options: daemonOptions{kind: k, version: version, addr: c.Addr}}
	return s, nil
}

// Admin returns a pool of connections of the administrator, who has all privileges.
// The testbed closes it.
func (s *Server) Admin() *sql.DB { return s.db }

// AdminConfig returns a copy of the administrator's configuration.
func (s *Server) AdminConfig() *mysql.Config { return s.admin.Clone() }

// Exec runs statements as the administrator.
func (s *Server) Exec(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if err := s.exec(statement); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *Server) exec(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	if _, err := s.db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %s: %w", s.Kind(), statement, err)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.Dir(), "data") }

// command returns the command that runs the server.
func (s *Server) command(d daemonOptions) []string {
	command := append(slices.Clip(s.program.command), "--no-defaults")
	command = append(command, s.program.base...)
	command = append(command, userOption()...)
	command = append(command, s.program.sizes()...)
	command = append(command,
		"--datadir="+filepath.Join(d.dir, "data"),
		"--socket="+filepath.Join(d.dir, "socket"),
		"--tmpdir="+d.dir, // MariaDB servers with the same tmpdir remove each other's files
		"--pid-file="+filepath.Join(d.dir, "pid"),
		fmt.Sprintf("--port=%d", s.port),
		fmt.Sprintf("--server-id=%d", s.port),
		"--bind-address=127.0.0.1",
		"--skip-name-resolve",
	)
	if d.kind == MySQL {
		command = append(command, "--mysqlx=OFF")
	}
	if s.o.Replication {
		command = append(command, "--log-bin=binlog", "--relay-log=relay")
		if d.kind == MySQL {
			command = append(command, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
		} else {
			command = append(command, "--log-slave-updates", "--gtid-strict-mode=ON")
		}
	}
	if d.ca != nil {
		command = append(command, "--ssl-ca="+d.ca.file("ca.pem"), "--ssl-cert="+d.ca.file("server-cert.pem"), "--ssl-key="+d.ca.file("server-key.pem"))
	}
	return append(command, s.o.Args...)
}

// setArgs replaces what the test adds to the command line, for the next start.
func (s *Server) setArgs(args []string) {
	s.o.Args = args
	s.options.command = s.command(s.options)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
