package testbed

import (
	"errors"
	"fmt"
	"os"
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

// variable returns the environment variable that names a running server.
func (k Kind) variable() string {
	switch k {
	case MySQL:
		return "ELECTION_TEST_MYSQL_DSN"
	case MariaDB:
		return "ELECTION_TEST_MARIADB_DSN"
	case ZooKeeper:
		return "ELECTION_TEST_ZOOKEEPER_SERVERS"
	case Consul:
		return "ELECTION_TEST_CONSUL_ADDR"
	case Postgres:
		return "ELECTION_TEST_POSTGRES_DSN"
	case Redis:
		return "ELECTION_TEST_REDIS_ADDR"
	case Kubernetes:
		return "ELECTION_TEST_KUBECONFIG"
	default:
		return "ELECTION_TEST_ETCD_ENDPOINTS"
	}
}

// Options say what server to start. Only Kind is required.
type Options struct {
	Kind Kind

	// Args are added to the server's command line, after all others.
	Args []string

	// TLS gives the server a certificate from a new authority.
	// A client trusts it with [Server.TLSConfig].
	TLS bool

	// Clock runs the server on a clock that [Server.Step] can move.
	Clock bool

	// Replication turns on the binary log with global transaction ids.
	// StartPair sets it.
	Replication bool
}

// Start starts a server for this test and stops it after the test.
// If the server is not installed, the test is skipped or fails.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	Full(t, "starts its own server")
	if dsn := os.Getenv(o.Kind.variable()); dsn != "" {
		if o.Args != nil || o.TLS || o.Clock || o.Replication {
			t.Skipf("this test starts a %s with its own options, but %s names a running server",
				o.Kind, o.Kind.variable())
		}
		s, err := external(o.Kind, dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.stop)
		recordServer(t, s.title())
		return s
	}
	s, err := start(o)
	if err != nil {
		unavailable(t, err)
	}
	recordServer(t, s.title())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last lines that %s %s wrote:\n%s", s.kind, s.addr, s.logTail())
		}
		s.stop()
	})
	return s
}

var shared = map[Kind]func() (*Server, error){
	MariaDB: sync.OnceValues(func() (*Server, error) { return startShared(MariaDB) }),
	MySQL:   sync.OnceValues(func() (*Server, error) { return startShared(MySQL) }),
}

// Shared returns the server of this kind that all tests of the binary share.
// Tests must not inject faults into it. Each takes its own [Server.Database].
// If the server is not installed, the test is skipped or fails.
func Shared(t testing.TB, k Kind) *Server {
	t.Helper()
	contract(t)
	s, err := shared[k]()
	if err != nil {
		unavailable(t, err)
	}
	recordServer(t, s.title())
	return s
}

// startShared starts a server that ends with the test binary.
func startShared(k Kind) (s *Server, err error) {
	if dsn := os.Getenv(k.variable()); dsn != "" {
		s, err = external(k, dsn)
	} else {
		s, err = start(Options{Kind: k, Args: []string{"--max-connections=300"}}) // suites run side by side
	}
	if err == nil {
		s.shared = true
	}
	return s, err
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

// missing is the error for a server or program that is not installed.
type missing struct {
	kind Kind
	what string // the server or program
	hint string // how to install it
}

func (m *missing) Error() string { return m.what + " is missing: " + m.cure() }

func (m *missing) cure() string {
	return fmt.Sprintf("run \"make deps\" (%s), or set %s to a running server", m.hint, m.kind.variable())
}

// unavailable skips or fails a test whose server could not be started.
//
// The fast tier skips. In CI, the full tier fails, because otherwise a broken installation
// would look like a green run. MySQL 9 is the exception: it comes from a distribution that
// changes daily. The table at the end of the run names it.
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
