package testbed

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// StartProgram starts a program of a Debian package that stands before servers, for this test. configure writes its
// configuration into dir, and returns its command; the program listens at addr.
func StartProgram(t testing.TB, name, debian string, configure func(program, dir, addr string) (command []string)) *Daemon {
	t.Helper()
	return startProgram(t, name, debian, nil, configure)
}

func startProgram(t testing.TB, name, debian string, user *syscall.Credential, configure func(program, dir, addr string) []string) *Daemon {
	t.Helper()
	return startOwn(t, func() *Daemon {
		program := installed(Kind(name), name, name, "Debian: "+debian)
		d := newDaemon(Kind(name), "", Options{})
		d.user = user
		return d.onPort(func(int) []string { return configure(program, d.dir, d.addr) })
	})
}

// StartPgBouncer starts a PgBouncer that leads the user of a database to its server, in this pool
// mode. It stops it after the test.
func StartPgBouncer(t testing.TB, d *PostgresDatabase, mode string) *Daemon {
	t.Helper()
	return startProgram(t, "pgbouncer", "pgbouncer", notRoot(), func(program, dir, addr string) []string {
		giveAway(dir)
		host, serverPort, _ := net.SplitHostPort(d.server.Addr())
		_, port, _ := net.SplitHostPort(addr)
		users, config := filepath.Join(dir, "users"), filepath.Join(dir, "pgbouncer.ini")
		check(os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", d.User, d.Password), 0o644))
		check(os.WriteFile(config, fmt.Appendf(nil, "[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%s\nunix_socket_dir=\nauth_type=plain\nauth_file=%s\npool_mode=%s\ndefault_pool_size=5\nserver_login_retry=1\n",
			host, serverPort, port, users, mode), 0o644))
		return []string{program, config}
	})
}
