//go:build linux || darwin

package file

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
)

// checkDir reports why a directory cannot be used.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir() || !ok:
		return fmt.Errorf("%w: %s is not a directory", backend.ErrDenied, dir)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: the directory %s belongs to user %d and this process is user %d: all members must run as one user, who owns it (chown)", backend.ErrDenied, dir, st.Uid, os.Geteuid())
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("%w: every user can write the directory %s, and so remove the lock of a leader (chmod o-w)", backend.ErrDenied, dir)
	}
	kind, local, err := fileSystem(dir)
	switch {
	case err != nil:
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	case !local:
		return fmt.Errorf("%w: the directory %s is on a file system (%s) that is not known to be local: locks there may not be those that other machines see; use a directory on a disk of this machine", backend.ErrDenied, dir, kind)
	}
	return nil
}

// dirIdentity returns the identity of the directory at the path. It follows links.
func (b *Backend) dirIdentity() (string, error) {
	var st syscall.Stat_t
	if err := retryEINTR(func() error { return syscall.Stat(b.dir, &st) }); err != nil {
		return "", &os.PathError{Op: "stat", Path: b.dir, Err: err}
	}
	return identity(&st), nil
}

// lastSwitch returns when a symbolic link on the way to a directory was last made or replaced; zero: there is none.
func lastSwitch(dir string) (last time.Time, err error) {
	at, parts := "/", strings.Split(dir, "/")
	for links := 0; len(parts) > 0 && links < maxLinks; {
		next := filepath.Join(at, parts[0]) // no link is in at, so ".." leads where it seems to
		parts = parts[1:]
		var st syscall.Stat_t
		if err := retryEINTR(func() error { return syscall.Lstat(next, &st) }); err != nil {
			return last, &os.PathError{Op: "lstat", Path: next, Err: err}
		}
		if st.Mode&syscall.S_IFMT != syscall.S_IFLNK {
			at = next
			continue
		}

		links++
		target, err := os.Readlink(next)
		if err != nil {
			return last, err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		parts = append(strings.Split(target, "/"), parts...)
		ts := changed(&st)
		if made := time.Unix(ts.Unix()); made.After(last) {
			last = made
		}
	}
	return last, nil
}

// maxLinks is how many the kernel follows on a path.
const maxLinks = 40

// enterDir notes which directory is at the path. It counts as one that has just come there if a link that leads to it
// was switched within the greatest TTL: a leader in the directory before may not have found out.
func (b *Backend) enterDir() error {
	now, err := b.dirIdentity()
	if err != nil {
		return err
	}
	last, err := lastSwitch(b.dir) // after the identity, so that a switch between them shows in one of them
	if err == nil && time.Since(last) > b.maxTTL {
		b.dirID = now
	}
	return err
}

// dirSettled reports whether the directory at the path is the one that was there when
// this Backend was opened, or has been there for the greatest TTL. A leader in an earlier
// directory has found out by then, and has stopped. The caller holds b.mu.
func (b *Backend) dirSettled() bool {
	now, err := b.dirIdentity()
	switch {
	case err != nil:
		return false
	case now == b.dirID:
		b.newDirID = ""
		return true
	case now != b.newDirID:
		b.newDirID, b.newDirSince = now, time.Now()
	case time.Since(b.newDirSince) > b.maxTTL:
		b.dirID, b.newDirID = now, ""
		return true
	}
	return false
}

func (b *Backend) inSettledDir() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dirSettled()
}

// lockDir takes part in the shared lock on the directory itself. That lock tells other
// processes that this one holds an election lock in it: see nobodyLeads.
func (b *Backend) lockDir(h *electionLock) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.counted {
		return nil
	}
	if b.lockCount == 0 {
		f, err := os.Open(b.dir)
		if err != nil {
			return err
		}
		got, err := flock(f, syscall.LOCK_SH)
		for try := 0; try < 50 && !got && err == nil; try++ { // another process may be testing the lock
			time.Sleep(250 * time.Microsecond)
			got, err = flock(f, syscall.LOCK_SH)
		}
		if !got && err == nil {
			err = fmt.Errorf("%w: another program has locked the directory %s", backend.ErrUnavailable, b.dir)
		}
		if err == nil {
			err = setSharedProbeLock(f)
		}
		if err != nil {
			f.Close()
			return err
		}
		b.sharedLock = f
	}
	b.lockCount++
	h.counted = true
	return nil
}

// unlockDir ends the part of one election lock in the shared lock on the directory.
func (b *Backend) unlockDir() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lockCount--; b.lockCount == 0 {
		b.sharedLock.Close()
		b.sharedLock = nil
	}
}

// nobodyLeads reports whether no process at all holds an election lock in this directory.
func (b *Backend) nobodyLeads() (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lockCount > 0 {
		return false, nil
	}
	if !b.dirSettled() {
		return false, nil
	}
	f, err := os.Open(b.dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	led, err := anySharedLock(f)
	return !led && err == nil, err
}
