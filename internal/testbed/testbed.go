package testbed

import (
	"errors"
	"fmt"
	"os"
	"strconv"
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
)

// Kinds are the kinds of database servers, in the order in which tests run.
var Kinds = []Kind{MariaDB, MySQL}

// variable names the environment variable with a server that is already there.
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
	default:
		return "ELECTION_TEST_ETCD_ENDPOINTS"
	}
}

// Options say what server to start. Only Kind is required.
type Options struct {
	Kind Kind

	// Args are added to the server's command line, after all others.
	Args []string

	// TLS gives the server a certificate of an authority of its own.
	// [Server.TLSConfig] is what a client needs to trust it.
	TLS bool

	// Clock runs the server under a clock that [Server.Step] can move.
	Clock bool

	// Replication turns on the binary log with global transaction ids.
	// StartPair does it by itself.
	Replication bool
}

// Start starts a server that belongs to this test and is gone after it.
// The test is skipped or fails if the server is not installed.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	Full(t, "starts a server of its own")
	if dsn := os.Getenv(o.Kind.variable()); dsn != "" {
		if o.Args != nil || o.TLS || o.Clock || o.Replication {
			t.Skipf("this test needs a %s that it starts with options of its own, but %s names one that is already there",
				o.Kind, o.Kind.variable())
		}
		s, err := external(o.Kind, dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.stop)
		used(t, s.title())
		return s
	}
	s, err := start(o)
	if err != nil {
		unavailable(t, err)
	}
	used(t, s.title())
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

// Shared returns the one server of this kind that all tests of the binary share.
// It must not be tormented. Take a [Server.Database] of your own on it.
// The test is skipped or fails if the server is not installed.
func Shared(t testing.TB, k Kind) *Server {
	t.Helper()
	contract(t)
	s, err := shared[k]()
	if err != nil {
		unavailable(t, err)
	}
	used(t, s.title())
	return s
}

// startShared starts a server that ends with the test binary.
func startShared(k Kind) (s *Server, err error) {
	if dsn := os.Getenv(k.variable()); dsn != "" {
		s, err = external(k, dsn)
	} else {
		s, err = start(Options{Kind: k})
	}
	if err == nil {
		s.shared = true
	}
	return s, err
}

// Each runs f as one subtest for each kind of server, by its name.
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

// errGiveUp, wrapped in what f returns, ends a poll at once.
var errGiveUp = errors.New("giving up")

// poll calls f until it returns nil, and returns its last error after limit: of a call
// that began after it, so that who was stopped for so long looks once more. What the
// host of a virtual machine has given to others does not count, up to three limits, where
// the limit is patience: a minute or more. A shorter one is a bound that a test claims.
func poll(limit time.Duration, f func() error) error { return pollBy(limit, stolen, f) }

func pollBy(limit time.Duration, stolen func() time.Duration, f func() error) error {
	began, before := time.Now(), stolen()
	for over := false; ; {
		err := f()
		if err == nil || over || errors.Is(err, errGiveUp) {
			return err
		}
		<-time.After(min(max(5*time.Millisecond, time.Since(began)/50), 100*time.Millisecond)) // what takes long is looked at less often
		if took := time.Since(began); took >= limit {
			over = limit < time.Minute || took-min(stolen()-before, 3*limit) >= limit
		}
	}
}

// stolen returns for how long, since the start, the host has not let this machine's
// processors run though they had work, on average; 0 where that cannot be told.
func stolen() time.Duration {
	stat, _ := os.ReadFile("/proc/stat")
	return stolenIn(string(stat))
}

// stolenIn reads it: the eighth time of all processors together, in hundredths of a
// second, and a line for each processor. See proc_stat(5).
func stolenIn(stat string) time.Duration {
	line, rest, _ := strings.Cut(stat, "\n")
	times := strings.Fields(line)
	if len(times) < 9 || times[0] != "cpu" {
		return 0
	}
	ticks, _ := strconv.ParseInt(times[8], 10, 64)
	return time.Duration(ticks) * 10 * time.Millisecond / time.Duration(max(1, strings.Count("\n"+rest, "\ncpu")))
}

// missing is the error for something that is not installed.
type missing struct {
	kind Kind
	what string // what is not there
	hint string // what installs it
}

func (m *missing) Error() string { return m.what + " is missing: " + m.cure() }

func (m *missing) cure() string {
	return fmt.Sprintf("run \"make deps\" (%s), or let %s name a server that is already there", m.hint, m.kind.variable())
}

// unavailable ends a test whose server could not be had.
//
// The fast tier does without. In CI a server that is missing from the full tier is a
// failure, or a broken installation would pass for a green run. MySQL 9 is the exception:
// it comes from a distribution that changes daily. The table at the end names it.
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
