package elect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

func TestNominateAndDeposeMoveTheLeadership(t *testing.T) {
	t.Parallel()
	env := onFiles(t, "ELECTION_TTL=15s") // a leader that has stepped down does not campaign for one TTL
	one := start(t, env, "run", "job", "--id", "one", "--", "sleep", "300")
	one.says("elect: leads")
	two := start(t, env, "run", "job", "--id", "two", "--", "sleep", "300")
	two.says(`"one" leads`)
	watch := start(t, env, "watch", "job")
	watch.says(`"leader":{"id":"one"`)
	if out, code := call(t, env, "nominate", "job", "two"); code == 0 || !strings.Contains(out, "--yes") {
		t.Errorf("without --yes and a terminal: code %d: %s", code, out)
	}
	if out, code := call(t, env, "nominate", "job", "two", "--yes"); code != 0 || !strings.Contains(out, "SIGTERM") || !strings.Contains(out, "step_down_timeout") {
		t.Fatalf("nominate: code %d: %s", code, out)
	}
	two.says("elect: leads")
	watch.says(`"leader":{"id":"two"`)
	if out, code := call(t, env, "depose", "job", "--yes"); code != 0 || !strings.Contains(out, "refuses") || !strings.Contains(out, "15s at most") {
		t.Fatalf("depose: code %d: %s", code, out)
	}
	watch.says(`"leader":{"id":"one","address":""},"previous":{"id":"two"`) // watch may miss the vacancy in between
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
			t.Errorf("watch writes a line that is not JSON: %s", line)
		}
	}
}
