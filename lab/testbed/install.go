package testbed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// A program is an installed server and the way to run it.
type program struct {
	dialect
	command []string // the server, preceded by its loader if it needs one
	install []string // makes an empty data directory; without its options
	base    []string // options that every run of the server needs
	env     []string // added to the environment
	version string   // as the server prints it

	template func() (dir string, err error) // an empty data directory, which is made once
}

// A dialect is what MariaDB and MySQL have in other words.
type dialect struct {
	kind        Kind
	sizes       []string // keep files small; see makeTemplate
	replication []string // of a primary, with global transaction ids
	runs        []string // for servers, not for the template
	empty       []string // make an empty data directory, from the statements in a file
	users       string   // statements that make the administrator, if the server does not

	readOnly string // the variable that refuses writes, of the administrator, too, if there is one
	follow   string // makes a replica of the server at a port
	written  string // the query for the transactions that a primary has
	wait     string // the query that waits until a replica has applied transactions
	fetched  string // the column of a replica's status with the transactions that it has fetched
}

var mariaDB = dialect{
	kind:        MariaDB,
	sizes:       []string{"--innodb-log-file-size=8M"},
	replication: []string{"--log-slave-updates", "--gtid-strict-mode=ON"},
	empty: []string{"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
		"--extra-file="},

	readOnly: "read_only",
	follow: "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='root', " +
		"MASTER_CONNECT_RETRY=1, MASTER_USE_GTID=slave_pos",
	written: "SELECT @@GLOBAL.gtid_binlog_pos",
	wait:    "SELECT MASTER_GTID_WAIT(?, 50)",
	fetched: "Gtid_IO_Pos",
}

var mySQL = dialect{
	kind:        MySQL,
	sizes:       []string{"--innodb-redo-log-capacity=8M"},
	replication: []string{"--gtid-mode=ON", "--enforce-gtid-consistency=ON"},
	runs:        []string{"--mysqlx=OFF"},
	empty:       []string{"--initialize-insecure", "--disable-log-bin", "--init-file="},
	users: "CREATE USER 'root'@'127.0.0.1';\n" +
		"GRANT ALL PRIVILEGES ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n",

	readOnly: "super_read_only",
	follow: "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='root', " +
		"SOURCE_CONNECT_RETRY=1, SOURCE_AUTO_POSITION=1",
	written: "SELECT @@GLOBAL.gtid_executed",
	wait:    "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 50)",
	fetched: "Retrieved_Gtid_Set",
}

// programs finds the installed server of a kind, once per test binary.
var programs = map[Kind]func() (*program, error){
	MariaDB: sync.OnceValues(func() (*program, error) { return attempt(findMariaDB) }),
	MySQL:   sync.OnceValues(func() (*program, error) { return attempt(findMySQL) }),
}

func findMariaDB() *program {
	const hint = "Debian: mariadb-server"
	return (&program{
		dialect: mariaDB,
		command: []string{installed(MariaDB, "mariadbd", "MariaDB", hint)},
		install: []string{installed(MariaDB, "mariadb-install-db", "mariadb-install-db", hint)},
	}).identify()
}

// mysqlRoot is the root file system with MySQL 9 that "make deps" installs; "" if it has not. Debian 12 has
// no MySQL; the one of Debian unstable needs another C library. So mysqld runs with the loader and the
// libraries of this root. A chroot would need privileges, and the data inside it.
func mysqlRoot() string {
	root := filepath.Join(cacheDir(), "mysql9-root")
	if _, err := os.Stat(root + "/usr/sbin/mysqld"); err != nil {
		return ""
	}
	return root
}

func findMySQL() *program {
	root := mysqlRoot()
	if root == "" {
		return findSystemMySQL()
	}
	loader := glob(root+"/lib64/ld-linux-*.so.*", root+"/usr/lib/ld-linux-*.so.*")
	lib := filepath.Dir(glob(root + "/usr/lib/*-linux-gnu*/libc.so.6"))
	if loader == "" || lib == "." {
		check(fmt.Errorf("no loader or C library in %s: remove it and run \"make deps\"", root))
	}
	p := &program{
		dialect: mySQL,
		command: []string{loader, "--library-path", lib, root + "/usr/sbin/mysqld"},
		base:    []string{"--basedir=" + root + "/usr", "--secure-file-priv=NULL"},
		env:     []string{"OPENSSL_CONF=" + root + "/etc/ssl/openssl.cnf"},
	}
	p.install = p.command
	return p.identify()
}

// findSystemMySQL finds a mysqld that the system's package manager installed.
func findSystemMySQL() *program {
	const name, hint = "MySQL 9", "Debian: debootstrap, then mysql-server-core from unstable"
	server := []string{installed(MySQL, "mysqld", name, hint)}
	p := &program{dialect: mySQL, command: server, install: server, base: []string{"--secure-file-priv=NULL"}}
	if strings.Contains(p.identify().version, "MariaDB") { // it installs a mysqld too
		check(&missing{MySQL, name, hint})
	}
	return p
}

// identify asks the server for its version.
func (p *program) identify() *program {
	p.version = versionOf("Ver ", p.env, append(slices.Clip(p.command), "--no-defaults")...)
	p.template = sync.OnceValues(func() (string, error) { return attempt(p.makeTemplate) })
	return p
}

// versionOf asks a program for its version, which it says after some word.
func versionOf(word string, env []string, command ...string) string {
	cmd := exec.Command(command[0], append(command[1:], "--version")...)
	cmd.Env = append(os.Environ(), env...)
	said, err := cmd.CombinedOutput()
	_, rest, found := strings.Cut(string(said), word)
	if err != nil || !found {
		check(fmt.Errorf("%s --version: %v: %s", command[0], err, said))
	}
	return strings.Fields(rest)[0]
}

// installed returns the path of a program that a package installs. It also searches the directories of
// servers, which not every PATH contains.
func installed(k Kind, program, name, hint string) string {
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec", ""} {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path
		}
	}
	check(&missing{k, name, hint})
	return ""
}

// glob returns the first file that matches one of the patterns, or "".
func glob(patterns ...string) string {
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// built finds the newest program that "make deps" has built from a module: name-vVERSION/name in the cache.
func built(k Kind, versions, name, module string) (path, version string) {
	found, _ := filepath.Glob(filepath.Join(cacheDir(), name+"-v"+versions, name))
	if len(found) == 0 {
		check(&missing{k, name, "built from " + module})
	}
	path = found[len(found)-1]
	return path, strings.TrimPrefix(filepath.Base(filepath.Dir(path)), name+"-v")
}

// cacheDir is the project's directory under the user's cache directory.
func cacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir() // no home directory
	}
	dir := filepath.Join(base, "go-election")
	check(os.MkdirAll(dir, 0o755))
	return dir
}
