package testbed

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	admin   *mysql.Config
	db      *sql.DB
	program *program
	o       Options
	port    int
}

// start starts a server and waits until it answers.
func start(o Options) *Server {
	p := must(programs[o.Kind]())
	d := prepare(o.Kind, p.version, o.TLS)
	check(os.CopyFS(filepath.Join(d.dir, "data"), os.DirFS(must(p.template()))))
	d.env = p.env
	if o.Clock {
		d.setClock(p.faketime, 0)
	}
	root := func(d *Daemon) *mysql.Config {
		return administrator(&mysql.Config{User: "root", Net: "tcp", Addr: d.Addr(), TLS: d.TLSConfig()}) // the server's options may require TLS
	}
	d.ready = func(ctx context.Context, d *Daemon) error {
		db := openPool(root(d))
		defer db.Close()
		return db.PingContext(ctx)
	}
	s := &Server{program: p, o: o}
	s.Daemon = launchOnPort(func(port int) daemonOptions {
		s.port, d.addr = port, loopback(port)
		d.command = s.command(d)
		return d
	})
	s.administrate(root(s.Daemon))
	return s
}

// administrator is the configuration of the administrator, with user and address from c.
func administrator(c *mysql.Config) *mysql.Config {
	admin := mysql.NewConfig()
	admin.User, admin.Passwd, admin.Net, admin.Addr = c.User, c.Passwd, c.Net, c.Addr
	admin.TLS, admin.TLSConfig = c.TLS, c.TLSConfig
	admin.AllowNativePasswords = true
	admin.InterpolateParams = true
	admin.Timeout = sqlLimit
	admin.ReadTimeout = sqlLimit
	admin.WriteTimeout = sqlLimit
	return admin
}

// administrate opens the administrator's pool.
func (s *Server) administrate(c *mysql.Config) {
	s.admin, s.db = c, openPool(c)
	s.db.SetMaxIdleConns(1)
	s.close = func() { s.db.Close() }
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
		noError(t, s.exec(statement))
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

// SetArgs replaces what the test adds to the command line, for the next start.
func (s *Server) SetArgs(t testing.TB, args []string) {
	s.requireOwn(t, "SetArgs")
	s.o.Args = args
	s.options.command = s.command(s.options)
}
