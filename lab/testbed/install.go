package testbed

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// A program is an installed server and the way to run it.
type program struct {
	kind     Kind
	command  []string // the server, preceded by its loader if it needs one
	install  []string // makes an empty data directory; without its options
	base     []string // options that every run of the server needs
	env      []string // added to the environment
	version  string   // as the server prints it
	identity string   // differs for every installed build
	faketime string   // the library that fakes the clock, or empty
}

// find finds the installed server of a kind, once per test binary.
func find(k Kind) (*program, error) { return programs[k]() }

var programs = map[Kind]func() (*program, error){
	MariaDB: sync.OnceValues(findMariaDB),
	MySQL:   sync.OnceValues(findMySQL),
}

func findMariaDB() (*program, error) {
	server, err := lookPath("mariadbd")
	if err != nil {
		return nil, &missing{MariaDB, "MariaDB", "Debian: mariadb-server"}
	}
	install, err := lookPath("mariadb-install-db")
	if err != nil {
		return nil, &missing{MariaDB, "mariadb-install-db", "Debian: mariadb-server"}
	}
	p := &program{
		kind:     MariaDB,
		command:  []string{server},
		install:  []string{install},
		faketime: faketime(),
	}
	return p, p.identify(server)
}

// mysqlRoot is the root file system with MySQL 9 that "make deps" installs.
// Debian 12 has no MySQL; the one of Debian unstable needs another C library. So
// mysqld runs with the loader and the libraries of this root. A chroot would need
// privileges, and the data inside it.
func mysqlRoot() (string, error) {
	cache, err := cacheDir()
	return filepath.Join(cache, "mysql9-root"), err
}

func findMySQL() (*program, error) {
	root, err := mysqlRoot()
	if err != nil {
		return nil, err
	}
	server := filepath.Join(root, "usr/sbin/mysqld")
	if _, err := os.Stat(server); err != nil {
		return findSystemMySQL()
	}
	loader := glob(root+"/lib64/ld-linux-*.so.*", root+"/usr/lib/ld-linux-*.so.*")
	lib := filepath.Dir(glob(root + "/usr/lib/*-linux-gnu*/libc.so.6"))
	if loader == "" || lib == "." {
		return nil, fmt.Errorf("no loader or C library in %s: remove it and run \"make deps\"", root)
	}
	p := &program{
		kind:     MySQL,
		command:  []string{loader, "--library-path", lib + ":" + root + "/usr/lib/mysql/private", server},
		base:     []string{"--basedir=" + root + "/usr", "--secure-file-priv=NULL"},
		env:      []string{"OPENSSL_CONF=" + root + "/etc/ssl/openssl.cnf"},
		faketime: glob(lib + "/faketime/libfaketimeMT.so.1"),
	}
	p.install = p.command
	return p, p.identify(server)
}

// findSystemMySQL finds a mysqld that the system's package manager installed.
func findSystemMySQL() (*program, error) {
	none := &missing{MySQL, "MySQL 9", "Debian: debootstrap, then mysql-server-core from unstable"}
	server, err := lookPath("mysqld")
	if err != nil {
		return nil, none
	}
	p := &program{
		kind:     MySQL,
		command:  []string{server},
		install:  []string{server},
		base:     []string{"--secure-file-priv=NULL"},
		faketime: faketime(),
	}
	if err := p.identify(server); err != nil {
		return nil, err
	}
	// MariaDB installs a mysqld too.
	if strings.Contains(p.version, "MariaDB") {
		return nil, none
	}
	return p, nil
}

var versionPattern = regexp.MustCompile(`Ver (\S+)`)

// identify asks the server for its version.
func (p *program) identify(server string) error {
	cmd := exec.Command(p.command[0], append(p.command[1:], "--no-defaults", "--version")...)
	cmd.Env = append(os.Environ(), p.env...)
	out, err := cmd.CombinedOutput()
	found := versionPattern.FindSubmatch(out)
	if err != nil || found == nil {
		return fmt.Errorf("%s --version: %v: %s", server, err, out)
	}
	p.version = string(found[1])
	info, err := os.Stat(server)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(fmt.Append(nil, out, server, info.Size(), info.ModTime()))
	p.identity = fmt.Sprintf("%x", sum[:6])
	return nil
}

// userOption returns the option that lets root run a server.
func userOption() []string {
	if os.Getuid() == 0 {
		return []string{"--user=root"}
	}
	return nil
}

// lookPath also searches the directories of servers, which not every PATH contains.
func lookPath(name string) (string, error) {
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name)
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
func built(k Kind, versions, name, module string) (path, version string, err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	found, _ := filepath.Glob(filepath.Join(cache, name+"-v"+versions, name))
	if len(found) == 0 {
		return "", "", &missing{k, name, "built from " + module}
	}
	path = found[len(found)-1]
	return path, strings.TrimPrefix(filepath.Base(filepath.Dir(path)), name+"-v"), nil
}

// cacheDir is the project's directory under the user's cache directory.
func cacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir() // no home directory
	}
	dir := filepath.Join(base, "go-election")
	return dir, os.MkdirAll(dir, 0o755)
}
