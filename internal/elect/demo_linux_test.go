package elect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

func TestDemoReplacesLeaders(t *testing.T) {
	t.Parallel()
	testbed.Full(t, "kills and stops processes")
	out, code := call(t, environ(), "demo", "--for", "20s")
	if code != 0 || strings.Count(out, " leads, term ") < 3 || !strings.Contains(out, "Never two") {
		t.Errorf("code %d:\n%s", code, out)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "elect-demo-*"))
	if len(left) > 0 && strings.Contains(out, left[0]) {
		t.Errorf("it left files behind: %v", left)
	}
}

// A second Ctrl-C ends the demo at once, and the processes that it has started.
func TestADemoThatIsKilledLeavesNoProcess(t *testing.T) {
	t.Parallel()
	m := start(t, environ("TMPDIR="+testbed.TempDir(t)), "demo")
	m.says(" leads, term ")
	nodes := testbed.Children(m.Process.Pid, "")
	m.Process.Kill()
	testbed.Eventually(t, patience, "its processes end", func() error {
		for _, pid := range nodes {
			if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); len(stat) > 0 && !strings.Contains(string(stat), ") Z ") {
				return fmt.Errorf("%d lives", pid)
			}
		}
		return nil
	})
}
