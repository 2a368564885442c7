//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is not a directory", backend.ErrDenied, dir)
	}
	if err := checkOwner(dir, info); err != nil {
		return err
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	if kind, isLocal := fileSystem(&st); !isLocal {
		return fmt.Errorf("%w: the directory %s is on a file system (%s) that is not known to be local: locks there may not be those that other machines see; use a directory on a disk of this machine", backend.ErrDenied, dir, kind)
	}
	return nil
}

// lastSwitch returns when a symbolic link on the way to a directory was last made or replaced; zero: there is none.
func lastSwitch(dir string) (last time.Time, err error) {
	at, parts := "/", strings.Split(dir, "/")
	for links := 0; len(parts) > 0 && links < maxLinks; {
		next := filepath.Join(at, parts[0]) // no link is in at, so ".." leads where it seems to
		parts = parts[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return last, err
		}
		if info.Mode().Type() != os.ModeSymlink {
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
		ts := changed(stat(info))
		if made := time.Unix(ts.Unix()); made.After(last) {
			last = made
		}
	}
	return last, nil
}

// maxLinks is how many the kernel follows on a path.
const maxLinks = 40

// enter notes which directory is at the path. It counts as one that has just come there if a link that leads to it
// was switched within the greatest TTL: a leader in the directory before may not have found out.
func (s *store) enter() error {
	now, err := identityOf(s.dir)
	if err != nil {
		return err
	}
	last, err := lastSwitch(s.dir) // after the identity, so that a switch between them shows in one of them
	if err == nil && time.Since(last) > s.maxTTL {
		s.dirID = now
	}
	return err
}

// Another process may be testing the lock on the directory for a moment.
const (
	lockTries = 50
	lockPause = 250 * time.Microsecond
)

// tryLock opens the directory and locks it. It returns -1 if others keep it locked. The descriptor is no os.File,
// which the garbage collector would close.
func tryLock(dir string, how int) (fd int, err error) {
	if fd, err = syscall.Open(dir, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err != nil {
		return -1, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	for range lockTries {
		if err = syscall.Flock(fd, how|syscall.LOCK_NB); err == nil {
			return fd, nil
		}
		if err != syscall.EWOULDBLOCK {
			break
		}
		time.Sleep(lockPause)
	}
	syscall.Close(fd)
	if err == syscall.EWOULDBLOCK {
		return -1, nil
	}
	return -1, &os.PathError{Op: "flock", Path: dir, Err: err}
}

// isLed reports whether a process that may lead has locked the directory. Deleting files ends no such lock.
func (s *store) isLed() (bool, error) {
	if s.sharedIn(s.dirID) {
		return true, nil
	}
	fd, err := tryLock(s.dir, syscall.LOCK_EX)
	if fd >= 0 {
		syscall.Close(fd)
	}
	return fd < 0, err
}

// share locks the directory, as each process does that may lead in it. The kernel ends the lock with the
// process.
func (s *store) share(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.sharedIn(s.dirID) {
		return nil
	}
	fd, err := tryLock(s.dir, syscall.LOCK_SH)
	if err != nil {
		return err
	}
	if fd < 0 {
		return fmt.Errorf("%w: another program has locked the directory %s", backend.ErrUnavailable, s.dir)
	}
	before := s.shared
	if s.shared = fd; !s.sharedIn(s.dirID) {
		s.shared, before = before, fd
		err = errReplaced
	}
	syscall.Close(before)
	return err
}

// sharedIn reports whether this process has locked the directory of this identity.
func (s *store) sharedIn(dir string) bool {
	var st syscall.Stat_t
	return syscall.Fstat(s.shared, &st) == nil && identity(&st) == dir
}

// unshare ends the lock of share, when no lease is held.
func (s *store) unshare() {
	s.lock(context.Background())
	defer s.unlock()
	syscall.Close(s.shared)
	s.shared = -1
}

// open opens a file of this directory to read it. A symbolic link, anything but a regular file, and a file of
// another user are errors.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // do not wait for the writer of a pipe
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", backend.ErrDenied, path)
	}
	if err == nil {
		err = checkOwner(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkOwner returns an error if another user can change what is at the path.
func checkOwner(path string, info fs.FileInfo) error {
	if uid := int(stat(info).Uid); uid != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to user %d and this process is user %d: all members must run as one user, who owns it (chown)", backend.ErrDenied, path, uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("%w: every user can write %s (chmod o-w)", backend.ErrDenied, path)
	}
	return nil
}

func stat(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// identity names a file independently of its path. No other file gets the same identity while a process has
// the file open.
func identity(st *syscall.Stat_t) string { return fmt.Sprintf("%x-%x", uint64(st.Dev), st.Ino) }

// fileID is like identity, and differs for a later file that has the same inode.
func fileID(f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	when, err := birth(f)
	return identity(stat(info)) + when, err
}

// identityOf returns the identity of what is at the path. It follows links.
func identityOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return identity(stat(info)), nil
}

// passing are the errors of the kernel that may go away by themselves. All others need an operator.
var passing = []syscall.Errno{syscall.ENOENT, syscall.EEXIST, syscall.EINTR, syscall.EAGAIN, syscall.ENOMEM}

var hints = map[syscall.Errno]string{
	syscall.EMFILE: " (raise the limit of open files, ulimit -n)",
	syscall.ENOSPC: " (the disk, its inodes or a quota are used up: free some)",
	syscall.EDQUOT: " (the disk, its inodes or a quota are used up: free some)",
	syscall.ELOOP:  " (a symbolic link where a file of an election should be: remove it)",
}

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
	return fmt.Errorf("%s: %w: %w%s", what, backend.ErrDenied, err, hints[errno])
}
