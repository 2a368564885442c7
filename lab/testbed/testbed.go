package testbed

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Kind is a kind of server. It is also its name in test names.
type Kind string

const (
	MariaDB   Kind = "MariaDB" // the MariaDB that the system has installed
	MySQL     Kind = "MySQL"   // MySQL 9
	ZooKeeper Kind = "ZooKeeper"
	Consul    Kind = "Consul"
	Etcd      Kind = "etcd"
	Postgres  Kind = "PostgreSQL"
	Redis     Kind = "Redis"
	S3        Kind = "S3"

	Kubernetes Kind = "Kubernetes" // an API server without nodes and controllers
)

// Kinds are the kinds of database servers, in the order in which tests run.
var Kinds = []Kind{MariaDB, MySQL}

// Options say how to start a server. The zero value is a single one without TLS that asks for no password.
type Options struct {
	// TLS gives the server a certificate from a new authority: see [Daemon.TLSConfig] and [Daemon.CAFile].
	// Only MySQL, MariaDB and PostgreSQL still take clients without TLS. etcd takes only clients with a
	// certificate: see [Daemon.ClientFiles].
	TLS bool

	// Clock runs a database server, Redis or ZooKeeper on a clock that [Daemon.Step] can move.
	Clock bool

	// Oldest takes the oldest version that this module claims to support, of etcd and Consul.
	Oldest bool

	// Args are added to the end of the command line. Those of ZooKeeper are lines of its configuration, and
	// properties of its Java machine, which begin with -D.
	Args []string

	// Access replaces pg_hba.conf of PostgreSQL for connections by TCP. The superuser keeps access without
	// TLS and password to the database postgres, and for replication.
	Access []string
}

// Start starts a database server for this test. If it is not installed, the test is skipped or fails.
func Start(t testing.TB, k Kind, o Options) *Server {
	t.Helper()
	return startOwn(t, func() *Server { return start(k, o) })
}

var manyClients = Options{Args: []string{"--max-connections=300"}} // suites run side by side

var shared = map[Kind]func(testing.TB) *Server{
	MariaDB: share(func() *Server { return start(MariaDB, manyClients) }),
	MySQL:   share(func() *Server { return start(MySQL, manyClients) }),
}

// Shared returns the server of this kind that all tests of the binary share. It refuses faults. Each test
// takes its own [Server.Database].
func Shared(t testing.TB, k Kind) *Server {
	t.Helper()
	return shared[k](t)
}

// A server is a [Daemon], with what else a kind of server has.
type server interface{ daemon() *Daemon }

// share returns a function that starts a server at its first call, for all tests of the binary. In the fast
// tier it serves only TestConformance.
func share[S server](start func() S) func(testing.TB) S {
	once := sync.OnceValues(func() (S, error) {
		return attempt(func() S {
			s := start()
			s.daemon().shared = true
			return s
		})
	})
	return func(t testing.TB) S {
		t.Helper()
		contract(t)
		s, err := once()
		return started(t, s, err)
	}
}

// startOwn starts a server for this test and stops it after the test.
func startOwn[S server](t testing.TB, start func() S) S {
	t.Helper()
	Full(t, "starts its own server")
	s, err := attempt(start)
	started(t, s, err)
	s.daemon().endWithTest(t)
	return s
}

// started records the server of a test, for the table of scripts/report, unless err says why there is none.
func started[S server](t testing.TB, s S, err error) S {
	t.Helper()
	if err != nil {
		unavailable(t, err)
	}
	d := s.daemon()
	t.Attr("server", strings.TrimSpace(fmt.Sprint(d.kind, " ", d.version)))
	return s
}

// Each runs f as a subtest for each kind of database server.
func Each(t *testing.T, f func(t *testing.T, k Kind)) {
	t.Helper()
	for _, k := range Kinds {
		t.Run(string(k), func(t *testing.T) { f(t, k) })
	}
}

// Eventually calls f until it returns nil, and fails the test with its last
// error if that takes longer than limit.
func Eventually(t testing.TB, limit time.Duration, what string, f func() error) {
	t.Helper()
	if err := poll(limit, f); err != nil {
		t.Fatalf("%s: not within %v: %v", what, limit, err)
	}
}

// FullPipe returns the writing end of a pipe that is full, and that nobody reads.
func FullPipe(t testing.TB) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	NoError(t, err)
	t.Cleanup(func() { read.Close(); write.Close() })
	write.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	for err == nil {
		_, err = write.Write(make([]byte, 4096))
	}
	return write
}

// missing is the error for a server or program that is not installed.
type missing struct {
	kind Kind
	what string // the server or program
	hint string // how to install it
}

func (m *missing) Error() string {
	return fmt.Sprintf("%s is missing: run \"make deps\" (%s)", m.what, m.hint)
}

// Unavailable is for a test that needs something which is not there, and says how to get it.
func Unavailable(t testing.TB, what, hint string) {
	t.Helper()
	unavailable(t, &missing{what: what, hint: hint})
}

// unavailable skips or fails a test whose server could not be started.
//
// The fast tier skips. In CI, the full tier fails, because otherwise a broken installation
// would look like a green run. MySQL 9 is the exception: it comes from a distribution that
// changes daily. scripts/report names it at the end.
func unavailable(t testing.TB, err error) {
	t.Helper()
	m, ok := errors.AsType[*missing](err)
	if !ok {
		t.Fatalf("testbed: %v", err)
	}
	t.Attr("missing", m.what)
	if ci := os.Getenv("CI"); ci != "" && ci != "false" && !testing.Short() && m.kind != MySQL {
		t.Fatalf("testbed: %v", m)
	}
	t.Skipf("testbed: %v", m)
}
