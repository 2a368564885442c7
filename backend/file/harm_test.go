//go:build linux || darwin

package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/file"
	"github.com/go-election/go-election/lab/testbed"
)

func read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	testbed.NoError(t, err)
	return text
}

// remove removes the files whose names begin like this.
func remove(dir, prefix string) error {
	all, err := os.ReadDir(dir)
	for _, f := range all {
		if strings.HasPrefix(f.Name(), prefix) {
			os.Remove(filepath.Join(dir, f.Name()))
		}
	}
	return err
}

// copyOver replaces a file by a new one, as tar and rsync do.
func copyOver(path string, text []byte) error {
	return errors.Join(os.WriteFile(path+"~", text, 0o600), os.Rename(path+"~", path))
}

// backup copies the value. The function that it returns puts it back in place of what is there.
func backup(t testing.TB, dir string) (restore func() error) {
	t.Helper()
	texts := map[string][]byte{}
	for _, path := range files(t, dir) {
		texts[path] = read(t, path)
	}
	return func() error {
		err := remove(dir, "leases-")
		for path, text := range texts {
			err = errors.Join(err, copyOver(path, text))
		}
		return err
	}
}

// harms are what operators and programs do to a directory in which somebody leads. before is called before the
// leader is granted its lease.
var harms = map[string]struct {
	before func(t testing.TB, dir string) (harm func() error)
}{
	"the value is removed": {func(_ testing.TB, dir string) func() error {
		return func() error { return remove(dir, "leases-") }
	}},
	"everything is removed": {func(_ testing.TB, dir string) func() error {
		return func() error { return remove(dir, "") }
	}},
	"the value is emptied": {func(t testing.TB, dir string) func() error {
		return func() error { return os.Truncate(files(t, dir)[0], 0) }
	}},
	"the value is cut off": {func(t testing.TB, dir string) func() error {
		return func() error { return os.Truncate(files(t, dir)[0], 200) }
	}},
	"the value is edited": {func(t testing.TB, dir string) func() error {
		return func() error {
			path := files(t, dir)[0]
			return os.WriteFile(path, []byte(strings.Replace(string(read(t, path)), "jobs", "sobj", 1)), 0o600)
		}
	}},
	"the value is replaced by a copy": {func(t testing.TB, dir string) func() error {
		return func() error { path := files(t, dir)[0]; return copyOver(path, read(t, path)) }
	}},
	"a later value is planted": {func(t testing.TB, dir string) func() error {
		return func() error { return os.WriteFile(dir+"/leases-4000000000000000000.json", []byte("x"), 0o600) }
	}},
	"an older value is put back": {func(t testing.TB, dir string) func() error { return backup(t, dir) }},
	"the directory is replaced by an empty one": {func(_ testing.TB, dir string) func() error {
		return func() error { return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)) }
	}},
	"the directory is replaced by a copy": {func(t testing.TB, dir string) func() error {
		return func() error {
			restore := backup(t, dir)
			return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700), restore())
		}
	}},
}

// eventually bids as a manager does until it is granted the lease.
func (c *client) eventually(limit time.Duration) (won backend.Lease) {
	var seen backend.Lease
	var since time.Time
	for began := time.Now(); time.Since(began) < limit; time.Sleep(100 * time.Millisecond) {
		now, err := c.Looks("jobs")
		if err != nil {
			seen = backend.Lease{}
			continue
		}
		if !now.Unchanged(seen) {
			seen, since = now, time.Now()
		}
		if seen.ObserveFor >= 0 && time.Since(since) >= seen.ObserveFor {
			if got := c.Bids(seen); got.Outcome == backend.Granted {
				return got.Lease
			}
		}
	}
	return won
}

// While the leader may trust its lease, no other process gets it, whether it was there before or has just been
// started. The leader is not granted another renewal.
func TestFilesHarmedUnderALeaderFreeNothing(t *testing.T) {
	for what, harm := range harms {
		for _, fresh := range []bool{false, true} {
			if fresh && strings.Contains(what, "directory") {
				continue // not covered: see the package's comment
			}
			t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					dir := newDir(t)
					a, b := open(t, dir, "a"), open(t, dir, "b")
					b.Resigns(b.Leads("jobs"))
					do := harm.before(t, dir)
					held := a.Leads("jobs")
					time.Sleep(ttl / 3)
					b.Sees("jobs")
					a.Keeps(held)
					trusted := time.Now().Add(ttl)
					testbed.NoError(t, do())
					if fresh {
						b = open(t, dir, "c")
					}
					won := b.eventually(5 * time.Minute)
					switch {
					case what == "the value is replaced by a copy" && won.Term == 0: // the leader lives, and has not released it
					case won.Term == 0:
						t.Error("nobody is granted the lease in the end")
					case time.Now().Before(trusted):
						t.Errorf("granted %v before the leader's trust ends", time.Until(trusted))
					case won.Term <= held.Term && what != "an older value is put back":
						t.Errorf("term %d after %d", won.Term, held.Term)
					}
					if a.Renews(held).Outcome == backend.Granted {
						t.Error("the leader's renewal is granted")
					}
				})
			})
		}
	}
}

// No process is left that could lead, so none need wait.
func TestFilesHarmedAfterADeathCostNoTime(t *testing.T) {
	for _, what := range []string{"the value is removed", "everything is removed", "the value is emptied", "the value is replaced by a copy"} {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			dir := newDir(t)
			a := open(t, dir, "a")
			do := harms[what].before(t, dir)
			held := a.Leads("jobs")
			file.Die(a.Backend)
			testbed.NoError(t, do())
			if now := open(t, dir, "b").Leads("jobs"); now.Term <= held.Term {
				t.Errorf("term %d after %d", now.Term, held.Term)
			}
		})
	}
}

// A process is only dead by a pipe that it has made itself.
func TestAPipeProvesNothingUnlessItsProcessHasMadeIt(t *testing.T) {
	for what, harm := range map[string]func(path string) error{
		"it is removed":              os.Remove,
		"it is replaced by a pipe":   func(path string) error { return errors.Join(os.Remove(path), mkfifo(path)) },
		"it is replaced by a file":   func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
		"it is replaced by a link":   func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/null", path)) },
		"it is moved away":           func(path string) error { return os.Rename(path, path+"~") },
		"somebody has opened it too": nil,
	} {
		t.Run(strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := newDir(t)
				a, b := open(t, dir, "a"), open(t, dir, "b")
				held := a.Leads("jobs")
				pipes, _ := filepath.Glob(dir + "/*.alive")
				if harm == nil {
					f, err := os.OpenFile(pipes[0], os.O_RDWR, 0)
					testbed.NoError(t, err)
					f.WriteString("hello")
					defer f.Close()
				} else if err := harm(pipes[0]); err != nil {
					t.Fatal(err)
				}
				file.Die(a.Backend)
				seen := b.Sees("jobs")
				if seen.Vacant() || seen.ObserveFor >= 0 && seen.ObserveFor < held.TTL {
					t.Errorf("the lease of a process whose death is not proven: %+v", seen)
				}
				if harm == nil {
					return
				}
				began := time.Now()
				if won := b.eventually(time.Minute); won.Term <= held.Term || time.Since(began) < held.TTL {
					t.Errorf("term %d after %v, before that %d", won.Term, time.Since(began), held.Term)
				}
			})
		})
	}
}

// Its pipe says that it lives, though it has lost its name.
func TestALeaderThatLivesKeepsItsLeaseThoughItsPipeIsMadeAnew(t *testing.T) {
	dir := newDir(t)
	a, b := open(t, dir, "a"), open(t, dir, "b")
	a.Leads("jobs")
	pipes, _ := filepath.Glob(dir + "/*.alive")
	testbed.NoError(t, os.Rename(pipes[0], pipes[0]+"~"))
	a.Leads("other")
	testbed.NoError(t, os.Rename(pipes[0]+"~", pipes[0]))
	if l := b.Sees("jobs"); l.ObserveFor != backend.ExpiresInStore {
		t.Errorf("the lease of a process that lives: %+v", l)
	}
}

// A restart leaves the files as they are, without processes.
func TestARestartOfTheMachineKeepsTerms(t *testing.T) {
	dir := newDir(t)
	future := uint64(time.Now().Add(1000 * time.Hour).UnixMicro()) // terms ahead of the clock
	var last uint64
	for range 5 {
		c := open(t, dir, "c")
		bid := c.BidOver(c.Sees("jobs"))
		bid.MinTerm = future
		got := c.Makes(bid)[0]
		if got.Outcome != backend.Granted || got.Term <= last {
			t.Fatalf("after term %d: %+v", last, got)
		}
		last, future = got.Term, 0
		file.Die(c.Backend)
	}
}
