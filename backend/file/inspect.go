//go:build linux || darwin

package file

import (
	"context"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
)

var _ backend.Inspector = (*Backend)(nil)

// What is little room: grants replace short files, and flush them.
const (
	fewBytes = 16 << 20
	fewFiles = 1000
	fewOpen  = 64 // files that a process needs besides its leases
)

// Inspect explains the directory: where it is and who can write it, how much room there
// is, how many leases a process can hold, how it hears of changes, and whether somebody
// has deleted files.
func (b *Backend) Inspect(ctx context.Context, _, _ time.Duration) ([]backend.Diagnostic, error) {
	if err := b.guard.Enter(ctx, ""); err != nil {
		return nil, fail("inspect", err)
	}
	s, err := b.survey()
	if err != nil {
		return nil, fail("inspect", err)
	}
	return s.diagnostics(), nil
}

// A survey is what there is to know of a directory.
type survey struct {
	dir, kind string // kind of file system
	mode      fs.FileMode
	room      uint64 // in bytes
	files     uint64 // for how many files there is room
	limit     uint64 // of open files
	kept      int    // records of elections
	listed    bool   // there is a register
	lost      int    // elections that stand in it and have no record
	register  error  // why it is not believed
	hearing   error  // why the kernel does not tell of changes
	maxTTL    time.Duration
	poll      bool
}

func (b *Backend) survey() (s survey, err error) {
	s = survey{dir: b.dir, maxTTL: b.maxTTL, poll: b.poll}
	info, err := os.Stat(b.dir)
	if err != nil {
		return s, err
	}
	s.mode = info.Mode().Perm()
	if s.kind, _, err = fileSystem(b.dir); err != nil {
		return s, err
	}
	var st syscall.Statfs_t
	if err := again(func() error { return syscall.Statfs(b.dir, &st) }); err != nil {
		return s, err
	}
	if s.room, s.files = st.Bavail*uint64(st.Bsize), st.Ffree; st.Files == 0 { // as many as there are bytes for
		s.files = s.room
	}
	var open syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &open); err != nil {
		return s, err
	}
	s.limit = open.Cur
	if n, err := newNotice(b.dir); err != nil {
		s.hearing = err
	} else {
		n.close()
	}
	// First the register, since an election stands there before it has a record.
	s.listed, _, s.register = b.listed("")
	b.mu.Lock()
	names := b.register.names // never changed
	b.mu.Unlock()
	files, err := b.files(recordSuffix)
	if err != nil {
		return s, err
	}
	there := make(map[string]bool, len(files))
	for _, name := range files {
		there[name] = true
	}
	s.kept = len(there)
	for name := range names {
		if s.listed && name != "" && !there[name] {
			s.lost++
		}
	}
	return s, nil
}

func (s survey) diagnostics() (list []backend.Diagnostic) {
	add := func(warning bool, what, format string, args ...any) {
		list = append(list, backend.Diagnosticf(warning, what, format, args...))
	}
	switch s.kind {
	case "tmpfs", "ramfs":
		add(true, "directory", "%s is on %s, which is empty after the machine has restarted: terms then grow by its clock alone", s.dir, s.kind)
	case "overlayfs":
		add(true, "directory", "%s is on overlayfs, a container's own layer: containers that do not share it elect a leader each. Mount a directory of the machine", s.dir)
	default:
		add(false, "directory", "%s is on %s", s.dir, s.kind)
	}
	if s.mode&0o020 != 0 {
		add(true, "rights", "%s is writable for its group (%04o), which can so depose or impersonate any leader: chmod g-w", s.dir, s.mode)
	} else {
		add(false, "rights", "only this user can write %s (%04o)", s.dir, s.mode)
	}
	add(s.room < fewBytes || s.files < fewFiles, "room", "%d MiB, for %d files; a grant writes a few short ones", s.room>>20, s.files)
	add(uint64(s.kept)+fewOpen > s.limit, "open files", "%d for this process, one for each lease that it holds; %d elections are kept", s.limit, s.kept)
	switch {
	case s.poll:
		add(false, "hearing", "followers read at a leader's expected renewals (poll), and hear of its end no sooner")
	case s.hearing != nil:
		add(true, "hearing", "followers read every %v, as the kernel does not tell them of changes: %v (see fs.inotify.max_user_instances)", lookEvery, s.hearing)
	default:
		add(false, "hearing", "the kernel tells followers of changes")
	}
	switch {
	case s.register != nil:
		add(true, "register", "%v", s.register)
	case !s.listed && s.kept > 0:
		add(true, "register", "%s is gone: somebody has deleted it. While anybody leads anything here, the first leader of a new election watches for %v first", registerFile, s.maxTTL)
	case s.lost > 0:
		add(true, "register", "of %d elections there is no record: somebody has deleted files, or their first leader died too early. While anybody leads anything here, their next one watches for %v first", s.lost, s.maxTTL)
	default:
		add(false, "register", "every election that was ever led here has its record; the greatest TTL is %v", s.maxTTL)
	}
	return list
}
