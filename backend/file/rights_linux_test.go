package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A directory that may not be read, or whose files may not, is not one without elections. If a pipe cannot be opened, its
// process is not known to have ended.
func TestADirectoryThatMayNotBeReadIsDenied(t *testing.T) {
	for what, mode := range map[string]os.FileMode{"may be entered, not listed": 0o111, "may be listed, not entered": 0o444, "has closed pipes": 0o755} {
		dir := newDir(t)
		a, b := open(t, dir, "a"), open(t, dir, "b")
		a.Leads("jobs")
		testbed.NoError(t, a.Announce(t.Context(), backend.Member{Candidate: a.Me, TTL: ttl}))
		for _, path := range files(t, dir) {
			testbed.NoError(t, os.Chmod(path, 0o644))
		}
		above := filepath.Dir(dir) // which nobody else may enter either
		testbed.NoError(t, errors.Join(os.Chmod(filepath.Dir(above), 0o755), os.Chmod(above, 0o755), os.Chmod(dir, mode)))
		errs := map[string]error{}
		asNobody(func() {
			_, errs["observe"] = b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}})
			_, errs["list"] = b.List(t.Context(), "", 10)
			if mode != 0o755 { // which does not say who lives
				_, errs["members"] = b.Members(t.Context(), "", 10)
			}
		})
		for call, err := range errs {
			if !errors.Is(err, backend.ErrDenied) {
				t.Errorf("%s in a directory that %s: %v; want ErrDenied", call, what, err)
			}
		}
		testbed.NoError(t, os.Chmod(dir, 0o700))
	}
}

// asNobody calls f with the rights of a user who is not root, if this process is root.
func asNobody(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if was := os.Geteuid(); was == 0 {
		syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0)
		defer syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(was), 0, 0)
	}
	f()
}
