package elect

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

// As with flock: elect ends where it would have to wait, and its command has not run.
func TestRunDoesNotWaitLongerThanItIsTold(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	leader := start(t, env, "run", "job", "--id", "host-1", "--", "sleep", "1000")
	leader.says(`leads "job"`)
	for _, flags := range [][]string{{"--no-wait"}, {"--wait", "300ms"}} {
		out, code := call(t, env, append(append([]string{"run", "job", "--id", "host-2"}, flags...), "--", "echo", "it ran")...)
		if code != exitTimeout || strings.Contains(out, "it ran") || !strings.Contains(out, "host-1") {
			t.Errorf("%q beside a leader: code %d: %s", flags, code, out)
		}
	}
	for _, flags := range [][]string{{"--no-wait"}, {"--wait", "1m"}} {
		out, code := call(t, env, append(append([]string{"run", "other"}, flags...), "--", "sh", "-c", "echo it ran; exit 3")...)
		if code != 3 || !strings.Contains(out, "it ran") {
			t.Errorf("%q alone: code %d: %s", flags, code, out)
		}
	}
}

func TestWaitEndsWhenSomebodyLeadsOrNobodyDoes(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	if out, code := call(t, env, "wait", "job", "--wait", "300ms"); code != exitTimeout {
		t.Errorf("nobody leads: code %d: %s", code, out)
	}
	waiting := start(t, env, "wait", "job", "--wait", "3m")
	leader := start(t, env, "run", "job", "--id", "host-1", "--", "sleep", "1000")
	if code := waiting.code(); code != 0 || !strings.Contains(waiting.output.String(), `elected "host-1"`) {
		t.Errorf("host-1 leads: code %d: %s", code, waiting.output.String())
	}
	if out, code := call(t, env, "wait", "job", "--until", "vacant", "--wait", "300ms"); code != exitTimeout || !strings.Contains(out, "host-1") {
		t.Errorf("until nobody leads: code %d: %s", code, out)
	}
	waiting = start(t, env, "wait", "job", "--until", "vacant", "--wait", "3m")
	leader.Process.Signal(os.Interrupt)
	if code := waiting.code(); code != 0 {
		t.Errorf("host-1 has ended: code %d: %s", code, waiting.output.String())
	}
}

func TestNominateWaitsForTheNominee(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	first := start(t, env, "run", "job", "--id", "host-1", "--", "sleep", "1000")
	first.says(`leads "job"`)
	if out, code := call(t, env, "nominate", "job", "nobody", "--yes", "--wait", "500ms"); code != exitTimeout || !strings.Contains(out, "host-1") {
		t.Errorf("a candidate that is not there: code %d: %s", code, out)
	}
	second := start(t, env, "run", "job", "--id", "host-2", "--", "sleep", "1000")
	second.says(`"host-1" leads`)
	if out, code := call(t, env, "nominate", "job", "host-2", "--yes", "--wait", "3m"); code != 0 || !strings.Contains(out, `elected "host-2"`) {
		t.Errorf("a candidate that is ready: code %d: %s", code, out)
	}
}

func TestPatternsStandForElections(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	for _, name := range []string{"shard/1", "shard/2", "other"} {
		if out, code := call(t, env, "run", name, "--", "true"); code != 0 {
			t.Fatalf("code %d: %s", code, out)
		}
	}
	if out, code := call(t, env, "list", "shard/*"); code != 0 || strings.Contains(out, "other") || strings.Count(out, "shard/") != 2 {
		t.Errorf("code %d: %s", code, out)
	}
	if out, code := call(t, env, "list", "[a"); code != exitElect || !strings.Contains(out, "syntax error in pattern") {
		t.Errorf("a wrong pattern: code %d: %s", code, out)
	}
	if out, code := call(t, env, "forget", "nothing/*", "--yes"); code != exitElect || !strings.Contains(out, "no election") {
		t.Errorf("a pattern without a match: code %d: %s", code, out)
	}
	if out, code := call(t, env, "forget", "shard/*", "other", "--yes"); code != 0 || strings.Count(out, "is forgotten") != 3 {
		t.Errorf("code %d: %s", code, out)
	}
	if out, code := call(t, env, "status", "shard/1"); code != exitVacant || !strings.Contains(out, "the election was forgotten") {
		t.Errorf("the status of a forgotten election: code %d: %s", code, out)
	}
}

func TestWatchWaitsForAStoreThatIsDownAtItsStart(t *testing.T) {
	t.Parallel()
	env := environ("ELECTION_BACKEND=redis", "ELECTION_REDIS_ADDRESSES=127.0.0.1:1")
	for _, args := range [][]string{{"watch"}, {"watch", "job"}} {
		if out, code := call(t, env, append(args, "--json", "--for", "3s")...); code != 0 {
			t.Errorf("%q: code %d: %s", args, code, out)
		}
	}
	start(t, env, "wait", "job").says("calls to the store fail")
}

func TestElectSaysItsVersionAndItsUsage(t *testing.T) {
	t.Parallel()
	if out, code := call(t, onFiles(t), "--version"); code != 0 || !strings.HasPrefix(out, "elect ") || !strings.Contains(out, runtime.Version()) {
		t.Errorf("--version names elect and Go: code %d: %s", code, out)
	}
	if out, code := call(t, onFiles(t), "nominate", "job"); code != exitElect || !strings.Contains(out, "usage: elect nominate NAME ID") {
		t.Errorf("a wrong number of arguments: code %d: %s", code, out)
	}
}
