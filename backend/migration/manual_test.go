package migration_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

const (
	realTTL  = 3 * time.Second
	patience = 3 * time.Minute // a kill takes a few seconds of it
)

// The test binary is also the program of these members.
const pinnedArg = "GO_ELECTION_TEST_PINNED_MEMBER"

// A machine is the argument of such a process. All have the same configuration: it names a.
type machine struct {
	ID, DSN, Election string
	Stage             migration.Stage // at to with Unsealed; "": it uses the new store alone
}

// pinnedMember is the program of these members.
func pinnedMember(arg string) {
	var m machine
	err := json.Unmarshal([]byte(arg), &m)
	var b backend.Backend
	if err == nil {
		b, err = m.open()
	}
	testbed.PlayMember(b, err, election.Options{ID: m.ID, TTL: realTTL}, m.Election)
}

func (m machine) open() (backend.Backend, error) {
	o := migration.Options{Stage: m.Stage, Unsealed: m.Stage == migration.To}
	var err error
	if m.Stage != migration.From {
		if o.To, err = mysql.Open(mysql.Options{DSN: m.DSN}); err != nil || m.Stage == "" {
			return o.To, err
		}
	}
	if o.From, err = manual.Open(manual.Options{Leader: "a"}); err != nil || m.Stage == migration.From {
		return o.From, err // at stage from it uses the old store without a migration
	}
	return migration.New(o)
}

// Machines are a fleet of such processes on one server.
type machines struct {
	*testbed.Fleet
	t   *testing.T
	dsn string
}

// start starts a member, and waits until it follows.
func (f *machines) start(id string, stage migration.Stage) *testbed.Member {
	f.t.Helper()
	return f.startIn("jobs", id, stage)
}

func (f *machines) startIn(name, id string, stage migration.Stage) *testbed.Member {
	f.t.Helper()
	label := id + " at " + string(stage)
	if stage == "" {
		label = id + " on mysql alone"
	}
	m := f.Program(label, true, pinnedArg, machine{id, f.dsn, name, stage})
	testbed.Eventually(f.t, patience, label+" to follow", func() error {
		if m.Last("follows") == "" {
			return errors.New("it has printed nothing")
		}
		return nil
	})
	return m
}

// roll replaces members, one by one, by members of the same ids at the next stage.
func (f *machines) roll(stage migration.Stage, old map[string]*testbed.Member, ids ...string) map[string]*testbed.Member {
	f.t.Helper()
	next := map[string]*testbed.Member{}
	for _, id := range ids {
		if old[id] != nil {
			old[id].Resign()
		}
		next[id] = f.start(id, stage)
	}
	return next
}

// knows waits until a member knows the leader. On a busy machine the leader may have changed.
func (f *machines) knows(m *testbed.Member) {
	f.t.Helper()
	testbed.Eventually(f.t, patience, m.ID+" to know the leader", func() error {
		if line := m.Last("follows"); strings.TrimSpace(line) == "follows" {
			return errors.New("it follows nobody")
		}
		return nil
	})
}

// neverLed fails the test if one of these members has ever believed to lead.
func (f *machines) neverLed(why string, members ...*testbed.Member) {
	f.t.Helper()
	for _, m := range members {
		if led := m.Led(); len(led) > 0 {
			f.t.Errorf("%s has led, but %s: %v", m.ID, why, led)
		}
	}
}

// Three processes, whose configuration names the leader and which have no directory, migrate to
// MySQL and go back. At the stages that use the configuration only the named one leads. A
// configuration cannot be sealed. MySQL can, and is sealed on the way back.
func TestTheRoadFromAPinnedMachineToMySQLAndBack(t *testing.T) {
	t.Parallel()
	db := testbed.Shared(t, testbed.MariaDB).Database(t)
	if err := mysql.CreateTables(t.Context(), testbed.OpenDB(t, db.Admin), "", ""); err != nil {
		t.Fatal(err)
	}
	f := &machines{testbed.NewFleet(t), t, db.User.FormatDSN()}
	const named = "the configuration names a"

	from := f.roll(migration.From, nil, "a", "b", "c")
	f.Leads(from["a"])
	from["b"].Follows("a ")
	from["c"].Follows("a ")

	both := f.roll(migration.Both, from, "b", "c", "a")
	f.Leads(both["a"])
	both["b"].Follows("a ")
	both["a"].Kill()
	both["a"] = f.start("a", migration.Both)
	f.Leads(both["a"]) // the lease of the killed one has expired, and no other member has taken it over
	f.neverLed(named, from["b"], from["c"], both["b"], both["c"])

	to := f.roll(migration.To, both, "b", "c")
	f.knows(to["b"])
	both["a"].Resign()
	leader := f.Leads(to["b"], to["c"])
	to["a"] = f.start("a", migration.To)
	f.knows(to["a"])
	straggler := f.start("d", migration.To)
	f.knows(straggler)
	straggler.Stop()
	leader.Kill()
	delete(to, leader.ID[:1])
	var left []*testbed.Member
	for _, m := range to {
		left = append(left, m)
	}
	f.Leads(left...)

	both = f.roll(migration.Both, to, "c", "b", "a")
	f.Leads(both["a"])
	from = f.roll(migration.From, both, "c", "b", "a")
	f.Leads(from["a"])
	from["b"].Follows("a ")
	f.neverLed(named, from["b"], from["c"], both["b"], both["c"])

	// Three members are left behind. A takeover of another election on that server shows how
	// long they would need to lead.
	elsewhere := &machines{testbed.NewFleet(t), t, f.dsn}
	first := elsewhere.startIn("other", "x", "")
	elsewhere.Leads(first)
	second := elsewhere.startIn("other", "y", "")
	elsewhere.knows(second)
	straggler.Continue()
	late, alone := f.start("e", migration.To), f.start("f", "")
	first.Kill()
	elsewhere.Leads(second)
	f.Leads(from["a"])
	f.neverLed("the fleet has gone back", straggler, late, alone)
	f.NeverTwo()
}
