package curator

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// The test binary is also the program of the members that it starts.
const memberArg = "GO_ELECTION_TEST_CURATOR_MEMBER"

// memberMain runs that program if this process was started as a member.
func memberMain() {
	if arg := os.Getenv(memberArg); arg != "" {
		memberProgram(arg)
	}
}

const (
	fleetTTL = 3 * time.Second

	// Members of other programs keep no deadline. A busy machine must not delay one for so long.
	fleetSession = 8 * time.Second

	patience = 2 * time.Minute // of which a few seconds are needed
)

// A memberConfig configures a process of this module.
type memberConfig struct {
	Options
	ID string

	// A stage of the migration to MySQL, or "".
	Stage migration.Stage
	DSN   string
}

// memberProgram is the program of a member of this module.
func memberProgram(arg string) {
	var p memberConfig
	err := json.Unmarshal([]byte(arg), &p)
	var b backend.Backend
	if err == nil {
		b, err = Open(p.Options)
	}
	if err == nil && p.Stage != "" {
		o := migration.Options{From: b, Stage: p.Stage}
		if o.To, err = mysql.Open(mysql.Options{DSN: p.DSN}); err == nil {
			b, err = migration.New(o)
		}
	}
	testbed.PlayMember(b, err, election.Options{ID: p.ID, TTL: fleetTTL}, "jobs")
}

// A fleet is one election, "jobs", among processes of this module and of other programs.
type fleet struct {
	*testbed.Fleet
	t       *testing.T
	admin   *zk.Conn
	options Options
	dsn     string // of the MySQL that the fleet migrates to
}

func newFleet(t *testing.T, change func(*Options)) *fleet {
	o := shared(t)
	o.Session = fleetSession
	change(&o)
	return &fleet{Fleet: testbed.NewFleet(t), t: t, options: o, admin: testbed.DialZooKeeper(t, o.ZooKeeper.Servers)}
}

// newLatches returns a fleet with LeaderLatches.
func newLatches(t *testing.T) *fleet { return newFleet(t, func(*Options) {}) }

// newSelectors returns a fleet with LeaderSelectors.
func newSelectors(t *testing.T) *fleet { return newFleet(t, func(o *Options) { o.Layout = Selector }) }

// newNodes returns a fleet with programs that elect by one ephemeral node. They do not create its parents.
func newNodes(t *testing.T) *fleet {
	f := newFleet(t, func(o *Options) {
		o.Layout, o.Path = Node, o.ZooKeeper.Root+"/soa/master/services/{election}"
	})
	makeParents(t, f.admin, f.lockPath())
	return f
}

// lockPath returns the path of the queue, or of the node.
func (f *fleet) lockPath() string {
	l, err := newLayout(f.options)
	if err != nil {
		f.t.Fatal(err)
	}
	return l.lockPath("jobs")
}

// startOurs starts a member of this module.
func (f *fleet) startOurs(id string) *testbed.Member { return f.startAt("", id) }

// startAt starts a member of this module at a stage of the migration to MySQL.
func (f *fleet) startAt(stage migration.Stage, id string) *testbed.Member {
	f.t.Helper()
	return f.Program(id, true, memberArg, memberConfig{f.options, id, stage, f.dsn})
}

//go:embed testdata/Member.java
var memberSource []byte

var javaProgram = testbed.JavaProgram(memberSource, "libcurator-recipes-java", "curator",
	"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "failureaccess", "slf4j-api", "slf4j-nop",
	"netty-common", "netty-handler", "netty-transport", "netty-buffer", "netty-codec", "netty-resolver")

// startJava starts a member in Java: Curator's "latch" or "selector", or one by a "node" ("cached": it leads while the
// node holds its id).
func (f *fleet) startJava(kind, id string) *testbed.Member {
	f.t.Helper()
	return f.Add(startJava(f.t, kind, f.options, f.lockPath(), id, fleetSession), false)
}

func startJava(t testing.TB, kind string, o Options, path, id string, session time.Duration) *testbed.Member {
	t.Helper()
	return javaProgram(t, id, kind, o.ZooKeeper.Servers[0], path, id, fmt.Sprint(session.Milliseconds()))
}

// waits waits until a member says that it waits for the leader to leave. On a busy machine the leader may already have
// left, and the member leads.
func (f *fleet) waits(m *testbed.Member) {
	f.t.Helper()
	testbed.Eventually(f.t, patience, m.ID+" waits", func() error {
		if m.Last("waits") == "" && !m.Leads() {
			return errNone
		}
		return nil
	})
}

// waitQueued waits until a member of another program is in the queue.
func (f *fleet) waitQueued(m *testbed.Member) {
	f.t.Helper()
	testbed.Eventually(f.t, patience, m.ID+" in the queue", func() error {
		nodes, _, err := f.admin.Children(f.lockPath())
		for _, n := range nodes {
			if text, _, _ := f.admin.Get(f.lockPath() + "/" + n); string(text) == m.ID {
				return nil
			}
		}
		return cmp.Or(err, errNone)
	})
}

// waitForData waits until a node has this data.
func (f *fleet) waitForData(path, text string) {
	f.t.Helper()
	testbed.Eventually(f.t, patience, path+" to hold "+text, func() error {
		if data, _, err := f.admin.Get(path); err != nil || string(data) != text {
			return fmt.Errorf("it holds %q, %v", data, err)
		}
		return nil
	})
}
