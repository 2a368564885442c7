package testbed

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// StartProgram starts a program of a Debian package that listens at the daemon's address. configure gets its
// path, writes its configuration into the daemon's directory, and returns its command.
func StartProgram(t testing.TB, name, debian string, configure func(string, *Daemon) []string) *Daemon {
	t.Helper()
	return startOwn(t, func() *Daemon {
		program := installed(Kind(name), name, name, "Debian: "+debian)
		d := newDaemon(Kind(name), "", Options{})
		return d.onPort(func(int) []string { return configure(program, d) })
	})
}

// StartPgBouncer starts a PgBouncer that leads the user of a database to its server, in this pool
// mode. It stops it after the test.
func StartPgBouncer(t testing.TB, d *PostgresDatabase, mode string) *Daemon {
	t.Helper()
	return StartProgram(t, "pgbouncer", "pgbouncer", func(program string, bouncer *Daemon) []string {
		bouncer.user = notRoot()
		giveAway(bouncer.dir)
		host, serverPort, _ := net.SplitHostPort(d.server.Addr())
		_, port, _ := net.SplitHostPort(bouncer.addr)
		users, config := filepath.Join(bouncer.dir, "users"), filepath.Join(bouncer.dir, "pgbouncer.ini")
		check(os.WriteFile(users, fmt.Appendf(nil, "%q %q\n", d.User, d.Password), 0o644))
		const text = "[databases]\n* = host=%s port=%s\n" +
			"[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%s\nunix_socket_dir=\n" +
			"auth_type=plain\nauth_file=%s\npool_mode=%s\ndefault_pool_size=5\nserver_login_retry=1\n"
		check(os.WriteFile(config, fmt.Appendf(nil, text, host, serverPort, port, users, mode), 0o644))
		return []string{program, config}
	})
}
