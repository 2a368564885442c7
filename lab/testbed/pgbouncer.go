package testbed

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// StartPgBouncer starts a PgBouncer that leads the user of a database to its server, in this pool
// mode. It stops it after the test.
func StartPgBouncer(t testing.TB, d *PostgresDatabase, mode string) *Daemon {
	t.Helper()
	Full(t, "starts its own server")
	bouncer, err := attempt(func() *Daemon { return startPgBouncer(d, mode) })
	started(t, bouncer, err)
	bouncer.endWithTest(t)
	return bouncer
}

func startPgBouncer(d *PostgresDatabase, mode string) *Daemon {
	program := installed(Postgres, "pgbouncer", "PgBouncer", "Debian: pgbouncer")
	dir := serverDir()
	host, serverPort, _ := net.SplitHostPort(d.server.Addr())
	users, config := filepath.Join(dir, "users"), filepath.Join(dir, "pgbouncer.ini")
	check(os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", d.User, d.Password), 0o644))
	return launchOnPort(func(port int) daemonOptions {
		check(os.WriteFile(config, fmt.Appendf(nil, "[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%d\nunix_socket_dir=\nauth_type=plain\nauth_file=%s\npool_mode=%s\ndefault_pool_size=5\nserver_login_retry=1\n",
			host, serverPort, port, users, mode), 0o644))
		command, _ := asServer(program, config)
		return daemonOptions{kind: "PgBouncer", addr: loopback(port), command: command, dir: dir}
	})
}
