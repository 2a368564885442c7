package testbed

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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
// except Addr, Admin, AdminConfig, Database, Kind and Version.
type Server struct {
	kind    Kind
	version string
	addr    string
	admin   *mysql.Config
	db      *sql.DB
	hosts   string // from which created users may connect

	shared bool // Shared returned it, so it refuses faults

	// The rest is zero for a running server from an environment variable.
	program *program
	options Options
	dir     string
	port    int
	ca      *authority
	offset  time.Duration // of its clock

	mu      sync.Mutex
	process *process
}

// start starts a server and waits until it answers.
func start(o Options) (*Server, error) {
	p, err := find(o.Kind)
	if err != nil {
		return nil, err
	}
	if o.Clock && p.faketime == "" {
		return nil, &missing{o.Kind, "libfaketime for " + string(o.Kind), "Debian: libfaketime"}
	}
	root, err := scratch()
	if err != nil {
		return nil, err
	}
	// Socket paths are limited to about a hundred bytes, so names are short.
	dir, err := os.MkdirTemp(root, "")
	if err != nil {
		return nil, err
	}
	s := &Server{kind: o.Kind, version: p.version, hosts: "127.0.0.1", program: p, options: o, dir: dir}
	if err := s.firstStart(); err != nil {
		s.stop()
		return nil, fmt.Errorf("start %s: %w", o.Kind, err)
	}
	return s, nil
}

// firstStart starts a new server. It tries another port if the first one is taken.
func (s *Server) firstStart() error {
	if err := s.program.copyTemplate(s.data()); err != nil {
		return err
	}
	if s.options.TLS {
		var err error
		if s.ca, err = newAuthority(s.dir); err != nil {
			return err
		}
	}
	if s.options.Clock {
		if err := s.writeClock(); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.setPort(port)
		err = s.run()
		if err == nil || try == 5 || !strings.Contains(s.logTail(), "ddress already in use") {
			return err
		}
		os.Truncate(s.log(), 0)
	}
}

func (s *Server) setPort(port int) {
	s.port, s.addr = port, loopback(port)
	c := &mysql.Config{User: "root", Net: "tcp", Addr: s.addr}
	if s.ca != nil {
		c.TLS = s.TLSConfig() // the server's options may require TLS
	}
	s.setAdmin(c)
}

// setAdmin takes user and address from c and replaces the administrator's pool.
func (s *Server) setAdmin(c *mysql.Config) {
	if s.db != nil {
		s.db.Close()
	}
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

// external returns a running server.
func external(k Kind, dsn string) (*Server, error) {
	// Errors must not contain the DSN, which has a password.
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("%s is not a valid data source name", k.variable())
	}
	s := &Server{kind: k, addr: c.Addr, hosts: "%"}
	s.setAdmin(c)
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	if err := s.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&s.version); err != nil {
		s.db.Close()
		return nil, fmt.Errorf("the server that %s names: %w", k.variable(), err)
	}
	if is := strings.Contains(s.version, "MariaDB"); is != (k == MariaDB) {
		s.db.Close()
		return nil, fmt.Errorf("%s names a server of another kind: %s", k.variable(), s.version)
	}
	return s, nil
}

// title names the server in the table at the end of a run.
func (s *Server) title() string {
	if s.program == nil {
		return fmt.Sprintf("%s %s (already running)", s.kind, s.version)
	}
	return fmt.Sprintf("%s %s", s.kind, s.version)
}

// Kind returns the kind of server.
func (s *Server) Kind() Kind { return s.kind }

// Version returns the version as the server prints it, such as "9.7.4" or
// "10.11.19-MariaDB".
func (s *Server) Version() string { return s.version }

// Addr returns the server's host and port. A restart does not change it.
func (s *Server) Addr() string { return s.addr }

// Admin returns a pool of connections of the administrator, who has all privileges.
// The testbed closes it.
func (s *Server) Admin() *sql.DB { return s.db }

// AdminConfig returns a copy of the administrator's configuration.
func (s *Server) AdminConfig() *mysql.Config { return s.admin.Clone() }

// TLSConfig makes a client trust this server, which must have been started with
// TLS. Its RootCAs has only the server's authority.
func (s *Server) TLSConfig() *tls.Config { return s.ca.clientConfig() }

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
		return fmt.Errorf("%s: %s: %w", s.kind, statement, err)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }
func (s *Server) log() string  { return filepath.Join(s.dir, "log") }

// logTail returns the last lines that the server wrote.
func (s *Server) logTail() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// run starts the process and waits until it answers.
func (s *Server) run() error {
	p, err := spawn(append(s.program.command[:len(s.program.command):len(s.program.command)], s.args()...), s.env(), s.log())
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	err = poll(startLimit, func() error {
		if p.ended() {
			return fmt.Errorf("the server has ended, %w; it wrote:\n%s", errGiveUp, s.logTail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		return s.db.PingContext(ctx)
	})
	if err != nil {
		p.kill()
	}
	return err
}

func (s *Server) args() []string {
	args := append([]string{"--no-defaults"}, s.program.base...)
	args = append(args, userOption()...)
	args = append(args, s.program.sizes()...)
	args = append(args,
		"--datadir="+s.data(),
		"--socket="+filepath.Join(s.dir, "socket"),
		"--tmpdir="+s.dir, // MariaDB servers with the same tmpdir remove each other's files
		"--pid-file="+filepath.Join(s.dir, "pid"),
		fmt.Sprintf("--port=%d", s.port),
		fmt.Sprintf("--server-id=%d", s.port),
		"--bind-address=127.0.0.1",
		"--skip-name-resolve",
	)
	if s.kind == MySQL {
		args = append(args, "--mysqlx=OFF")
	}
	if s.options.Replication {
		args = append(args, "--log-bin=binlog", "--relay-log=relay")
		if s.kind == MySQL {
			args = append(args, "--gtid-mode=ON", "--enforce-gtid-consistency=ON")
		} else {
			args = append(args, "--log-slave-updates", "--gtid-strict-mode=ON")
		}
	}
	if s.ca != nil {
		args = append(args, s.ca.serverArgs()...)
	}
	return append(args, s.options.Args...)
}

func (s *Server) env() []string {
	env := s.program.env
	if s.options.Clock {
		env = append(env[:len(env):len(env)], s.clockEnv()...)
	}
	return env
}

// stop kills the server and removes its data.
func (s *Server) stop() {
	if s.db != nil {
		s.db.Close()
	}
	if p := s.running(); p != nil {
		p.kill()
	}
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

// running returns the process, or nil if it has ended or the testbed did not start it.
func (s *Server) running() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || s.process.ended() {
		return nil
	}
	return s.process
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
