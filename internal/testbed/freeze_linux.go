package testbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A freezer is a control group whose processes stop and go on together.
type freezer struct {
	dir, home string // the group, and the one that its processes go back to
	file      string // what is written to freeze it, and read to see that it is
	on, off   string // what to write there
	state     string // where it says that it is frozen
	frozen    string // and how
}

// Freeze stops all threads of these processes together, as those of a host that is
// suspended or moved, until the function that it returns is called, once or more. No
// signal reaches them meanwhile. It takes root, and the freezer of control groups, of
// version 1 or 2.
func Freeze(t testing.TB, pids ...int) (thaw func()) {
	t.Helper()
	Full(t, "freezes processes")
	f, err := newFreezer()
	if err != nil {
		t.Fatalf("freeze processes: %v", err)
	}
	thaw = sync.OnceFunc(func() {
		if err := f.end(pids); err != nil {
			t.Errorf("thaw processes: %v", err)
		}
	})
	t.Cleanup(thaw)
	for _, pid := range pids {
		if err := f.write("cgroup.procs", strconv.Itoa(pid)); err != nil {
			t.Fatalf("freeze process %d: %v", pid, err)
		}
	}
	if err := f.write(f.file, f.on); err != nil {
		t.Fatalf("freeze processes: %v", err)
	}
	Eventually(t, time.Minute, "all to be frozen", func() error {
		said, err := os.ReadFile(filepath.Join(f.dir, f.state))
		if err == nil && !strings.Contains("\n"+string(said), "\n"+f.frozen) {
			err = fmt.Errorf("%s is %q", f.state, said)
		}
		return err
	})
	return thaw
}

// newFreezer makes a group beside the one of this process.
func newFreezer() (*freezer, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, try := range []struct {
		root, name string // where it is mounted, and what /proc calls it
		freezer
	}{
		{"/sys/fs/cgroup/freezer", "freezer", freezer{file: "freezer.state", on: "FROZEN", off: "THAWED", state: "freezer.state", frozen: "FROZEN"}},
		{"/sys/fs/cgroup", "", freezer{file: "cgroup.freeze", on: "1", off: "0", state: "cgroup.events", frozen: "frozen 1"}},
	} {
		f := try.freezer
		f.home = try.root
		for line := range strings.Lines(string(groups)) { // "4:freezer:/a", "0::/a"
			if part := strings.SplitN(strings.TrimSpace(line), ":", 3); len(part) == 3 && part[1] == try.name {
				if _, err := os.Stat(filepath.Join(try.root, part[2], "cgroup.procs")); err == nil {
					f.home = filepath.Join(try.root, part[2])
				}
			}
		}
		if f.dir, err = os.MkdirTemp(f.home, "election-test-"); err == nil {
			if _, err = os.Stat(filepath.Join(f.dir, f.file)); err == nil {
				return &f, nil
			}
			os.Remove(f.dir)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (f *freezer) write(file, text string) error {
	return os.WriteFile(filepath.Join(f.dir, file), []byte(text), 0)
}

// end lets all go on, and takes the group away.
func (f *freezer) end(pids []int) error {
	if err := f.write(f.file, f.off); err != nil {
		return err
	}
	for _, pid := range pids {
		os.WriteFile(filepath.Join(f.home, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) // unless it has ended
	}
	return poll(time.Minute, func() error { return os.Remove(f.dir) }) // who is ending counts for a moment
}
