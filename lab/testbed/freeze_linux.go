package testbed

import (
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
	*group
	file    string // freezes the group when on is written to it
	on, off string
	state   string // the file that reports the state
	frozen  string // how a line of it begins when the group is frozen
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

func newFreezer() (*freezer, error) {
	const v1, v2 = "freezer.state", "cgroup.freeze"
	g, file, err := newGroup("freezer", v1, v2)
	if err != nil {
		return nil, err
	}
	if file == v1 {
		return &freezer{group: g, file: v1, on: "FROZEN", off: "THAWED", state: v1, frozen: "FROZEN"}, nil
	}
	return &freezer{group: g, file: v2, on: "1", off: "0", state: "cgroup.events", frozen: "frozen 1"}, nil
}

// end resumes the processes and removes the group.
func (f *freezer) end(pids []int) error {
	if err := f.write(f.file, f.off); err != nil {
		return err
	}
	for _, pid := range pids {
		os.WriteFile(filepath.Join(f.parent, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) // fails if it has ended
	}
	return f.remove()
}
