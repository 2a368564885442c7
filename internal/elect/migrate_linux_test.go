package elect

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/config"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// At each step that "elect migrate status" advises, it shows what the two stores hold.
func TestMigrateStatusFollowsAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, new := memory.New(), memory.New()
		at := func(stage migration.Stage) backend.Backend { // "": the old store alone
			switch stage {
			case "":
				return old.Backend()
			case stageNew:
				return new.Backend()
			}
			b, err := migration.New(migration.Options{From: old.Backend(), FromName: "files", To: new.Backend(), ToName: "rows", Stage: stage})
			testbed.NoError(t, err)
			return b
		}
		start := func(id string, stage migration.Stage) (end func()) {
			m, err := election.New(at(stage), election.Options{ID: id, TTL: 5 * time.Second})
			testbed.NoError(t, err)
			e, err := m.Join("job")
			if err == nil {
				err = e.Lead(nil)
			}
			testbed.NoError(t, err)
			time.Sleep(time.Second)
			return func() { m.Close(t.Context()) }
		}
		want := func(row, members, next string) {
			t.Helper()
			time.Sleep(15 * time.Second) // until no member that has ended is counted
			both := at(migration.Both)
			defer both.Close()
			var out bytes.Buffer
			testbed.NoError(t, (&app{out: &out}).migrationStatus(t.Context(), &store{both, election.Options{}, &config.Config{}}, nil))
			text := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " ")
			if !strings.Contains(text, "job "+row+"\n"+members+"\nnext: "+next) {
				t.Errorf("want %q, %q and %q in\n%s", row, members, next, text)
			}
		}
		const begin, goOn = "deploy the members at from with stage both", "when no process elects by the old store alone, deploy the members at both with stage to"
		const together, sealed = "two two one member holds both leases", "- one moved: the old store is sealed"
		const complete = "all elections are sealed: the configuration may name backend memory alone"

		endOne, endTwo := start("one", ""), start("two", migration.From)
		want("one - on the old store", "members at from: 2", begin)
		endTwo()
		endTwo = start("two", migration.Both)
		want("one - on the old store", "members at from: 1\nmembers at both: 1", begin)
		endOne()
		endOne = start("one", migration.Both)
		want(together, "members at both: 2", goOn)
		endOne()
		endOne = start("one", migration.To)
		want(together, "members at both: 1\nmembers at to: 1", goOn)
		endTwo()
		endTwo = start("two", migration.To)
		want(sealed, "members at to: 2", complete)
		endThree := start("three", stageNew)
		want(sealed, "members at to: 2\nmembers at new: 1", complete)
		for _, end := range []func(){endThree, endTwo, endOne} {
			end()
		}
	})
}

func TestMigrateStatusSaysTheNextStep(t *testing.T) {
	t.Parallel()
	for want, r := range map[string][2]backend.Lease{
		"moved: the old store is sealed":                           {{MovedTo: "mysql"}, {MovedFrom: "etcd", Holder: backend.Candidate{ID: "a"}}},
		"the new store alone decides; the old store is not sealed": {{}, {MovedFrom: "unsealed etcd", Holder: backend.Candidate{ID: "a"}}},
		"moved back: the new store is sealed":                      {{}, {MovedTo: "etcd"}},
	} {
		p := migrationProgress{from: "etcd", to: "mysql"}
		if text := p.add(backend.Record{Lease: r[0]}, backend.Record{Lease: r[1]}); text != want {
			t.Errorf("%+v: %q, want %q", r, text, want)
		}
	}
	for want, r := range map[string]migrationProgress{
		"may both lead":       {members: map[migration.Stage]int{"from": 1, "to": 1}},
		"with stage both":     {members: map[migration.Stage]int{"from": 1, "both": 2}},
		"with stage to":       {members: map[migration.Stage]int{"both": 2}},
		"all members":         {members: map[migration.Stage]int{"from": 1, "both": 1}, back: true},
		"0 of 1":              {members: map[migration.Stage]int{"to": 2}, elections: 1},
		"backend mysql alone": {members: map[migration.Stage]int{"to": 2}, elections: 1, sealed: 1, backend: "mysql"},
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
// lock, so nobody else leads before the command has ended, also if a process may have few files.
func TestTheCommandKeepsTheLockOfItsStage(t *testing.T) {
	t.Parallel()
	for stage, limit := range map[migration.Stage]string{migration.From: "64", migration.Both: "1024"} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			env := onFiles(t, "ELECTION_BACKEND=migration", "ELECTION_MIGRATION_STAGE="+string(stage), "ELECTION_MIGRATION_FROM=file", "ELECTION_MIGRATION_TO=memory")
			a := program(t, env, "sh", "-c", "ulimit -n "+limit+`; exec "$0" run job -- sleep 3000`, binary)
			a.run()
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

// A process with the configuration from before a migration says at once that nobody leads there any more.
func TestRunSaysThatAnElectionHasMoved(t *testing.T) {
	t.Parallel()
	env := onFiles(t, "ELECTION_BACKEND=migration", "ELECTION_MIGRATION_STAGE=to", "ELECTION_MIGRATION_FROM=file", "ELECTION_MIGRATION_TO=memory")
	if out, code := call(t, env, "run", "job", "--", "true"); code != 0 {
		t.Fatalf("code %d: %s", code, out)
	}
	late := start(t, append(env, "ELECTION_BACKEND=file"), "run", "job", "--", "sleep", "3000")
	late.says("has moved to memory")
}
