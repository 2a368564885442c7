package elect

import (
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
