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

// A freezer is a control group whose processes freeze and resume together.
type freezer struct {
	dir, parent string // the group, and the one to which its processes return
	file        string // freezes the group when on is written to it
	on, off     string
	state       string // the file that reports the state
	frozen      string // how a line of it begins when the group is frozen
}

// Freeze stops all threads of these processes together, like a host that is suspended
// or migrated, until the returned function is called. Further calls of it do nothing. No
// signal reaches frozen processes. Freeze needs root and the freezer of control groups,
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

// newFreezer makes a group inside the group of this process.
func newFreezer() (*freezer, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, try := range []struct {
		root, name string // the mount point, and the name in /proc/self/cgroup
		freezer
	}{
		{"/sys/fs/cgroup/freezer", "freezer", freezer{file: "freezer.state", on: "FROZEN", off: "THAWED", state: "freezer.state", frozen: "FROZEN"}},
		{"/sys/fs/cgroup", "", freezer{file: "cgroup.freeze", on: "1", off: "0", state: "cgroup.events", frozen: "frozen 1"}},
	} {
		f := try.freezer
		f.parent = try.root
		for line := range strings.Lines(string(groups)) { // "4:freezer:/a", "0::/a"
			if part := strings.SplitN(strings.TrimSpace(line), ":", 3); len(part) == 3 && part[1] == try.name {
				if _, err := os.Stat(filepath.Join(try.root, part[2], "cgroup.procs")); err == nil {
					f.parent = filepath.Join(try.root, part[2])
				}
			}
		}
		if f.dir, err = os.MkdirTemp(f.parent, "election-test-"); err == nil {
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

// end resumes the processes and removes the group.
func (f *freezer) end(pids []int) error {
	if err := f.write(f.file, f.off); err != nil {
		return err
	}
	for _, pid := range pids {
		os.WriteFile(filepath.Join(f.parent, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) // fails if it has ended
	}
	return poll(time.Minute, func() error { return os.Remove(f.dir) }) // a process that is ending is in the group for a moment
}
