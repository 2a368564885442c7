package elect

import (
	"strings"
	"testing"
)

// An operator can retire an election that is no longer needed, and doctor retires its own.
func TestAForgottenElectionIsNotShown(t *testing.T) {
	t.Parallel()
	env := onFiles(t)
	says := func(want string, ok bool, args ...string) {
		t.Helper()
		if out, code := call(t, env, args...); (code == 0) != ok || !strings.Contains(out, want) {
			t.Errorf("elect %q: code %d; want %q in\n%s", args, code, want, out)
		}
	}
	says("has never had a leader", false, "forget", "done", "--yes")
	says("", true, "run", "done", "--", "true")
	watch := start(t, env, "watch", "--json")
	watch.says(`"election":"done"`)
	says("done, last led by ", false, "forget", "d*") // what would be forgotten
	says("--yes", false, "forget", "done")
	says("is forgotten", true, "forget", "done", "--yes")
	says("is forgotten", true, "forget", "done", "--yes")
	watch.says(`"reason":"forgotten"`)
	says("", true, "doctor", "--write")
	says("no elections yet", true, "list")
	says("forgotten", false, "status", "done") // nobody leads

	leader := start(t, env, "run", "done", "--id", "one", "--", "sleep", "300")
	leader.says("elect: leads")
	says(`"one" leads`, false, "forget", "done", "--yes")
	says("one", true, "list")
}
