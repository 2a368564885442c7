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
	db      *sql.DB
	program *program
	o       Options
	port    int
}

// start starts a server and waits until it answers.
func start(k Kind, o Options) *Server {
	p := must(programs[k]())
	s := &Server{Daemon: newDaemon(k, p.version, o), program: p, o: o}
	check(os.CopyFS(s.data(), os.DirFS(must(p.template()))))
	s.env = append(s.env, p.env...)
	s.ready = func(ctx context.Context) error {
		db := openPool(s.AdminConfig())
		defer db.Close()
		return db.PingContext(ctx)
	}
	s.onPort(func(port int) []string {
		s.port = port
		return s.options()
	})

	s.db = openPool(s.AdminConfig())
	s.db.SetMaxIdleConns(1)
	s.close = func() { s.db.Close() }
	return s
}

// Admin returns a pool of the administrator, who has all privileges. The testbed closes it.
func (s *Server) Admin() *sql.DB { return s.db }

// AdminConfig returns the administrator's configuration.
func (s *Server) AdminConfig() *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr = "root", "tcp", s.addr
	c.TLS = s.TLSConfig() // the server's options may require TLS
	c.InterpolateParams = true
	c.Timeout = sqlLimit
	c.ReadTimeout = sqlLimit
	c.WriteTimeout = sqlLimit
	return c
}

// Exec runs statements as the administrator.
func (s *Server) Exec(t testing.TB, statements ...string) {
	t.Helper()
	execute(t, s.db, statements)
}

// options returns the command that runs the server.
func (s *Server) options() []string {
	command := append(slices.Clip(s.program.command), "--no-defaults")
	command = slices.Concat(command, s.program.options(), s.program.runs, []string{
		"--datadir=" + s.data(),
		"--socket=" + filepath.Join(s.dir, "socket"),
		"--tmpdir=" + s.dir, // MariaDB servers with the same tmpdir remove each other's files
		"--pid-file=" + filepath.Join(s.dir, "pid"),
		fmt.Sprintf("--port=%d", s.port),
		fmt.Sprintf("--server-id=%d", s.port),
		"--bind-address=127.0.0.1",
		"--skip-name-resolve",
	})
	if s.ca != nil {
		command = append(command,
			"--ssl-ca="+s.ca.file, "--ssl-cert="+s.ca.certFile, "--ssl-key="+s.ca.keyFile)
	}
	return append(command, s.o.Args...)
}

// SetArgs replaces what the test adds to the command line, for the next start.
func (s *Server) SetArgs(t testing.TB, args []string) {
	s.requireOwn(t, "SetArgs")
	s.o.Args = args
	s.command = s.options()
}
