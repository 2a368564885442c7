//go:build linux || darwin

package file

import (
	"context"
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
	if err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	kind, isLocal, err := fileSystem(dir)
	if err != nil {
		return err
	}

	uid, mode := int(info.Sys().(*syscall.Stat_t).Uid), info.Mode()
	switch {
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a directory", backend.ErrDenied, dir)
	case uid != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to user %d and this process is user %d: all members must run as one user, who owns it (chown)", backend.ErrDenied, dir, uid, os.Geteuid())
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("%w: other users can write %s (chmod go-w)", backend.ErrDenied, dir)
	case target != dir && target != "/private"+dir: // macOS has /tmp and /var there
		return fmt.Errorf("%w: a symbolic link leads to %s, and whoever switches it makes a second leader: give the path %s (dir)", backend.ErrDenied, dir, target)
	case !isLocal:
		return fmt.Errorf("%w: the directory %s is on a file system (%s) that is not known to be local: locks there may not be those that other machines see; use a directory on a disk of this machine", backend.ErrDenied, dir, kind)
	}
	return nil
}

// fileSystem returns the kind of the file system that a directory is on, and whether it is known to be local.
func fileSystem(dir string) (kind string, isLocal bool, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return "", false, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	kind, isLocal = kindOf(&st)
	return kind, isLocal, nil
}

// fleeting has what to know of some kinds of file systems.
var fleeting = map[string]string{
	"tmpfs":     ", which is empty after the machine has restarted: terms then grow by its clock alone",
	"overlayfs": ", a container's own layer: containers that do not share it elect a leader each. Mount a directory of the machine",
}

// Inspect explains the directory: its file system, and whether the leases can be believed.
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
	if c, _, err := b.store.current(ctx); err != nil {
		add(true, "leases", "%v", err)
	} else {
		add(false, "leases", "%d of %d kB are used; the greatest TTL is %v", len(c.value)>>10, maxBytes>>10, b.store.maxTTL)
	}
	return list, nil
}

// passing are the errors of the kernel that may go away by themselves. All others need an operator.
var passing = []syscall.Errno{syscall.ENOENT, syscall.EEXIST, syscall.EINTR, syscall.EAGAIN, syscall.ENOMEM}

// fail wraps err with what was being done, and an error of the kernel with its class. It returns nil for nil.
func fail(what string, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil:
		return nil
	case !ok: // it has a class, or is that of a context
		return fmt.Errorf("%s: %w", what, err)
	case slices.Contains(passing, errno):
		return fmt.Errorf("%s: %w: %w", what, backend.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w: %w", what, backend.ErrDenied, err)
}
