package testbed

import (
	"context"
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
	if err != nil {
		unavailable(t, err)
	}
	recordServer(t, "PgBouncer")
	endWithTest(t, bouncer)
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
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	users, config := filepath.Join(dir, "users"), filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", d.User, d.Password), 0o644); err != nil {
		return nil, err
	}
	host, serverPort, _ := net.SplitHostPort(d.server.addr)
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%d\nunix_socket_dir=\nauth_type=plain\nauth_file=%s\npool_mode=%s\ndefault_pool_size=5\nserver_login_retry=1\n",
		host, serverPort, port, users, mode)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	command, _ := asServer(program, config)
	bouncer, err := launch(daemonOptions{kind: Postgres, version: "PgBouncer", addr: loopback(port), command: command, dir: dir,
		ready: func(ctx context.Context) error {
			var dialer net.Dialer
			c, err := dialer.DialContext(ctx, "tcp", loopback(port))
			if err == nil {
				c.Close()
			}
			return err
		}})
	if err != nil {
		return nil, err
	}
	return bouncer, bouncer.await()
}
