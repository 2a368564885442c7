//go:build linux || darwin

package file

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// checkDir reports why a directory cannot be used.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	target, err2 := filepath.EvalSymlinks(dir)
	kind, isLocal, err3 := fileSystem(dir)
	if err := cmp.Or(err, err2, err3); err != nil {
		return err
	}

	uid, why := int(info.Sys().(*syscall.Stat_t).Uid), ""
	switch {
	case !info.IsDir():
		why = "it is not a directory"
	case uid != os.Geteuid():
		why = fmt.Sprintf("it belongs to user %d, and this process to user %d: run it as user %d, as all"+
			" members must", uid, os.Geteuid(), uid)
	case info.Mode().Perm()&0o022 != 0:
		why = "other users can write it (chmod go-w)"
	case target != dir && target != "/private"+dir: // macOS has /tmp and /var there
		why = "a link leads there, and whoever switches it makes a second leader: set dir to " + target
	case !isLocal:
		why = fmt.Sprintf("its file system (%s) is not known to be local: use a disk of this machine", kind)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s: %s", backend.ErrDenied, dir, why)
}

// fileSystem returns the kind of the file system that a directory is on, and whether it is known to be local.
func fileSystem(dir string) (kind string, isLocal bool, err error) {
	var st syscall.Statfs_t
	err = os.NewSyscallError("statfs", syscall.Statfs(dir, &st))
	kind, isLocal = kindOf(&st)
	return kind, isLocal, err
}

// fleeting has what to know of some kinds of file systems.
var fleeting = map[string]string{
	"tmpfs":     ", which is empty after the machine has restarted: terms then grow by its clock alone",
	"overlayfs": ", a container's own layer: others elect their own leader. Mount a directory of the machine",
}

// Inspect explains the directory: its file system, and whether the leases can be believed, and written.
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) (list []backend.Diagnostic, err error) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	dir := b.store.dir
	kind, _, err := fileSystem(dir)
	if err := errors.Join(b.Enter(""), ctx.Err(), err); err != nil {
		return nil, fail("file: inspect", err)
	}

	advice := fleeting[kind]
	add(advice != "", "directory", "%s is on %s%s", dir, kind, advice)
	c, in, err := b.store.current(ctx)
	if err == nil {
		temp := tempPrefix + rand.Text()
		err = fail("write", write(in, temp, &content{}))
		in.Remove(temp)
	}
	if err != nil {
		add(true, "leases", "%v", err)
	} else {
		add(false, "leases", "%d of %d kB are used; the greatest TTL is %v",
			len(c.value)>>10, maxBytes>>10, b.store.maxTTL)
	}
	return list, nil
}

// passing may go away by themselves, as errors of the kernel that are Temporary. All others need an operator.
var passing = []syscall.Errno{syscall.ENOENT, syscall.EEXIST, syscall.ENOMEM}

// fail wraps err with what was being done, and an error of the kernel with its class. It returns nil for nil.
func fail(what string, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil:
		return nil
	case !ok: // it has a class, or is that of a context
		return fmt.Errorf("%s: %w", what, err)
	case errno.Temporary(), slices.Contains(passing, errno):
		return fmt.Errorf("%s: %w: %w", what, backend.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w: %w", what, backend.ErrDenied, err)
}
