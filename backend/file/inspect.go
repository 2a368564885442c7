//go:build linux || darwin

package file

import (
	"context"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var _ backend.Inspector = (*Backend)(nil)

// Below these limits Inspect warns. Each renewal writes a new file.
const (
	fewBytes = 32 << 20
	fewFiles = 1000
)

// Inspect explains the directory: its file system, who can write it, how much space is
// free, whether the kernel reports changes, and whether the leases can be believed.
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) ([]backend.Diagnostic, error) {
	err := b.Enter("")
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fail("file: inspect", err)
	}
	s, err := b.survey(ctx)
	if err != nil {
		return nil, fail("file: inspect", err)
	}
	return s.diagnostics(), nil
}

// A survey is what can be found out about a directory.
type survey struct {
	dir, fileSystem string
	mode            fs.FileMode
	freeBytes       uint64
	freeFiles       uint64
	size            int
	valueErr        error // why the leases are not believed
	watchErr        error // why the kernel does not report changes
	maxTTL          time.Duration
}

func (b *Backend) survey(ctx context.Context) (s survey, err error) {
	dir := b.store.dir
	s = survey{dir: dir, maxTTL: b.store.maxTTL}
	info, err := os.Stat(dir)
	if err != nil {
		return s, err
	}
	s.mode = info.Mode().Perm()
	if s.fileSystem, _, err = fileSystem(dir); err != nil {
		return s, err
	}
	var st syscall.Statfs_t
	if err := retryEINTR(func() error { return syscall.Statfs(dir, &st) }); err != nil {
		return s, err
	}
	if s.freeBytes, s.freeFiles = st.Bavail*uint64(st.Bsize), st.Ffree; st.Files == 0 { // this file system counts only bytes
		s.freeFiles = s.freeBytes
	}
	watch, err := watchDir(dir)
	if err == nil {
		err = watch.Close()
	}
	s.watchErr = err

	if err := b.store.lock(ctx); err != nil {
		return s, err
	}
	defer b.store.unlock()
	c, err := b.store.current()
	s.size, s.valueErr = len(c.value), err
	return s, nil
}

func (s survey) diagnostics() (list []backend.Diagnostic) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	switch s.fileSystem {
	case "tmpfs", "ramfs":
		add(true, "directory", "%s is on %s, which is empty after the machine has restarted: terms then grow by its clock alone", s.dir, s.fileSystem)
	case "overlayfs":
		add(true, "directory", "%s is on overlayfs, a container's own layer: containers that do not share it elect a leader each. Mount a directory of the machine", s.dir)
	default:
		add(false, "directory", "%s is on %s", s.dir, s.fileSystem)
	}
	if s.mode&0o020 != 0 {
		add(true, "rights", "%s is writable for its group (%04o): any user of that group can depose or impersonate any leader (chmod g-w)", s.dir, s.mode)
	} else {
		add(false, "rights", "only this user can write %s (%04o)", s.dir, s.mode)
	}
	add(s.freeBytes < fewBytes || s.freeFiles < fewFiles, "space", "%d MiB are free, and %d files; each renewal writes one with all leases", s.freeBytes>>20, s.freeFiles)
	if s.watchErr != nil {
		add(true, "notification", "followers read every %v, because the kernel does not tell them of changes: %v (see fs.inotify.max_user_instances)", pollEvery, s.watchErr)
	} else {
		add(false, "notification", "the kernel tells followers of changes")
	}
	if s.valueErr != nil {
		add(true, "leases", "%v", s.valueErr)
	} else {
		add(false, "leases", "%d of %d kB are used; the greatest TTL is %v", s.size>>10, limits.MaxBytes>>10, s.maxTTL)
	}
	return list
}
