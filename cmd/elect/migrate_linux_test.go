package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/internal/testbed"
)

// A mover is a fleet of "elect run" on the way from files to MySQL.
type mover struct {
	t    *testing.T
	env  []string        // of "elect migrate status": stage both
	both backend.Backend // opened so
}

// start starts a member at a stage; "" is one that knows files alone.
func (m mover) start(id string, stage migration.Stage) *member {
	m.t.Helper()
	env := append(slices.Clone(m.env), "ELECTION_MIGRATION_STAGE="+string(stage))
	if stage == "" {
		env = append(env, "ELECTION_BACKEND=file")
	}
	return start(m.t, env, "run", "job", "--id", id, "--", "sleep", "3000")
}

// ends ends a member in order.
func (m mover) ends(who *member) {
	m.t.Helper()
	if err := who.Process.Signal(syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	who.code()
}

// at waits until the command says where the fleet is. The next step need only contain
// these words.
func (m mover) at(what string, job move, members map[string]int, next string) {
	m.t.Helper()
	job.Election = "job"
	// Members that have gone are counted for two TTLs more. That is not waited for by
	// starting the command again and again.
	want := 0
	for _, n := range members {
		want += n
	}
	testbed.Eventually(m.t, patience, what+": nobody who has gone is counted", func() error {
		list, err := m.both.Members(m.t.Context(), "", 10)
		if err == nil && len(list) != want {
			err = fmt.Errorf("%d members are counted; want %d", len(list), want)
		}
		return err
	})
	testbed.Eventually(m.t, patience, what, func() error {
		out, code := call(m.t, m.env, "migrate", "status", "--json")
		var r road
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
			return fmt.Errorf("code %d, %v: %s", code, err, out)
		}
		if r.From != "file" || r.To != "rows" || !slices.Equal(r.Moves, []move{job}) || !maps.Equal(r.Members, members) || !strings.Contains(r.Next, next) {
			return fmt.Errorf("elect migrate status says %+v; want the election %+v, members %v, and next %q", r, job, members, next)
		}
		return nil
	})
}

// TestMigrateStatusFollowsAFleetThereAndBack: what it says is what stands in the two
// stores, at each step that its advice leads to.
func TestMigrateStatusFollowsAFleetThereAndBack(t *testing.T) {
	t.Parallel()
	env := onFiles(t, onServer(t, testbed.Shared(t, testbed.MariaDB))...)
	env = append(env, "ELECTION_TTL=5s", "ELECTION_BACKEND=migration", "ELECTION_MIGRATION_FROM=file", "ELECTION_MIGRATION_TO=mysql", "ELECTION_MIGRATION_TO_NAME=rows", "ELECTION_MIGRATION_STAGE=both")
	c, err := config.Parse("", nil, &config.Options{Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.OpenBackend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	m := mover{t, env, b}

	one := m.start("one", "")
	one.says("elect: leads")
	two := m.start("two", migration.From)
	two.says(`"one" leads`)
	const begin = "deploy the members at from with stage both"
	m.at("all at from", move{Old: "one", Text: "on the old store"}, map[string]int{"from": 2}, begin)

	m.ends(two)
	two = m.start("two", migration.Both)
	two.says(`"one" leads`)
	m.at("one at from, one at both", move{Old: "one", Text: "on the old store"}, map[string]int{"from": 1, "both": 1}, begin)
	m.ends(one)
	two.says("elect: leads")
	one = m.start("one", migration.Both)
	one.says(`"two" leads`)
	const together, goOn = "both leases are held by one", "when nobody elects by the old store alone, deploy the members at both with stage to"
	m.at("all at both", move{Old: "two", New: "two", Text: together}, map[string]int{"both": 2}, goOn)

	m.ends(one)
	one = m.start("one", migration.To)
	one.says(`"two" leads`)
	m.at("one at both, one at to", move{Old: "two", New: "two", Text: together}, map[string]int{"both": 1, "to": 1}, goOn)
	m.ends(two)
	one.says("elect: leads")
	two = m.start("two", migration.To)
	two.says(`"one" leads`)
	sealed := move{New: "one", Sealed: true, Text: "moved: the old store is sealed"}
	m.at("all at to", sealed, map[string]int{"to": 2}, "all elections are sealed: the configuration may name backend mysql alone")
	if out, code := call(t, m.env, "migrate", "status"); code != 0 || !strings.Contains(out, sealed.Text) || !strings.Contains(out, "members at to: 2\nnext: all elections are sealed") {
		t.Errorf("code %d: for people it says\n%s", code, out)
	}

	three := start(t, append(slices.Clone(env), "ELECTION_BACKEND=mysql"), "run", "job", "--id", "three", "--", "sleep", "3000")
	three.says(`"one" leads`)
	m.at("two at to, one beyond", sealed, map[string]int{"to": 2, "new": 1}, "all elections are sealed: the configuration may name backend mysql alone")
	m.ends(three)

	m.ends(two)
	two = m.start("two", migration.Both)
	two.says(`"one" leads`)
	m.ends(one)
	two.says("elect: leads")
	one = m.start("one", migration.Both)
	one.says(`"two" leads`)
	const back = "gone back: the new store is sealed"
	m.at("all back at both", move{Old: "two", New: "two", Back: true, Text: back}, map[string]int{"both": 2}, "with stage from to finish the way back")

	m.ends(two)
	one.says("elect: leads")
	two = m.start("two", migration.From)
	two.says(`"one" leads`)
	m.ends(one)
	two.says("elect: leads")
	m.at("back at from", move{Old: "two", Back: true, Text: back}, map[string]int{"from": 1}, begin)
}
