package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// limitMemory returns a control group whose processes may have that many bytes of memory together. When
// they want more, the kernel kills the greatest. A process enters the group by writing 0 to its cgroup.procs.
// limitMemory needs root and the memory controller, of version 1 or 2.
func limitMemory(t testing.TB, bytes int64) (dir string) {
	t.Helper()
	groups, err := os.ReadFile("/proc/self/cgroup")
	testbed.NoError(t, err)
	var errs []error
	for _, version := range []struct{ root, name, file string }{ // the mount point, and the name in /proc/self/cgroup
		{"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes"},
		{"/sys/fs/cgroup", "", "memory.max"},
	} {
		parent := version.root
		for line := range strings.Lines(string(groups)) { // "4:memory:/a", "0::/a"
			if part := strings.SplitN(strings.TrimSpace(line), ":", 3); len(part) == 3 && part[1] == version.name {
				if _, err := os.Stat(filepath.Join(version.root, part[2], "cgroup.procs")); err == nil {
					parent = filepath.Join(version.root, part[2])
				}
			}
		}
		dir, err := os.MkdirTemp(parent, "election-test-")
		if err == nil {
			limit := filepath.Join(dir, version.file)
			if _, err = os.Stat(limit); err == nil { // otherwise the write would create it
				err = os.WriteFile(limit, []byte(strconv.FormatInt(bytes, 10)), 0)
			}
			if err == nil {
				t.Cleanup(func() { // a process that is ending is in it for a moment
					testbed.Eventually(t, time.Minute, "the group whose memory is limited is removed", func() error { return os.Remove(dir) })
				})
				return dir
			}
			os.Remove(dir)
		}
		errs = append(errs, err)
	}
	t.Fatalf("limit memory: %v", errors.Join(errs...))
	return ""
}
