package elect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

func TestDemoReplacesLeaders(t *testing.T) {
	t.Parallel()
	testbed.Full(t, "kills and stops processes")
	out, code := call(t, environ(t.TempDir()), "demo", "--for", "20s", "--every", "1500ms")
	if code != 0 || strings.Count(out, " leads, term ") < 3 || !strings.Contains(out, "Never two") {
		t.Errorf("code %d:\n%s", code, out)
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "elect-demo-*"))
	if len(left) > 0 && strings.Contains(out, left[0]) {
		t.Errorf("it left files behind: %v", left)
	}
}

func TestDemoSummaryHasThePlural(t *testing.T) {
	t.Parallel()
	for want, gaps := range map[string][]time.Duration{"1 time without": {1}, "2 times without": {1, 2}} {
		var out bytes.Buffer
		if err := (&demo{out: &out, gaps: gaps}).summary(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %q; want %q", err, out.String(), want)
		}
	}
}
