//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

func say(list []backend.Diagnostic) (text string) {
	for _, f := range list {
		text += f.String() + "\n"
	}
	return text
}

func inspected(t *testing.T, o Options) string {
	t.Helper()
	b, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	list, err := b.Inspect(t.Context(), 10*time.Second, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return say(list)
}

// TestInspectSaysWhatHasBecomeOfADirectory that was led in.
func TestInspectSaysWhatHasBecomeOfADirectory(t *testing.T) {
	for what, x := range map[string]struct {
		harm   func(dir string) error
		maxTTL time.Duration
		want   string
	}{
		"nothing":                     {nil, 0, "register: every election that was ever led here has its record; the greatest TTL is 1m0s"},
		"a record is gone":            {func(dir string) error { return os.Remove(filepath.Join(dir, "jobs.json")) }, 0, "WARNING register: of 1 elections there is no record"},
		"the register is gone":        {func(dir string) error { return os.Remove(filepath.Join(dir, "ELECTIONS")) }, 0, "WARNING register: ELECTIONS is gone"},
		"another has another TTL":     {nil, 30 * time.Second, `ELECTIONS begins with "go-election, backend file, layout 1, greatest TTL 1m0s", and this member is configured for "go-election, backend file, layout 1, greatest TTL 30s"`},
		"a group can write it":        {func(dir string) error { return os.Chmod(dir, 0o770) }, 0, "WARNING rights: "},
		"another user can write that": {func(dir string) error { return os.Chmod(filepath.Join(dir, "ELECTIONS"), 0o666) }, 0, "WARNING register: "},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "election")
			b, err := Open(t.Context(), Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			c := backend.Candidate{ID: "a", Nonce: backend.NewNonce()}
			got, err := b.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: c, TTL: 10 * time.Second, Renew: 3 * time.Second, Expected: backend.Lease{Election: "jobs"}}})
			if err != nil || got[0].Outcome != backend.Granted {
				t.Fatalf("expected to be granted the first bid, got %+v, %v", got, err)
			}
			defer Die(b)
			if x.harm != nil {
				if err := x.harm(dir); err != nil {
					t.Fatal(err)
				}
			}
			text := inspected(t, Options{Dir: dir, MaxTTL: x.maxTTL})
			for _, want := range []string{x.want, "directory: " + dir + " is on ", "room: ", "open files: ", "hearing: "} {
				if !strings.Contains(text, want) {
					t.Errorf("nothing is said of %q:\n%s", want, text)
				}
			}
			if warned := strings.Contains(text, "WARNING r"); warned != (what != "nothing") {
				t.Errorf("expected a warning if there is something wrong, and none if not:\n%s", text)
			}
		})
	}
}

func TestWhatIsWrongWithADirectoryIsAWarning(t *testing.T) {
	for want, change := range map[string]func(*survey){
		"": func(*survey) {},
		"directory: /d is on tmpfs, which is empty":              func(s *survey) { s.kind = "tmpfs" },
		"directory: /d is on overlayfs, a container's own layer": func(s *survey) { s.kind = "overlayfs" },
		"room: 15 MiB, for 5000 files":                           func(s *survey) { s.room = 15 << 20 },
		"room: 1024 MiB, for 999 files":                          func(s *survey) { s.files = 999 },
		"open files: 256 for this process":                       func(s *survey) { s.limit, s.kept = 256, 193 },
		"hearing: followers read every 50ms":                     func(s *survey) { s.hearing = syscall.EMFILE },
		"register: broken\ufffd[2J":                              func(s *survey) { s.register = errors.New("broken\x1b[2J") },
	} {
		s := survey{dir: "/d", kind: "ext2, ext3 or ext4", mode: 0o700, room: 1 << 30, files: 5000, limit: 1024, kept: 3, listed: true, maxTTL: time.Minute}
		change(&s)
		text := say(s.diagnostics())
		if want == "" && strings.Contains(text, "WARNING") || want != "" && (!strings.Contains(text, "WARNING "+want) || strings.Count(text, "WARNING") != 1) {
			t.Errorf("expected the warning %q and no other:\n%s", want, text)
		}
	}
}

func TestInspectOfADirectoryThatIsGoneFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "election")
	b, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Inspect(t.Context(), time.Second, time.Second); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("expected %v, got %v", backend.ErrUnavailable, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Inspect(ended, time.Second, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("expected %v, got %v", context.Canceled, err)
	}
}
