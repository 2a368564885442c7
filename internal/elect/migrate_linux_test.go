package elect

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/lab/testbed"
)

// A migratingFleet is a fleet of "elect run" that moves from files to MySQL.
type migratingFleet struct {
	t    *testing.T
	env  []string        // of "elect migrate status": stage both
	both backend.Backend // the store at that stage
}

// start starts a member at a stage. Stage "" is a member with backend file, without a migration.
func (m migratingFleet) start(id string, stage migration.Stage) *member {
	m.t.Helper()
	env := append(slices.Clone(m.env), "ELECTION_MIGRATION_STAGE="+string(stage))
	if stage == "" {
		env = append(env, "ELECTION_BACKEND=file")
	}
	return start(m.t, env, "run", "job", "--id", id, "--", "sleep", "3000")
}

// end ends a member in order.
func (m migratingFleet) end(x *member) {
	m.t.Helper()
	if err := x.Process.Signal(syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	x.code()
}

// want waits until "elect migrate status" shows this row of the election, these members, and a next step that begins so.
func (m migratingFleet) want(what, row string, members map[string]int, next string) {
	m.t.Helper()
	wants, all := []string{"job " + row + "\n", "next: " + next}, 0
	for stage, n := range members {
		if all += n; stage == stageNew {
			wants = append(wants, fmt.Sprintf("members that elect by rows alone: %d\n", n))
		} else {
			wants = append(wants, fmt.Sprintf("members at %s: %d\n", stage, n))
		}
	}
	// Members that have ended are counted for two more TTLs. To wait for that by starting
	// the command again and again would load the machine.
	testbed.Eventually(m.t, patience, what+": no member that has ended is counted", func() error {
		list, err := m.both.Members(m.t.Context(), "", 10)
		if err == nil && len(list) != all {
			err = fmt.Errorf("%d members are counted; want %d", len(list), all)
		}
		return err
	})
	testbed.Eventually(m.t, patience, what, func() error {
		out, code := call(m.t, m.env, "migrate", "status")
		text := regexp.MustCompile(` +`).ReplaceAllString(out, " ")
		for _, want := range wants {
			if code != 0 || !strings.Contains(text, want) {
				return fmt.Errorf("code %d; want %q in\n%s", code, want, out)
			}
		}
		return nil
	})
}

// At each step that "elect migrate status" advises, it shows what the two stores hold.
func TestMigrateStatusFollowsAFleet(t *testing.T) {
	t.Parallel()
	env := onFiles(t, onServer(t, testbed.Shared(t, testbed.MariaDB))...)
	env = append(env, "ELECTION_TTL=5s", "ELECTION_BACKEND=migration", "ELECTION_MIGRATION_FROM=file", "ELECTION_MIGRATION_TO=mysql", "ELECTION_MIGRATION_TO_NAME=rows", "ELECTION_MIGRATION_STAGE=both")
	c, err := config.Parse("", nil, config.Options{Environ: env})
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.OpenBackend()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	m := migratingFleet{t, env, b}

	one := m.start("one", "")
	one.says("elect: leads")
	two := m.start("two", migration.From)
	two.says(`"one" leads`)
	const begin = "deploy the members at from with stage both"
	m.want("all at from", "one - on the old store", map[string]int{"from": 2}, begin)

	m.end(two)
	two = m.start("two", migration.Both)
	two.says(`"one" leads`)
	m.want("one at from, one at both", "one - on the old store", map[string]int{"from": 1, "both": 1}, begin)
	m.end(one)
	two.says("elect: leads")
	one = m.start("one", migration.Both)
	one.says(`"two" leads`)
	const together, goOn = "one member holds both leases", "when no process elects by the old store alone, deploy the members at both with stage to"
	m.want("all at both", "two two "+together, map[string]int{"both": 2}, goOn)

	m.end(one)
	one = m.start("one", migration.To)
	one.says(`"two" leads`)
	m.want("one at both, one at to", "two two "+together, map[string]int{"both": 1, "to": 1}, goOn)
	m.end(two)
	one.says("elect: leads")
	two = m.start("two", migration.To)
	two.says(`"one" leads`)
	const sealed = "- one moved: the old store is sealed"
	m.want("all at to", sealed, map[string]int{"to": 2}, "all elections are sealed: the configuration may name backend mysql alone")
	three := start(t, append(slices.Clone(env), "ELECTION_BACKEND=mysql"), "run", "job", "--id", "three", "--", "sleep", "3000")
	three.says(`"one" leads`)
	m.want("two at to, one on the new store alone", sealed, map[string]int{"to": 2, "new": 1}, "all elections are sealed: the configuration may name backend mysql alone")
	m.end(three)
	late := m.start("late", "")
	late.says("nobody leads \"job\" on this store: election \"job\" has moved to rows")
	m.end(late)
}

func TestMigrateStatusSaysTheNextStep(t *testing.T) {
	t.Parallel()
	sealed := progressOf("job", backend.Record{Lease: backend.Lease{MovedTo: "mysql"}}, backend.Record{Lease: backend.Lease{MovedFrom: "etcd", Holder: backend.Candidate{ID: "a"}}}, "etcd", "mysql")
	if !sealed.sealed {
		t.Errorf("the seal and the record are there: %+v", sealed)
	}
	unsealed := progressOf("job", backend.Record{}, backend.Record{Lease: backend.Lease{MovedFrom: "unsealed etcd", Holder: backend.Candidate{ID: "a"}}}, "etcd", "mysql")
	if unsealed.sealed || unsealed.text != "the new store alone decides; the old store is not sealed" {
		t.Errorf("there is a record without a seal: %+v", unsealed)
	}
	back := progressOf("job", backend.Record{}, backend.Record{Lease: backend.Lease{MovedTo: "etcd"}}, "etcd", "mysql")
	if !back.back || back.sealed || back.text != "moved back: the new store is sealed" {
		t.Errorf("the new store is sealed: %+v", back)
	}
	for want, r := range map[string]migrationProgress{
		"deploy those at from with stage both; those at to": {members: map[string]int{"from": 1, "to": 1}},
		"with stage both":               {members: map[string]int{"from": 1, "both": 2}},
		"with stage to":                 {members: map[string]int{"both": 2}},
		"both with stage from":          {members: map[string]int{"both": 2}, elections: []electionProgress{back}},
		"those at from with stage both": {members: map[string]int{"from": 1, "both": 1}, elections: []electionProgress{back}},
		"0 of 1":                        {members: map[string]int{"to": 2}, elections: []electionProgress{{}}},
		"backend mysql alone":           {members: map[string]int{"to": 2}, elections: []electionProgress{sealed}, backend: "mysql"},
	} {
		if next := r.next(); !strings.Contains(next, want) {
			t.Errorf("%+v: next is %q, expected %q", r, next, want)
		}
	}
	env := onFiles(t)
	if out, code := call(t, env, "migrate", "status"); code != exitElect || !strings.Contains(out, "backend: migration") {
		t.Errorf("without a migration: code %d: %s", code, out)
	}
}

// At stage from a process leads by the lock of a file alone, and at stage both by that, too. The guard of its command has the
// lock, so nobody else leads before the command has ended.
func TestTheCommandKeepsTheLockOfItsStage(t *testing.T) {
	t.Parallel()
	for _, stage := range []migration.Stage{migration.From, migration.Both} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			a := start(t, onFiles(t, "ELECTION_BACKEND=migration", "ELECTION_MIGRATION_STAGE="+string(stage), "ELECTION_MIGRATION_FROM=file", "ELECTION_MIGRATION_TO=memory"),
				"run", "job", "--", "sleep", "3000")
			a.says("leads")
			testbed.Eventually(t, patience, "the guard of the command has the lock", func() error {
				files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", a.descendants()["elect-guard"]))
				for i, file := range files {
					files[i], _ = os.Readlink(file)
				}
				if !slices.ContainsFunc(files, func(to string) bool { return strings.Contains(to, "/leases/") }) {
					return fmt.Errorf("it has %q", files)
				}
				return nil
			})
		})
	}
}
