package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// Whoever reads --help has nothing yet: the example is run as it stands, by a shell in an
// empty directory, with PATH and HOME and nothing else.
func TestEveryExampleOfHelpWorks(t *testing.T) {
	t.Parallel()
	root := (&app{}).root()
	n := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		n++
		if c.Short == "" {
			t.Errorf("%s does not say what it is", c.CommandPath())
		}
		t.Run(c.CommandPath(), func(t *testing.T) {
			t.Parallel()
			if words := strings.Fields(c.CommandPath()); !strings.Contains(c.Example, words[0]) || !strings.Contains(c.Example, words[len(words)-1]) {
				t.Fatalf("it is not in its example: %q", c.Example)
			}
			dir := testbed.TempDir(t)
			sh := &member{Cmd: exec.Command("sh", "-e", "-c", c.Example), t: t, ended: make(chan struct{})}
			sh.Dir, sh.Env = dir, []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + dir}
			sh.run()
			if code := sh.code(); code != 0 {
				t.Errorf("code %d:\n%s\n%s", code, c.Example, sh.output.String())
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if n < 24 {
		t.Errorf("there are only %d commands", n)
	}
}

func TestStatusListAndHistory(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	if out, code := call(t, env, "list"); code != 0 || !strings.Contains(out, "no elections yet") {
		t.Errorf("an empty store: code %d: %s", code, out)
	}
	if out, code := call(t, env, "status", "job"); code != exitVacant || !strings.Contains(out, "nobody has led yet") {
		t.Errorf("a new election: code %d: %s", code, out)
	}
	for range 2 {
		call(t, env, "run", "job", "--id", "first", "--", "true")
	}
	m := start(t, env, "run", "job", "--id", "second", "--", "sleep", "300")
	m.says("elect: leads")
	out, code := call(t, env, "status", "job", "--json")
	var s state
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 || s.Leader == nil || s.Leader.ID != "second" || len(s.History) != 2 || s.Term == 0 || s.End != backend.Released {
		t.Errorf("code %d, %v: %s", code, err, out)
	}
	if s.Term < 1<<50 || !strings.Contains(out, fmt.Sprintf(`"term":"%d"`, s.Term)) || strings.Count(out, `"term":"`) != 3 {
		t.Errorf("a term is a text in JSON, that of the leadership and those of the past: %s", out)
	}
	if list, _ := call(t, env, "list", "--json"); strings.Count(list, `"term":"`) != 3 || strings.Contains(list, `"term":1`) {
		t.Errorf("list: %s", list)
	}
	start(t, env, "watch", "job").says(fmt.Sprintf(`"term":"%d"`, s.Term))
	if out, code := call(t, env, "history", "job"); code != 0 || strings.Count(out, "first") != 2 || !strings.Contains(out, "leads") {
		t.Errorf("history: code %d: %s", code, out)
	}
	if out, code := call(t, env, "list"); code != 0 || !strings.Contains(out, "second") {
		t.Errorf("list: code %d: %s", code, out)
	}
	for _, args := range [][]string{{"status"}, {"status", "job"}, {"status", "job", "--json"}} {
		if out, _ := call(t, env, args...); !strings.Contains(out, "file /") || !strings.Contains(out, "/leases") {
			t.Errorf("%q does not say which store this is: %s", args, out)
		}
	}
}

// Its lease has run out, so it cannot lead, though the record still names it.
func TestALeaderThatIsSilentDoesNotLead(t *testing.T) {
	t.Parallel()
	own := "silent-" + backend.NewNonce()[:8]
	for store, vars := range map[string][]string{
		"mysql":     onServer(t, testbed.Shared(t, testbed.MariaDB)),
		"etcd":      {"ELECTION_ETCD_ENDPOINTS=" + strings.Join(testbed.SharedEtcd(t), ","), "ELECTION_ETCD_PREFIX=" + own + "/"},
		"consul":    {"ELECTION_CONSUL_ADDRESS=" + testbed.SharedConsul(t).URL(), "ELECTION_CONSUL_PREFIX=" + own},
		"zookeeper": {"ELECTION_ZOOKEEPER_SERVERS=" + strings.Join(testbed.SharedZooKeeper(t), ","), "ELECTION_ZOOKEEPER_ROOT=/" + own},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			env := environ(t.TempDir(), append(vars, "ELECTION_BACKEND="+store, "ELECTION_TTL=10s")...)
			m := start(t, env, "run", "job", "--id", "one", "--", "sleep", "300")
			m.says("elect: leads")
			ended := store == "zookeeper" // it may end the session before anybody looks
			status := func(want int, silent bool) {
				t.Helper()
				testbed.Eventually(t, patience, fmt.Sprintf("status is %d, silent %v", want, silent), func() error {
					out, code := call(t, env, "status", "job", "--json")
					if _, all := call(t, env, "list", "--json"); code != want || all != 0 || strings.Contains(out, `"silent":true`) != silent && !(silent && ended && strings.Contains(out, `"leader":null`)) {
						return fmt.Errorf("code %d, list has %d:\n%s", code, all, out)
					}
					var s state
					if err := json.Unmarshal([]byte(out), &s); err != nil || !silent && (s.Elected == nil || time.Since(*s.Elected) < 12*time.Second) {
						return fmt.Errorf("it has not led for longer than a TTL yet (%v):\n%s", err, out)
					}
					return nil
				})
			}
			status(0, false)
			m.Process.Kill()
			status(exitVacant, true)
			if out, code := call(t, env, "status", "job"); code != exitVacant || !strings.Contains(out, "one (silent)") && !(ended && strings.Contains(out, "nobody; the last was")) {
				t.Errorf("code %d:\n%s", code, out)
			}
		})
	}
}

// Who watches with a member's own configuration is not another member of its id.
func TestWatchDoesNotUseTheIDOfTheConfiguration(t *testing.T) {
	t.Parallel()
	env := onFiles(t, "ELECTION_ID=host-1", "ELECTION_TTL=2s")
	start(t, env, "run", "job", "--", "sleep", "300").says("elect: leads")
	// For several TTLs: a notice would come after the first.
	if out, code := call(t, env, "watch", "job", "--for", "10s"); code != 0 || !strings.Contains(out, `"leader":"host-1"`) || strings.Contains(out, "same id") {
		t.Errorf("code %d, and a leader, but no notice, is expected:\n%s", code, out)
	}
}

// What watch finds is no change, and is as old as the store says: nobody is to be woken
// by it.
func TestWatchSaysWhatIsNoChangeAndSinceWhen(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	if out, code := call(t, env, "run", "job", "--", "true"); code != 0 {
		t.Fatalf("run: code %d: %s", code, out)
	}
	ended := time.Now()
	var line struct {
		Kind        string
		First       bool
		Time, Since time.Time
	}
	out, code := call(t, env, "watch", "job", "--for", "2s")
	last := out[strings.LastIndexByte(strings.TrimRight(out, "\n"), '\n')+1:]
	if err := json.Unmarshal([]byte(last), &line); err != nil || code != 0 {
		t.Fatalf("watch: code %d, %v:\n%s", code, err, out)
	}
	if line.Kind != "vacant" || !line.First || line.Since.IsZero() || line.Since.After(ended) || !line.Time.After(ended) {
		t.Errorf("nobody has led since %v; watch says in the end: %s", ended, last)
	}
}

// A third of a TTL of 10s is shown as people would say it.
func TestDurationsAreShownInFewDigits(t *testing.T) {
	t.Parallel()
	env := onFiles(t, "ELECTION_TTL=10s")
	start(t, env, "run", "job", "--", "sleep", "300").says("elect: leads")
	long := regexp.MustCompile(`\S*\d\.\d{4,}\S*`)
	for _, args := range [][]string{{"doctor", "--write"}, {"status", "job"}, {"list"}, {"depose", "job"}, {"run", "job", "--grace", "20s", "--", "true"}, {"-c", "late.yaml", "list"}} {
		m := &member{Cmd: exec.Command(binary, args...), t: t, ended: make(chan struct{})}
		m.Env, m.Dir = env, t.TempDir()
		if err := os.WriteFile(filepath.Join(m.Dir, "late.yaml"), []byte("call_timeout: 6s\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		m.run()
		m.code()
		if out := m.output.String(); out == "" || long.MatchString(out) {
			t.Errorf("elect %q shows %q:\n%s", args, long.FindAllString(out, -1), out)
		}
	}
}

// Nothing listens there: it is known without the store.
func TestWhoeverReadsIsRefusedTheTimingsThatRunIsRefused(t *testing.T) {
	t.Parallel()
	zookeeper := []string{"ELECTION_BACKEND=zookeeper", "ELECTION_ZOOKEEPER_SERVERS=127.0.0.1:1"}
	for want, env := range map[string][]string{
		"ttl: -1s is less than 0":                                        onFiles(t, "ELECTION_TTL=-1s"),
		"ttl: must be more than 0":                                       onFiles(t, "ELECTION_TTL=0s"),
		"is 2h0m0s, the greatest that":                                   onFiles(t, "ELECTION_TTL=2h"),
		"is 500ms, the least that backend consul":                        environ(t.TempDir(), "ELECTION_BACKEND=consul", "ELECTION_CONSUL_ADDRESS=http://127.0.0.1:1", "ELECTION_TTL=500ms"),
		"is 5s, the least that backend zookeeper":                        environ(t.TempDir(), append(zookeeper, "ELECTION_TTL=5s")...),
		"= 24s + 2 * 9s = 42s, must be 40s at most on backend zookeeper": environ(t.TempDir(), append(zookeeper, "ELECTION_TTL=24s", "ELECTION_RENEW_EVERY=9s")...),
	} {
		for _, args := range [][]string{{"run", "job", "--", "true"}, {"status", "job"}, {"list"}, {"history", "job"}, {"watch", "job", "--for", "1s"}, {"serve", "job", "--for", "1s", "--listen", "127.0.0.1:0"}, {"depose", "job"}, {"doctor"}} {
			if out, code := call(t, env, args...); code == 0 || !strings.Contains(out, want) {
				t.Errorf("elect %q: code %d, and %q should be in\n%s", args, code, want, out)
			}
		}
	}
}

// Two jobs of one host have its name as their id: the same id is a mistake in one election
// alone, and there the process itself says so.
func TestOneIDForTwoJobsIsNoMistakeAndForOneJobIs(t *testing.T) {
	t.Parallel()
	env := onFiles(t, "ELECTION_TTL=2s")
	for _, job := range []string{"billing", "mail"} {
		start(t, env, "run", job, "--id", "host-1", "--", "sleep", "300").says("elect: leads")
	}
	if out, _ := call(t, env, "doctor"); strings.Contains(out, "warning  members") {
		t.Errorf("of two jobs with one id doctor says\n%s", out)
	}
	twin := start(t, env, "run", "mail", "--id", "host-1", "--", "sleep", "300")
	twin.says(`notice: same id ("another live process, with the address \"\", has the id \"host-1\" as well`)
	doctorSays(t, env, `two processes have the id "host-1" and campaign for "mail"`)
	if out, _ := call(t, env, "status", "billing"); strings.Count(out, "host-1, ") != 1 {
		t.Errorf("status of a job with one candidate, beside another job on the store:\n%s", out)
	}
}

func TestNominateAndDeposeMoveTheLeadership(t *testing.T) {
	t.Parallel()
	env := onFiles(t, "ELECTION_TTL=15s") // who has made way stays out for as long
	one := start(t, env, "run", "job", "--id", "one", "--", "sleep", "300")
	one.says("elect: leads")
	two := start(t, env, "run", "job", "--id", "two", "--", "sleep", "300")
	two.says(`"one" leads`)
	watch := start(t, env, "watch", "job")
	watch.says(`"leader":"one"`)
	if out, code := call(t, env, "nominate", "job", "two"); code == 0 || !strings.Contains(out, "--yes") {
		t.Errorf("without --yes and a terminal: code %d: %s", code, out)
	}
	if out, code := call(t, env, "nominate", "job", "two", "--yes"); code != 0 || !strings.Contains(out, "SIGTERM") || !strings.Contains(out, "step_down_timeout") {
		t.Fatalf("nominate: code %d: %s", code, out)
	}
	two.says("elect: leads")
	watch.says(`"leader":"two"`)
	if out, code := call(t, env, "depose", "job", "--yes"); code != 0 || !strings.Contains(out, "refused") || !strings.Contains(out, "15s at most") {
		t.Fatalf("depose: code %d: %s", code, out)
	}
	watch.says(`"leader":"one","previous":"two"`) // the vacancy between may be over before it is seen
	if out, code := call(t, env, "history", "job"); code != 0 || !strings.Contains(out, "deposed") {
		t.Errorf("history: code %d: %s", code, out)
	}
	testbed.Eventually(t, patience, "the first leads again", func() error {
		if n := strings.Count(one.output.String(), "elect: leads"); n < 2 {
			return fmt.Errorf("it has led %d times:\n%s", n, one.output.String())
		}
		return nil
	})
	for line := range strings.Lines(watch.output.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("in a pipe, watch writes what is not JSON: %s", line)
		}
	}
}

func TestTextOfAStoreIsHarmlessOnATerminal(t *testing.T) {
	t.Parallel()
	r := clean(backend.Record{
		Lease:   backend.Lease{Election: "job", Term: 1, Holder: backend.Candidate{ID: "a\x1b[2Jb", Nonce: "n", Address: "x\ty"}, MovedTo: "m\x07"},
		History: []backend.Leadership{{ID: "old\x1b]0;evil\x07"}},
	})
	s := stateOf(r)
	for _, text := range []string{s.word(), s.Leader.ID, s.Leader.Address, s.History[0].ID, r.MovedTo} {
		if strings.ContainsAny(text, "\x1b\x07\t") {
			t.Errorf("%q reaches the terminal", text)
		}
	}
	var diag bytes.Buffer
	(&app{in: strings.NewReader(""), out: &diag, diag: &diag}).main(t.Context(), []string{"\x1b[2Jstatus"})
	if strings.Contains(diag.String(), "\x1b") {
		t.Errorf("an escape reaches the terminal: %q", diag.String())
	}
}

func TestDoctorExplainsAStoreThatIsThereAndOneThatIsNot(t *testing.T) {
	t.Parallel()
	out, code := call(t, onFiles(t), "doctor", "--write")
	for _, want := range []string{"elected in term", "idle load", "directory", "open files", "the kernel tells followers", "every election that was ever led here"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("code %d, and %q should be in\n%s", code, want, out)
		}
	}
	env := environ(t.TempDir(), "ELECTION_BACKEND=mysql", "ELECTION_MYSQL_DSN=app:secret-word@tcp(127.0.0.1:1)/app")
	for _, args := range [][]string{{"doctor"}, {"doctor", "--write"}} { // what needs the store is not said to be well
		out, code := call(t, env, args...)
		if code != exitVacant || !strings.Contains(out, "problem  store") || strings.Contains(out, "secret-word") {
			t.Errorf("%q: code %d:\n%s", args, code, out)
		}
		if strings.Count(out, "\nok ") > 0 || !strings.Contains(out, "Nothing else was checked.") {
			t.Errorf("%q: only the configuration is ok, and the rest was not checked:\n%s", args, out)
		}
	}
	if out, code := call(t, environ(t.TempDir(), "ELECTION_BACKEND=mysqll"), "doctor"); code != exitVacant || !strings.Contains(out, "problem  configuration") {
		t.Errorf("code %d:\n%s", code, out)
	}
}

// doctorSays waits until elect doctor finds no problem and says all these: that a machine
// is too busy to lead is one, and is over when it is called again.
func doctorSays(t *testing.T, env []string, wants ...string) {
	t.Helper()
	testbed.Eventually(t, patience, "elect doctor says that all is well", func() error {
		out, code := call(t, env, "doctor", "--write")
		for _, want := range wants {
			if code != 0 || !strings.Contains(out, want) {
				return fmt.Errorf("code %d, and %q should be in\n%s", code, want, out)
			}
		}
		t.Logf("\n%s", out)
		return nil
	})
}

func TestDoctorOnAServer(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		env := environ(t.TempDir(), onServer(t, testbed.Shared(t, k))...)
		doctorSays(t, env, "elected in term", "durability", "replication", "clock", "greatest TTL", "without a leader")
	})
}

// One server has a table of other programs, our tables beside it, and those of the store
// that its elections move to.
func TestDoctorLooksBeneathASharedTableAndAtBothStoresOfAMigration(t *testing.T) {
	t.Parallel()
	d := testbed.Shared(t, testbed.MariaDB).Database(t)
	d.Exec(t, `CREATE TABLE leader_election (service_id varchar(50) NOT NULL PRIMARY KEY, leader_id varchar(50) NOT NULL DEFAULT '',
 update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)`)
	for _, store := range []string{"mysql", "mysqltable"} {
		if out, code := call(t, onDSN(t, store, d.Admin), "schema", "--apply"); code != 0 {
			t.Fatalf("code %d: %s", code, out)
		}
	}
	doctorSays(t, onDSN(t, "mysqltable", d.User), "elected in term", "durability", "replication", "clock", "greatest TTL")
	road := append(onDSN(t, "migration", d.User), "ELECTION_MIGRATION_FROM=mysqltable", "ELECTION_MIGRATION_TO=mysql", "ELECTION_MIGRATION_STAGE=both")
	doctorSays(t, road, "elected in term", "durability     mysqltable: ", "durability     mysql: ", "greatest TTL   mysqltable: ", "greatest TTL   mysql: ")
}

// Somebody must act, and is told so at once, and how.
func TestDoctorSaysWhyATTLIsTooLong(t *testing.T) {
	t.Parallel()
	for store, x := range map[string]struct {
		env  func(t *testing.T) []string
		says []string
	}{
		"mysql": {func(t *testing.T) []string { return onServer(t, testbed.Shared(t, testbed.MariaDB)) }, []string{"TTL is 20s", "greatest allowed", "is 15s", "UPDATE"}},
		"zookeeper": {func(t *testing.T) []string {
			return []string{"ELECTION_BACKEND=zookeeper", "ELECTION_ZOOKEEPER_SERVERS=" + strings.Join(testbed.SharedZooKeeper(t), ","), "ELECTION_ZOOKEEPER_ROOT=/long-" + backend.NewNonce()[:8]}
		}, []string{"a TTL of 20s", "the servers grant", "maxSessionTimeout"}},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			env := environ(t.TempDir(), append(x.env(t), "ELECTION_TTL=20s")...)
			if out, code := call(t, env, "doctor"); code != exitVacant || !strings.Contains(out, "every bid is refused") {
				t.Errorf("without --write: code %d, want %d, since nobody can be elected:\n%s", code, exitVacant, out)
			}
			out, code := call(t, env, "doctor", "--write")
			for _, want := range append(x.says, "problem  writing", "Somebody must act") {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing", want)
				}
			}
			if code != exitVacant || t.Failed() {
				t.Errorf("code %d:\n%s", code, out)
			}
		})
	}
}

func TestDoctorOnEtcdConsulAndZooKeeper(t *testing.T) {
	t.Parallel()
	for store, x := range map[string]struct {
		env   func(t *testing.T, own string) []string
		wants []string
	}{
		"etcd": {func(t *testing.T, own string) []string {
			return []string{"ELECTION_ETCD_ENDPOINTS=" + strings.Join(testbed.SharedEtcd(t), ","), "ELECTION_ETCD_PREFIX=" + own + "/"}
		}, []string{"leads the cluster"}},
		"consul": {func(t *testing.T, own string) []string {
			return []string{"ELECTION_CONSUL_ADDRESS=" + testbed.SharedConsul(t).URL(), "ELECTION_CONSUL_PREFIX=" + own}
		}, []string{"servers", "Consul 1."}},
		"zookeeper": {func(t *testing.T, own string) []string {
			return []string{"ELECTION_ZOOKEEPER_SERVERS=" + strings.Join(testbed.SharedZooKeeper(t), ","), "ELECTION_ZOOKEEPER_ROOT=/" + own}
		}, []string{"is on its own", "rights", "grants sessions of 20s at most"}},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			env := environ(t.TempDir(), append(x.env(t, "doctor-"+backend.NewNonce()[:8]), "ELECTION_BACKEND="+store)...)
			doctorSays(t, env, append(x.wants, "elected in term", "elections", "members", "without a leader")...)
		})
	}
}

func TestTheDemonstrationShowsLeadersComeAndGo(t *testing.T) {
	t.Parallel()
	testbed.Full(t, "kills and stops processes")
	out, code := call(t, environ(t.TempDir()), "demo", "--for", "20s", "--every", "1500ms")
	if code != 0 || strings.Count(out, " leads, term ") < 3 || !strings.Contains(out, "Never two") {
		t.Errorf("code %d:\n%s", code, out)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "elect-demo-*"))
	if len(left) > 0 && strings.Contains(out, left[0]) {
		t.Errorf("it left %v", left)
	}
}

func TestTheDemonstrationCountsInWords(t *testing.T) {
	t.Parallel()
	for want, gaps := range map[string][]time.Duration{"1 time without": {1}, "2 times without": {1, 2}} {
		var out bytes.Buffer
		if err := (&play{out: &out, gaps: gaps}).summary(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %q, expected %q", err, out.String(), want)
		}
	}
}

func TestVersionSaysOfWhat(t *testing.T) {
	t.Parallel()
	if out, code := call(t, environ(t.TempDir()), "version"); code != 0 || !strings.HasPrefix(out, "elect ") || !strings.Contains(out, runtime.Version()) || len(strings.Fields(out)) != 4 {
		t.Errorf("code %d: %s", code, out)
	}
}

func TestCompletionOffersNamesAndNoFiles(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	if out, code := call(t, env, "run", "billing", "--", "true"); code != 0 {
		t.Fatalf("code %d: %s", code, out)
	}
	noFiles := fmt.Sprintf(":%d\n", cobra.ShellCompDirectiveNoFileComp)
	for _, what := range []string{"status", "history", "watch", "depose", "resign", "pause", "resume", "nominate", "serve", "run"} {
		if out, code := call(t, env, "__complete", what, ""); code != 0 || !strings.HasPrefix(out, "billing\n"+noFiles) {
			t.Errorf("%s: code %d: %s", what, code, out)
		}
		if out, code := call(t, environ(t.TempDir()), "__complete", what, ""); code != 0 || !strings.HasPrefix(out, noFiles) {
			t.Errorf("%s without a store: code %d: %s", what, code, out)
		}
	}
	for _, args := range [][]string{{"status", "billing"}, {"nominate", "billing", "host-1"}, {"list"}, {"doctor"}, {"version"}, {"migrate", "status"}} {
		if out, code := call(t, env, append(append([]string{"__complete"}, args...), "")...); code != 0 || !strings.HasPrefix(out, noFiles) {
			t.Errorf("%q takes nothing more: code %d: %s", args, code, out)
		}
	}
}

func TestMigrateStatusSaysHowFarItIs(t *testing.T) {
	t.Parallel()
	sealed := moveOf("job", backend.Record{Lease: backend.Lease{MovedTo: "mysql"}}, backend.Record{Lease: backend.Lease{MovedFrom: "etcd", Holder: backend.Candidate{ID: "a"}}}, "etcd", "mysql")
	if !sealed.Sealed {
		t.Errorf("seal and record are there: %+v", sealed)
	}
	vouched := moveOf("job", backend.Record{}, backend.Record{Lease: backend.Lease{MovedFrom: "unsealed etcd", Holder: backend.Candidate{ID: "a"}}}, "etcd", "mysql")
	if vouched.Sealed || vouched.Text != "the new store alone decides; the old store is not sealed" {
		t.Errorf("there is a record without a seal: %+v", vouched)
	}
	back := moveOf("job", backend.Record{}, backend.Record{Lease: backend.Lease{MovedTo: "etcd"}}, "etcd", "mysql")
	if !back.Back || back.Sealed {
		t.Errorf("the new store is sealed: %+v", back)
	}
	for want, r := range map[string]road{
		"bring those at from to both":   {Members: map[string]int{"from": 1, "to": 1}},
		"with stage both":               {Members: map[string]int{"from": 1, "both": 2}},
		"with stage to":                 {Members: map[string]int{"both": 2}},
		"both with stage from":          {Members: map[string]int{"both": 2}, Moves: []move{back}},
		"those at from with stage both": {Members: map[string]int{"from": 1, "both": 1}, Moves: []move{back}},
		"0 of 1":                        {Members: map[string]int{"to": 2}, Moves: []move{{}}},
		"backend mysql alone":           {Members: map[string]int{"to": 2}, Moves: []move{sealed}, kind: "mysql"},
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

func TestManualPagesSayWhatHelpSays(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "share", "man1") // made by the command
	if out, code := call(t, onFiles(t), "man", dir); code != 0 {
		t.Fatalf("code %d: %s", code, out)
	}
	for _, name := range []string{"elect", "elect-run", "elect-doctor", "elect-migrate-status"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil || !strings.Contains(string(text), ".SH NAME") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	file := filepath.Join(dir, "elect.1")
	if out, code := call(t, onFiles(t), "man", filepath.Join(file, "man1")); code != exitElect || !strings.Contains(out, "elect: the manual pages have no directory: ") || !strings.Contains(out, file+": not a directory") {
		t.Errorf("where no directory can be: code %d: %s", code, out)
	}
}

// FuzzArguments: whatever the arguments, elect ends with a code of its own, shows no
// escape to the terminal, and does nothing. Commands that would run something are
// parsed only.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		"run\x00job\x00--\x00true", "run\x00job", "status\x00job", "nominate\x00a\x00b\x00--yes", "watch\x00--for\x001h", "\x1b[2J", "schema\x00--prefix\x00a'b",
		"resign\x00a/b\x00--socket\x00/dev/null", "-c\x00\x00list", "--grace\x00-1s\x00run", "completion\x00bash", "help\x00run", "man", "doctor\x00--json",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		var out bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, diag: &out}
		root := a.root()
		c, rest, err := root.Find(args)
		if err == nil && c != root {
			// Parsed and checked as Execute does, and not run: this is about arguments.
			if err = c.ParseFlags(rest); err == nil {
				err = c.ValidateArgs(c.Flags().Args())
			}
		}
		if err != nil {
			a.fail(err)
		}
		if a.code != 0 && a.code != exitElect {
			t.Errorf("code %d", a.code)
		}
		if strings.ContainsAny(out.String(), "\x1b\x07\x00") {
			t.Errorf("the terminal would get %q", out.String())
		}
	})
}
