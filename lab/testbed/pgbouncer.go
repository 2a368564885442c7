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
	bouncer, err := startPgBouncer(d, mode)
	endWithTest(t, started(t, bouncer, err))
	return bouncer
}

func startPgBouncer(d *PostgresDatabase, mode string) (*Daemon, error) {
	program, err := lookPath("pgbouncer")
	if err != nil {
		return nil, &missing{Postgres, "PgBouncer", "Debian: pgbouncer"}
	}
	dir, err := serverDir()
	if err != nil {
		return nil, err
	}
	host, serverPort, _ := net.SplitHostPort(d.server.Addr())
	users, config := filepath.Join(dir, "users"), filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", d.User, d.Password), 0o644); err != nil {
		return nil, err
	}
	return launchOnPort(func(port int) (daemonOptions, error) {
		text := fmt.Sprintf("[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%d\nunix_socket_dir=\nauth_type=plain\nauth_file=%s\npool_mode=%s\ndefault_pool_size=5\nserver_login_retry=1\n",
			host, serverPort, port, users, mode)
		command, _ := asServer(program, config)
		return daemonOptions{kind: "PgBouncer", addr: loopback(port), command: command, dir: dir}, os.WriteFile(config, []byte(text), 0o644)
	})
}
