//go:build linux || darwin

package file

import (
	"context"
	"errors"
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
// free, and whether the leases can be believed.
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) (list []backend.Diagnostic, err error) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, clean.Diagnosticf(warning, what, format, args...))
	}
	if err := errors.Join(b.Enter(""), ctx.Err()); err != nil {
		return nil, fail("file: inspect", err)
	}
	dir := b.store.dir
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fail("file: inspect", err)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return nil, fail("file: inspect", err)
	}

	switch kind, _ := fileSystem(&st); kind {
	case "tmpfs", "ramfs":
		add(true, "directory", "%s is on %s, which is empty after the machine has restarted: terms then grow by its clock alone", dir, kind)
	case "overlayfs":
		add(true, "directory", "%s is on overlayfs, a container's own layer: containers that do not share it elect a leader each. Mount a directory of the machine", dir)
	default:
		add(false, "directory", "%s is on %s", dir, kind)
	}
	if mode := info.Mode().Perm(); mode&0o020 != 0 {
		add(true, "rights", "%s is writable for its group (%04o): any user of that group can depose or impersonate any leader (chmod g-w)", dir, mode)
	} else {
		add(false, "rights", "only this user can write %s (%04o)", dir, mode)
	}
	free := st.Bavail * uint64(st.Bsize)
	few := free < fewBytes || st.Files > 0 && st.Ffree < fewFiles // some file systems count only bytes
	add(few, "space", "%d MiB are free, and %d files; each renewal writes one with all leases", free>>20, st.Ffree)

	if err := b.store.lock(ctx); err != nil {
		return list, err
	}
	defer b.store.unlock()
	if c, err := b.store.current(); err != nil {
		add(true, "leases", "%v", err)
	} else {
		add(false, "leases", "%d of %d kB are used; the greatest TTL is %v", len(c.value)>>10, limits.MaxBytes>>10, b.store.maxTTL)
	}
	return list, nil
}
