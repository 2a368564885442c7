package firefly

import (
	"cmp"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/consulagent"
	"github.com/go-election/go-election/lab/testbed"
)

// The test binary is also the program of the members that it starts.
const replayArg, memberArg = "GO_ELECTION_TEST_FIREFLY_REPLAY", "GO_ELECTION_TEST_FIREFLY_MEMBER"

func TestMain(m *testing.M) {
	if arg := os.Getenv(replayArg); arg != "" {
		replayMain(arg)
	}
	if arg := os.Getenv(memberArg); arg != "" {
		goMain(arg)
	}
	os.Exit(m.Run())
}

// mixed has the times of the fleets below.
var mixed = Fleet{FailoverDelay: 2 * time.Second, ConfirmNumber: 5, ConfirmInterval: 1500 * time.Millisecond, SessionTTL: 4 * time.Second}

// A part is the configuration of a member of this module.
type part struct {
	URL, Service, ID string

	// The member's stage of a migration to MySQL, or empty.
	Stage migration.Stage
	DSN   string
}

// goMain is the program of a member of this module.
func goMain(arg string) {
	var a part
	err := json.Unmarshal([]byte(arg), &a)
	var store backend.Backend
	if err == nil {
		store, err = Open(consul.Options{Address: a.URL, Prefix: "fleet/" + a.Service}, mixed)
	}
	if err == nil && a.Stage != "" {
		o := migration.Options{From: store, Stage: a.Stage}
		if o.To, err = mysql.Open(mysql.Options{DSN: a.DSN}); err == nil {
			store, err = migration.New(o)
		}
	}
	testbed.PlayMember(store, err, election.Options{ID: a.ID, TTL: 2 * time.Second}, a.Service)
}

// A fleet is one election with members of both kinds.
type fleet struct {
	*testbed.Fleet
	*lab
	t       *testing.T
	service string
	dsn     string // of the MySQL to which it moves
}

func newFleet(t *testing.T) *fleet {
	agent := testbed.SharedConsul(t)
	f := &fleet{Fleet: testbed.NewFleet(t), lab: newLab(t, agent), t: t, service: "svc-" + string(backend.NewNonce()[:12])}
	t.Cleanup(func() {
		wipe(f.root, "leader-election/"+f.service)
		wipe(f.root, "fleet/"+f.service)
	})
	return f
}

// dotnet starts a replay of a FireflySoft member, and golang a member of this module. Their ids are
// unique on the agent, which names services by them.
func (f *fleet) dotnet(id string) *testbed.FleetMember {
	id += "." + f.service
	f.t.Cleanup(func() { f.root.Agent().ServiceDeregister("le:" + id) })
	return f.Program(id, false, replayArg, &replay{
		URL: f.agent.URL(), Service: f.service, ID: id, FailoverDelay: mixed.FailoverDelay, Confirm: mixed.ConfirmNumber, Interval: mixed.ConfirmInterval,
		CheckTTL: 3 * time.Second, Wait: 5 * time.Second,
	})
}

func (f *fleet) golang(id string) *testbed.FleetMember { return f.at(id, "") }

// at starts a member of this module at a stage of the migration to MySQL.
func (f *fleet) at(id, stage string) *testbed.FleetMember {
	id += "." + f.service
	return f.Program(id, true, memberArg, part{f.agent.URL(), f.service, id, migration.Stage(stage), f.dsn})
}

const patience = 3 * time.Minute

// Members of this module follow a FireflySoft leader. When it is killed, one of them succeeds it, but
// not before the fleet's waiting time. They hand over among themselves. When they are killed, a
// FireflySoft member succeeds them.
func TestAFireflySoftFleetIsJoined(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	theirs := f.dotnet("dotnet-1")
	f.Leads(theirs)
	a, b := f.golang("go-a"), f.golang("go-b")
	watcher, err := Open(consul.Options{Address: f.agent.URL(), Prefix: f.prefix}, mixed)
	fatal(t, err)
	defer watcher.Close()
	seen, err := watcher.Observe(t.Context(), []backend.Lease{{Election: f.service}})
	if err != nil || len(seen) != 1 || seen[0].Holder.ID != theirs.ID || seen[0].ObserveFor != backend.ExpiresInStore {
		t.Fatalf("want dotnet-1 shown as a leader that only Consul can end, got %+v, %v", seen, err)
	}
	f.members(2)
	next := f.dotnet("dotnet-2")
	theirs.Kill()
	gone := f.waitUntilFree()
	first := f.Leads(a, b, next) // any of them: all wait equally long
	led := first.Led()
	since := led[len(led)-1].From.Sub(gone)
	if least := mixed.confirmWait(); since < least {
		t.Errorf("%s leads %v after the old leader has gone, which may return for %v", first.ID, since, least)
	}
	if first == next { // a member of this module still has to lead
		next.Kill()
		first = f.Leads(a, b)
		next = f.dotnet("dotnet-3")
	}
	second := a
	if first == a {
		second = b
	}
	first.Resign()
	f.Leads(second)
	second.Kill()
	f.Leads(next)
	f.OneLeaderAtMost()
}

// waitUntilFree waits until nobody has the lock, and returns a time before that.
func (f *fleet) waitUntilFree() (at time.Time) {
	f.t.Helper()
	testbed.Eventually(f.t, patience, "the end of a session", func() error {
		asked := time.Now()
		pair, _, err := f.root.KV().Get("leader-election/"+f.service+"/leader", (&api.QueryOptions{RequireConsistent: true}).WithContext(f.t.Context()))
		if err != nil || pair != nil && pair.Session != "" {
			return cmp.Or(err, error(consulagent.ErrConflict))
		}
		at = asked
		return nil
	})
	return at.Add(-time.Second) // Eventually does not check all the time
}

// members waits until n members of this module take part.
func (f *fleet) members(n int) {
	f.t.Helper()
	other, err := Open(consul.Options{Address: f.agent.URL(), Prefix: "fleet/" + f.service}, mixed)
	fatal(f.t, err)
	defer other.Close()
	testbed.Eventually(f.t, patience, "members", func() error {
		list, err := other.Members(f.t.Context(), "", 10)
		if err == nil && len(list) < n {
			err = consulagent.ErrConflict
		}
		return err
	})
}

// A suspended leader of either kind is succeeded by the other kind. A leader of this module does not
// lead for an instant after it resumes.
func TestAStoppedLeaderOfAMixedFleetIsSucceeded(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ours := f.golang("go-a")
	f.Leads(ours)
	theirs := f.dotnet("dotnet-1")
	ours.Stop()
	f.Leads(theirs)
	ours.Continue()
	other := f.golang("go-b")
	theirs.Stop() // it goes on believing, which nothing can prevent
	f.Leads(ours, other)
	theirs.Kill()
	f.OneLeaderAtMost()
}

// The old leader, of either kind, returns before anyone else may lead.
func TestTheOldLeaderOfAMixedFleetReturnsFirst(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ours := f.golang("go-a")
	f.Leads(ours)
	theirs := f.dotnet("dotnet-1")
	follower := f.golang("go-b")
	ours.Kill()
	ours = f.golang("go-a") // at once, with the same id
	if who := f.Leads(ours, theirs, follower); who != ours {
		t.Errorf("%s leads, and not go-a, the last leader, which returned at once", who.ID)
	}
	follower.Resign()
	ours.Kill()
	f.Leads(theirs)
	follower = f.golang("go-c")
	theirs.Kill()
	back := f.dotnet("dotnet-1")
	if who := f.Leads(back, follower); who != back {
		t.Errorf("%s leads, and not dotnet-1, the last leader, which returned at once", who.ID)
	}
	f.OneLeaderAtMost()
}

// TestTheRoadFromFireflySoftToMySQLAndBack moves a fleet to MySQL and back while members are killed:
// see [testbed.Road].
func TestTheRoadFromFireflySoftToMySQLAndBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	db := testbed.Shared(t, testbed.MariaDB).Database(t)
	fatal(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, db.Admin), "", ""))
	f.dsn = db.User.FormatDSN()
	reader, err := Open(consul.Options{Address: f.agent.URL(), Prefix: "fleet/" + f.service}, mixed)
	fatal(t, err)
	defer reader.Close()
	road := testbed.Road{Fleet: f.Fleet, Theirs: f.dotnet, Waits: (*testbed.FleetMember).Waits, Ours: f.at}
	road.Moved = func() (string, error) {
		seen, err := reader.Observe(t.Context(), []backend.Lease{{Election: f.service}})
		if err != nil || len(seen) != 1 {
			return "", cmp.Or(err, error(consulagent.ErrConflict))
		}
		return seen[0].MovedTo, nil
	}
	road.ThereAndBack()
}
