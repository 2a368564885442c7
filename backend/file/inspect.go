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

// Below these limits Inspect warns. A grant replaces short files and writes them to the disk.
const (
	fewBytes     = 16 << 20
	fewFiles     = 1000
	fewOpenFiles = 64 // files that a process needs besides its leases
)

// Inspect explains the directory: its file system, who can write it, how much space is
// free, how many leases a process can hold, whether the kernel reports changes, and
// whether files were deleted.
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.owner.Enter(ctx, ""); err != nil {
		return nil, fail("inspect", err)
	}
	s, err := b.survey()
	if err != nil {
		return nil, fail("inspect", err)
	}
	return s.diagnostics(), nil
}

// A survey is what can be found out about a directory.
type survey struct {
	dir, fileSystem string
	mode            fs.FileMode
	freeBytes       uint64
	freeFiles       uint64
	openLimit       uint64 // how many files this process may have open
	records         int    // elections with a record
	hasRegister     bool
	lost            int   // elections that the register lists and that have no record
	registerErr     error // why the register is not believed
	watchErr        error // why the kernel does not report changes
	maxTTL          time.Duration
	poll            bool
}

func (b *Backend) survey() (s survey, err error) {
	s = survey{dir: b.dir, maxTTL: b.maxTTL, poll: b.poll}
	info, err := os.Stat(b.dir)
	if err != nil {
		return s, err
	}
	s.mode = info.Mode().Perm()
	if s.fileSystem, _, err = fileSystem(b.dir); err != nil {
		return s, err
	}
	var st syscall.Statfs_t
	if err := retryEINTR(func() error { return syscall.Statfs(b.dir, &st) }); err != nil {
		return s, err
	}
	if s.freeBytes, s.freeFiles = st.Bavail*uint64(st.Bsize), st.Ffree; st.Files == 0 { // this file system counts only bytes
		s.freeFiles = s.freeBytes
	}
	var open syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &open); err != nil {
		return s, err
	}
	s.openLimit = open.Cur
	if w, err := watchDir(b.dir); err != nil {
		s.watchErr = err
	} else {
		w.close()
	}
	// First the register: an election is listed there before it has a record.
	s.hasRegister, _, s.registerErr = b.isListed("")
	b.mu.Lock()
	names := b.register.names // this map is replaced, and never changed
	b.mu.Unlock()
	files, err := b.listFiles(recordSuffix)
	if err != nil {
		return s, err
	}
	recorded := make(map[string]bool, len(files))
	for _, name := range files {
		recorded[name] = true
	}
	s.records = len(recorded)
	for name := range names {
		if s.hasRegister && name != "" && !recorded[name] {
			s.lost++
		}
	}
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
	add(s.freeBytes < fewBytes || s.freeFiles < fewFiles, "space", "%d MiB are free, and %d files; a grant writes a few short ones", s.freeBytes>>20, s.freeFiles)
	add(uint64(s.records)+fewOpenFiles > s.openLimit, "open files", "this process may open %d, one for each lease that it holds; the directory has %d elections", s.openLimit, s.records)
	switch {
	case s.poll:
		add(false, "notification", "followers read at a leader's expected renewals (poll), and learn of its end no sooner")
	case s.watchErr != nil:
		add(true, "notification", "followers read every %v, because the kernel does not tell them of changes: %v (see fs.inotify.max_user_instances)", pollEvery, s.watchErr)
	default:
		add(false, "notification", "the kernel tells followers of changes")
	}
	switch {
	case s.registerErr != nil:
		add(true, "register", "%v", s.registerErr)
	case !s.hasRegister && s.records > 0:
		add(true, "register", "%s was deleted. While any process leads here, the first leader of a new election waits for %v", registerFile, s.maxTTL)
	case s.lost > 0:
		add(true, "register", "elections without a record: %d. Files were deleted, or their first leader died too early. While any process leads here, their next leader waits for %v", s.lost, s.maxTTL)
	default:
		add(false, "register", "every election that was ever led here has its record; the greatest TTL is %v", s.maxTTL)
	}
	return list
}
