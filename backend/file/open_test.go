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
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/lab/testbed"
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
		{"a line break that a file or a variable has at its end", file.Options{Dir: dir + "\r"}, 0o700, backend.ErrInvalid, "a line break"},
		{"a directory whose parent is not there", file.Options{Dir: filepath.Join(dir, "a", "b")}, 0o700, backend.ErrUnavailable, "no such file"},
		{"a TTL above all limits", file.Options{Dir: dir, MaxTTL: 2 * time.Hour}, 0o700, backend.ErrInvalid, "greatest TTL is 2h0m0s"},
		{"a directory that all can write", file.Options{Dir: dir}, 0o777, backend.ErrDenied, "chmod go-w"},
		{"a directory that a group can write", file.Options{Dir: dir}, 0o770, backend.ErrDenied, "chmod go-w"},
		{"the same with a sticky bit", file.Options{Dir: dir}, 0o777 | os.ModeSticky, backend.ErrDenied, "chmod go-w"},
		{"a file", file.Options{Dir: "/dev/null"}, 0o700, backend.ErrDenied, "not a directory"},
		{"a file system of the kernel's own", file.Options{Dir: fmt.Sprintf("/proc/%d/task", os.Getpid())}, 0o700, backend.ErrDenied, "not known to be local"},
	} {
		if runtime.GOOS != "linux" && strings.HasPrefix(c.o.Dir, "/proc") {
			continue
		}
		testbed.NoError(t, os.Chmod(dir, c.mode))
		if _, err := file.Open(c.o); !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: expected %v with %q, got %v", c.what, c.class, c.says, err)
		}
	}
	os.Chmod(dir, 0o700)
	if os.Geteuid() == 0 {
		testbed.NoError(t, os.Chown(dir, 65534, 65534))
		if _, err := file.Open(file.Options{Dir: dir}); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "as user 65534") {
			t.Errorf("a directory of another user: expected ErrDenied with what to do, got %v", err)
		}
	}
}

func TestOpenMakesTheDirectoryForThisUserAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	c := open(t, dir, "a")
	c.Leads("jobs")
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 2 {
		t.Fatalf("expected the leases and a pipe, got %v, %v", all, err)
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

// Links, pipes and directories.
func TestPlantedFilesAreNotFollowed(t *testing.T) {
	const name = "leases-4000000000000000000.json"
	victim := filepath.Join(t.TempDir(), "victim")
	plants := map[string]func(path string) error{
		"a symbolic link": func(path string) error { return os.Symlink(victim, path) },
		"a pipe":          mkfifo,
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
	}
	for what, plant := range plants {
		testbed.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
		dir := newDir(t)
		a := open(t, dir, "a")
		testbed.NoError(t, plant(filepath.Join(dir, name)))
		if err := a.Bids(backend.Lease{Election: "jobs"}).Err; !errors.Is(err, backend.ErrDenied) {
			t.Errorf("%s: %v; want ErrDenied", what, err)
		}
		if text, _ := os.ReadFile(victim); string(text) != "precious" {
			t.Errorf("%s: the file behind it was written: %q", what, text)
		}
	}
}

// A challenger with a smaller value would take a lease that another member still trusts.
func TestMembersMustAgreeOnTheGreatestTTL(t *testing.T) {
	dir := newDir(t)
	openWith(t, "a", file.Options{Dir: dir, MaxTTL: time.Minute}).Leads("jobs")
	_, err := openWith(t, "b", file.Options{Dir: dir, MaxTTL: 20 * time.Second}).Looks("other")
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "1m0s") || !strings.Contains(err.Error(), "20s") {
		t.Errorf("expected ErrDenied with both values, got %v", err)
	}
}

// Other clients read all the time.
func TestReadingDoesNotMakeABidFail(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir, "a"), open(t, dir, "b")
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
			}
		})
	}
	for range 100 {
		a.Resigns(a.Leads("jobs"))
	}
	cancel()
	readers.Wait()
}

// What a process has opened is closed when it has released its leases, and its files are gone.
func TestNothingIsLeftBehind(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files are counted in /proc")
	}
	open := func() (n int) {
		all, err := os.ReadDir("/proc/self/fd")
		testbed.NoError(t, err)
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
		held := c.Leads("jobs")
		if got := c.Bids(backend.Lease{Election: "jobs"}); got.Outcome == backend.Unknown {
			t.Fatal(got.Err)
		}
		c.Keeps(c.Sees("jobs"))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := c.Listen(ctx, []backend.Lease{c.Sees("jobs")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("listen: %v", err)
		}
		cancel()
		held.Term = 0 // whatever is held
		c.Resigns(held)
		testbed.NoError(t, c.Close())
		if n := open(); n != 0 {
			t.Fatalf("%d files are open after a release", n)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
			t.Fatalf("in the directory are %v, %v; want one file", all, err)
		}
	}
}

// The files of processes that have ended vanish after a while.
func TestFilesOfProcessesThatHaveEndedAreRemoved(t *testing.T) {
	dir := newDir(t)
	long := time.Now().Add(-3 * time.Hour)
	lives, ended, fresh := open(t, dir, "lives"), open(t, dir, "ended"), open(t, dir, "fresh")
	there := map[string]bool{"notes.txt": true, ".new-old": false, ".new-young": true}
	for _, c := range []*client{lives, ended, fresh} {
		c.Resigns(c.Leads("jobs"))
		pipes, _ := filepath.Glob(filepath.Join(dir, string(c.Me.Nonce)+"-*.alive"))
		there[filepath.Base(pipes[0])] = c != ended
	}
	file.Die(ended.Backend)
	file.Die(fresh.Backend)
	for _, name := range []string{"notes.txt", ".new-old", ".new-young"} {
		testbed.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for name := range there {
		if name != ".new-young" && !strings.HasPrefix(name, string(fresh.Me.Nonce)) {
			os.Chtimes(filepath.Join(dir, name), long, long)
		}
	}
	lives.Leads("jobs")
	for name, want := range there {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}

// A preflight finds that nothing can be written, and leaves no temporary file.
func TestAPreflightFindsADirectoryThatCannotBeUsed(t *testing.T) {
	dir := newDir(t)
	b := open(t, dir, "b")
	bids := []backend.Bid{{Election: "jobs", Candidate: b.Me, TTL: ttl}}
	if err := b.Preflight(t.Context(), bids)[0]; err != nil {
		t.Error(err)
	}
	if temps, _ := filepath.Glob(dir + "/.new-*"); temps != nil {
		t.Errorf("the preflight has left %v", temps)
	}
	testbed.NoError(t, os.RemoveAll(dir))
	if err := b.Preflight(t.Context(), bids)[0]; err == nil {
		t.Error("no error without a directory")
	}
}
