package testbed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A PostgresServer is one server of PostgreSQL.
type PostgresServer struct {
	*Daemon
	superuser // in the database postgres
}

// StartPostgres starts a server for this test and stops it after the test.
func StartPostgres(t testing.TB, o Options) *PostgresServer {
	t.Helper()
	return startOwn(t, func() *PostgresServer { return startPostgres(o, nil) })
}

// StartPostgresStandby starts a standby that streams from a primary. It has caught up when
// StartPostgresStandby returns.
func StartPostgresStandby(t testing.TB, primary *PostgresServer) *PostgresServer {
	t.Helper()
	p := startOwn(t, func() *PostgresServer { return startPostgres(Options{}, primary) })
	p.CatchUp(t, primary)
	return p
}

// SharedPostgres returns the server of all tests of the binary. Each takes its own [PostgresServer.Database].
var SharedPostgres = share(func() *PostgresServer { return startPostgres(Options{}, nil) })

// postgresBin is the directory with PostgreSQL's programs, which Debian keeps out of PATH;
// ELECTION_TEST_POSTGRES_BIN names another one.
func postgresBin() string {
	if dir := os.Getenv("ELECTION_TEST_POSTGRES_BIN"); dir != "" {
		return dir
	}
	newest := ""
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb"} {
		found, _ := filepath.Glob(pattern)
		newest = slices.Max(append(found, newest))
	}
	if newest == "" {
		newest = installed(Postgres, "initdb", "PostgreSQL", "Debian: postgresql")
	}
	return filepath.Dir(newest)
}

// notRoot is the user of PostgreSQL and PgBouncer, which refuse root: postgres or nobody; nil: as we are.
var notRoot = sync.OnceValue(func() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u = &user.User{Uid: "65534", Gid: "65534"}
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
})

// giveAway gives files and directories of the testbed to that user.
func giveAway(paths ...string) {
	u := notRoot()
	if u == nil {
		return
	}
	check(os.Chmod(must(scratch()), 0o711))
	for _, path := range paths {
		check(os.Chown(path, int(u.Uid), int(u.Gid)))
	}
}

func runAsServer(command ...string) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: notRoot()}
	if out, err := cmd.CombinedOutput(); err != nil {
		check(fmt.Errorf("%s: %w: %s", command[0], err, out))
	}
}

// postgresTemplate makes an empty data directory, once per test binary. So all servers of a test
// binary have the same system identifier.
var postgresTemplate = sync.OnceValues(func() (string, error) {
	return attempt(func() string {
		dir := newDir()
		giveAway(dir)
		data := filepath.Join(dir, "data")
		runAsServer(filepath.Join(postgresBin(), "initdb"), "--pgdata="+data, "--username=postgres",
			"--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
		return data
	})
})

// startPostgres starts a server: a primary, or a standby of one.
func startPostgres(o Options, primary *PostgresServer) *PostgresServer {
	bin := postgresBin()
	version := versionOf("(PostgreSQL) ", nil, filepath.Join(bin, "postgres"))
	p := &PostgresServer{Daemon: newDaemon(Postgres, version, o)}
	p.user = notRoot()
	giveAway(p.dir)
	fillPostgres(bin, p.data(), primary)
	command := []string{
		filepath.Join(bin, "postgres"), "-D", p.data(), "--max_connections=300", "--shared_buffers=16MB",
		"--listen_addresses=127.0.0.1", "--unix_socket_directories=", "--wal_keep_size=512MB",
	}
	if o.TLS {
		giveAway(p.ca.keyFile, p.ca.certFile, p.ca.file)
		command = append(command, "--ssl=on",
			"--ssl_cert_file="+p.ca.certFile, "--ssl_key_file="+p.ca.keyFile)
	}
	access := "host postgres,replication postgres 127.0.0.1/32 trust\n"
	if o.Access == nil {
		access += "host all all 127.0.0.1/32 trust\n"
	}
	access += strings.Join(o.Access, "\n") + "\n"
	check(os.WriteFile(filepath.Join(p.data(), "pg_hba.conf"), []byte(access), 0o644))

	p.end = os.Interrupt
	p.ready = func(ctx context.Context) error {
		p.pool.Reset() // its connections may be from before a restart
		return p.pool.Ping(ctx)
	}
	p.onPort(func(port int) []string {
		p.pool = must(pgxpool.New(context.Background(), p.AdminDSN("postgres")))
		return slices.Concat(command, []string{fmt.Sprintf("--port=%d", port)}, o.Args)
	})
	p.close = p.pool.Close
	return p
}

// fillPostgres makes the data directory: an empty one, or a copy of a primary's.
func fillPostgres(bin, data string, primary *PostgresServer) {
	if primary == nil {
		runAsServer("cp", "-a", must(postgresTemplate()), data)
		return
	}
	host, port, _ := strings.Cut(primary.Addr(), ":")
	runAsServer(filepath.Join(bin, "pg_basebackup"), "--pgdata="+data, "--write-recovery-conf", "--no-sync",
		"--checkpoint=fast", "--dbname=host="+host+" port="+port+" user=postgres application_name=standby")
}

// Promote makes a standby a primary.
func (p *PostgresServer) Promote(t testing.TB) {
	t.Helper()
	p.Exec(t, "SELECT pg_promote(true, 60)")
}

// CatchUp waits until a standby has applied all that the primary has written.
func (p *PostgresServer) CatchUp(t testing.TB, primary *PostgresServer) {
	t.Helper()
	at := primary.Value(t, "SELECT pg_current_wal_lsn()::text")
	Eventually(t, endLimit, "the standby catches up", func() error {
		if there := p.Value(t, "SELECT pg_last_wal_replay_lsn() >= '"+at+"'"); there != "t" {
			return fmt.Errorf("it is not at %s", at)
		}
		return nil
	})
}

// A superuser is one in a database.
type superuser struct{ pool *pgxpool.Pool }

// Admin is a pool of the superuser.
func (u *superuser) Admin() *pgxpool.Pool { return u.pool }

// Exec runs statements as the superuser.
func (u *superuser) Exec(t testing.TB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		u.Value(t, s)
	}
}

// Value runs a statement as the superuser and returns the first value of its last row as text.
func (u *superuser) Value(t testing.TB, statement string) (value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sqlLimit)
	defer cancel()
	err := u.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		results, err := c.Conn().PgConn().Exec(ctx, statement).ReadAll()
		for _, r := range results {
			for _, row := range r.Rows {
				value = string(row[0])
			}
		}
		return err
	})
	if err != nil {
		t.Fatalf("testbed: %s: %v", statement, err)
	}
	return value
}

// AdminDSN is the superuser's for a database.
func (p *PostgresServer) AdminDSN(database string) string {
	return "postgres://postgres@" + p.addr + "/" + database + "?sslmode=disable"
}

// Messages returns how many messages with statements a server has received, which must have been
// started with log_statement=all.
func (p *PostgresServer) Messages(t testing.TB) int {
	t.Helper()
	text, err := os.ReadFile(p.log())
	NoError(t, err)
	return strings.Count(string(text), " LOG:  statement: ") + strings.Count(string(text), " LOG:  execute ")
}
