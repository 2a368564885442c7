//go:build linux || darwin

package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
)

// The error says what to do.
func TestOpenRefusesUnsafeDirectories(t *testing.T) {
	dir := newDir(t)
	for _, c := range []struct {
		what  string
		o     file.Options
		mode  os.FileMode
		class error
		says  string
	}{
		{"no directory", file.Options{}, 0o700, backend.ErrInvalid, "no directory"},
		{"a relative directory", file.Options{Dir: "leases"}, 0o700, backend.ErrInvalid, `"leases" (dir), a relative path`},
		{"a directory whose parent is not there", file.Options{Dir: filepath.Join(dir, "a", "b")}, 0o700, backend.ErrUnavailable, "no such file"},
		{"a TTL above all limits", file.Options{Dir: dir, MaxTTL: 2 * time.Hour}, 0o700, backend.ErrInvalid, "greatest TTL is 2h0m0s"},
		{"a directory that all can write", file.Options{Dir: dir}, 0o777, backend.ErrDenied, "chmod o-w"},
		{"the same with a sticky bit", file.Options{Dir: dir}, 0o777 | os.ModeSticky, backend.ErrDenied, "chmod o-w"},
		{"a file", file.Options{Dir: "/dev/null"}, 0o700, backend.ErrDenied, "not a directory"},
		{"a file system of the kernel's own", file.Options{Dir: "/proc/self/task"}, 0o700, backend.ErrDenied, "not known to be local"},
	} {
		if runtime.GOOS != "linux" && strings.HasPrefix(c.o.Dir, "/proc") {
			continue
		}
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Open(c.o); !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: expected %v with %q, got %v", c.what, c.class, c.says, err)
		}
	}
	os.Chmod(dir, 0o700)
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Open(file.Options{Dir: dir}); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "65534") {
			t.Errorf("a directory of another user: expected ErrDenied with that user, got %v", err)
		}
	}
}

func TestOpenMakesTheDirectoryForThisUserAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	c := open(t, dir, "a")
	c.win("jobs")
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 3 {
		t.Fatalf("expected a lock, a record and the register, got %v, %v", all, err)
	}
	for _, f := range all {
		if info, _ := f.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s: expected mode 0600, got %v", f.Name(), info.Mode())
		}
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("expected mode 0700, got %v", info.Mode())
	}
}

// Links, pipes, directories, and files of other users.
func TestPlantedFilesAreNotFollowed(t *testing.T) {
	for _, name := range []string{"jobs.lock", "jobs.json", "jobs.request", "ELECTIONS"} {
		victim := filepath.Join(t.TempDir(), "victim")
		plants := map[string]func(path string) error{
			"a symbolic link":           func(path string) error { return os.Symlink(victim, path) },
			"a link to nothing":         func(path string) error { return os.Symlink(victim+"2", path) },
			"a pipe":                    func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"a directory":               func(path string) error { return os.Mkdir(path, 0o700) },
			"a file that all can write": func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666)) },
		}
		if os.Geteuid() == 0 {
			plants["a file of another user"] = func(path string) error {
				return errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 65534, 65534))
			}
		}
		for what, plant := range plants {
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := newDir(t)
			a := open(t, dir, "a")
			if err := plant(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			got, err := a.Acquire(t.Context(), []backend.Bid{{Election: "jobs", Candidate: a.me, TTL: ttl, Expected: backend.Lease{Election: "jobs"}}})
			if err == nil {
				err = got[0].Err
			}
			if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s as %s: expected ErrDenied with its name, got %v", what, name, err)
			}
			if text, _ := os.ReadFile(victim); string(text) != "precious" {
				t.Errorf("%s as %s: the file behind it was written: %q", what, name, text)
			}
			if _, err := os.Stat(victim + "2"); err == nil {
				t.Errorf("%s as %s: the file behind it was made", what, name)
			}
		}
	}
}

// A challenger with a smaller value would take a lease that another member still trusts.
func TestMembersMustAgreeOnTheGreatestTTL(t *testing.T) {
	dir := newDir(t)
	openWith(t, "a", file.Options{Dir: dir, MaxTTL: time.Minute}).win("jobs")
	b := openWith(t, "b", file.Options{Dir: dir, MaxTTL: 20 * time.Second})
	_, err := b.Observe(t.Context(), []backend.Lease{{Election: "other"}})
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "1m0s") || !strings.Contains(err.Error(), "20s") {
		t.Errorf("expected ErrDenied with both values, got %v", err)
	}
}

// Other clients read all the time.
func TestReadingDoesNotMakeABidFail(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir, "a"), open(t, dir, "b")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
			}
		})
	}
	for range 100 {
		a.release(a.win("jobs"))
	}
	cancel()
	wg.Wait()
}

func TestAProgramThatLocksTheFileKeepsLeadersOut(t *testing.T) {
	dir := newDir(t)
	a := open(t, dir, "a")
	a.release(a.win("jobs"))
	f, err := os.Open(dir + "/jobs.lock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if got := a.bid(a.observe("jobs")); got.Outcome != backend.Refused || got.ObserveFor != backend.ExpiresInStore {
		t.Errorf("expected a bid to be refused while another program has the lock, and not to be repeated at once, got %+v", got)
	}
	f.Close()
	a.win("jobs")
}

// No two elections share a file, even where case is ignored, and every name fits.
func TestEveryElectionHasItsOwnFiles(t *testing.T) {
	long := strings.Repeat("\u00e9", 127)
	seen := map[string]string{}
	for _, name := range []string{"a", "A", ".", "..", "a.", ".a", "a/b", "a\\b", "a b", "%41", "a%", "\u00e1", "a\u0301", "jobs.lock", "elections", "ELECTIONS",
		strings.Repeat("a", 255), strings.Repeat("a", 254), strings.Repeat("A", 255), long, long + "x", "~", "\U0001F600"} {
		got := file.Encode(name)
		folded := strings.ToLower(got)
		if other, taken := seen[folded]; taken {
			t.Errorf("%q and %q have the same file %q", name, other, got)
		}
		seen[folded] = name
		if len(got) > 240 || got != folded || strings.ContainsAny(got, "/\\ ") || strings.HasPrefix(got, ".") {
			t.Errorf("%q: %q is not a safe file name", name, got)
		}
		if back, ok := file.Decode(got); !strings.Contains(got, "~") && (!ok || back != name) {
			t.Errorf("%q: decoded to %q, %v", name, back, ok)
		}
	}
	if got := file.Encode("billing-eu.v2"); got != "billing-eu.v2" {
		t.Errorf("expected a common name to stay as it is, got %q", got)
	}
}

// A released election leaves no open file.
func TestNothingIsLeftOpen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files are counted in /proc")
	}
	files := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range all {
			if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.Contains(to, t.Name()) {
				n++
			}
		}
		return n
	}
	dir := newDir(t)
	for i := range 5 {
		c := openWith(t, fmt.Sprint(i), file.Options{Dir: dir})
		c.win("jobs")
		c.bid(backend.Lease{Election: "jobs"})
		if got := c.renew(c.observe("jobs")); got.Outcome != backend.Granted {
			t.Fatal(got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := c.Listen(ctx, []backend.Lease{c.observe("jobs")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("listen: %v", err)
		}
		cancel()
		c.release(c.observe("jobs"))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if n := files(); n != 0 {
			t.Fatalf("expected no open files after a release, got %d", n)
		}
	}
}

// This is Listen on a system without inotify.
func TestPollingReportsARelease(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir, "a"), open(t, dir, "b")
	held := a.win("jobs")
	returned := make(chan error, 1)
	seen := b.observe("jobs")
	go func() { returned <- file.ListenByPolling(t.Context(), b.Backend, []backend.Lease{seen}) }()
	a.release(held)
	select {
	case err := <-returned:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a release was not noticed")
	}
}

func TestItIsRegisteredByName(t *testing.T) {
	dir := newDir(t)
	b, err := backend.Open("file", func(into any) error {
		return decode(into, `{"dir": "`+dir+`", "max_ttl": 20000000000, "poll": true}`)
	})
	if err != nil {
		t.Fatal(err)
	}
	g := b.Guarantees()
	if g.Name != "file" || g.MaxTTL != 20*time.Second || g.Push || g.Expiry != backend.ByKernel {
		t.Errorf("expected what was configured, got %+v", g)
	}
}
