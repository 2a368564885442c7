package testbed

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A group is a control group that a test has made, of version 1 or 2.
type group struct{ dir, parent string }

// newGroup makes a group inside the group of this process in which a controller of version 1 has the
// file v1, or version 2 the file v2.
func newGroup(controller, v1, v2 string) (g *group, file string, err error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, "", err
	}
	var errs []error
	for _, try := range []struct{ root, name, file string }{ // the mount point, and the name in /proc/self/cgroup
		{"/sys/fs/cgroup/" + controller, controller, v1},
		{"/sys/fs/cgroup", "", v2},
	} {
		g := &group{parent: try.root}
		for line := range strings.Lines(string(groups)) { // "4:freezer:/a", "0::/a"
			if part := strings.SplitN(strings.TrimSpace(line), ":", 3); len(part) == 3 && part[1] == try.name {
				if _, err := os.Stat(filepath.Join(try.root, part[2], "cgroup.procs")); err == nil {
					g.parent = filepath.Join(try.root, part[2])
				}
			}
		}
		if g.dir, err = os.MkdirTemp(g.parent, "election-test-"); err == nil {
			if _, err = os.Stat(filepath.Join(g.dir, try.file)); err == nil {
				return g, try.file, nil
			}
			os.Remove(g.dir)
		}
		errs = append(errs, err)
	}
	return nil, "", errors.Join(errs...)
}

func (g *group) write(file, text string) error {
	return os.WriteFile(filepath.Join(g.dir, file), []byte(text), 0)
}

// remove removes the group when its processes have ended.
func (g *group) remove() error {
	return poll(time.Minute, func() error { return os.Remove(g.dir) }) // a process that is ending is in it for a moment
}

// LimitMemory returns a control group whose processes may have that many bytes of memory together. When
// they want more, the kernel kills the greatest. A process enters the group by writing 0 to its cgroup.procs.
// LimitMemory needs root and the memory controller.
func LimitMemory(t testing.TB, bytes int64) (dir string) {
	t.Helper()
	g, file, err := newGroup("memory", "memory.limit_in_bytes", "memory.max")
	if err == nil {
		err = g.write(file, strconv.FormatInt(bytes, 10))
	}
	if err != nil {
		t.Fatalf("limit memory: %v", err)
	}
	t.Cleanup(func() {
		if err := g.remove(); err != nil {
			t.Errorf("remove the group whose memory is limited: %v", err)
		}
	})
	return g.dir
}
