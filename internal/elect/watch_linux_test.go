package elect

import (
	"encoding/json"
	"strings"
	"testing"
)

// "elect watch" with the configuration of a member is not a second member with that id.
func TestWatchDoesNotUseTheConfiguredID(t *testing.T) {
	t.Parallel()
	env := onFiles(t, "ELECTION_ID=host-1", "ELECTION_TTL=2s")
	start(t, env, "run", "job", "--", "sleep", "300").says("elect: leads")
	// Watch for several TTLs: the notice would come after the first.
	if out, code := call(t, env, "watch", "job", "--for", "10s"); code != 0 || !strings.Contains(out, `"leader":{"id":"host-1"`) || strings.Contains(out, "same id") {
		t.Errorf("code %d; want a leader and no notice:\n%s", code, out)
	}
}

// The first state that watch observes may be no change, so it has "first". It must not page an operator.
func TestWatchMarksTheFirstState(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	if out, code := call(t, env, "run", "job", "--", "true"); code != 0 {
		t.Fatalf("run: code %d: %s", code, out)
	}
	var line struct {
		Kind  string
		First bool
	}
	out, code := call(t, env, "watch", "job", "--for", "2s")
	last := out[strings.LastIndexByte(strings.TrimRight(out, "\n"), '\n')+1:]
	if err := json.Unmarshal([]byte(last), &line); err != nil || code != 0 {
		t.Fatalf("watch: code %d, %v:\n%s", code, err, out)
	}
	if line.Kind != "vacant" || !line.First {
		t.Errorf("nobody leads; the last line of watch is: %s", last)
	}
}
