//go:build linux || darwin

package file

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A life is what shows that this process lives, until the kernel closes it with the process: a named pipe
// that is open for writing, <nonce>-<identity>.alive, and a shared lock on the directory. They are no
// os.File, which the garbage collector would close.
type life struct {
	fds   []int    // all of them, with those that somebody has removed
	in    *os.Root // the directory that is locked
	path  string   // of the pipe; "": none was made
	alive int      // its descriptor
}

const (
	aliveSuffix = ".alive"
	pipeFlags   = syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
)

// appear shows that this process lives, in the directory that is known.
func (s *store) appear(nonce backend.Nonce) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.life
	if l.in != s.root {
		fd, err := tryLock(s.root, syscall.LOCK_SH) // it waits for one that is testing the lock
		if err != nil {
			return err
		}
		l.fds, l.in = append(l.fds, fd), s.root
	}

	if _, err := os.Lstat(l.path); err == nil {
		return nil
	}
	fd, path, err := makePipe(s.dir, nonce)
	if err != nil {
		return err
	}
	l.fds, l.alive, l.path = append(l.fds, fd), fd, path
	return nil
}

// makePipe makes the pipe of this process, and opens it.
func makePipe(dir string, nonce backend.Nonce) (fd int, path string, err error) {
	temp := filepath.Join(dir, tempPrefix+rand.Text())
	if err := syscall.Mkfifo(temp, 0o600); err != nil {
		return -1, "", &os.PathError{Op: "mkfifo", Path: temp, Err: err}
	}
	defer os.Remove(temp) // unless it has its name

	fd, err = syscall.Open(temp, syscall.O_RDWR|pipeFlags, 0) // for writing alone it would need a reader
	if err != nil {
		return -1, "", &os.PathError{Op: "open", Path: temp, Err: err}
	}
	id, err := identity(fd)
	if err == nil {
		path = filepath.Join(dir, string(nonce)+"-"+id+aliveSuffix)
		err = os.Rename(temp, path)
	}
	if err != nil {
		syscall.Close(fd)
	}
	return fd, path, err
}

// end shows that this process does not lead any more, and removes its pipe.
func (s *store) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.life
	os.Remove(l.path)
	for _, fd := range l.fds {
		syscall.Close(fd)
	}
	l.fds, l.in, l.path = nil, nil, ""
}

// dup returns another descriptor, which no child inherits by chance.
func dup(fd uintptr) (int, error) { return unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }

// tryLock locks a directory, and returns -1 if others have locked it.
func tryLock(root *os.Root, how int) (fd int, err error) {
	d, err := root.Open(".")
	if err != nil {
		return -1, err
	}
	defer d.Close()
	err = syscall.Flock(int(d.Fd()), how)
	switch {
	case err == syscall.EWOULDBLOCK:
		return -1, nil
	case err != nil:
		return -1, &os.PathError{Op: "flock", Path: root.Name(), Err: err}
	}
	return dup(d.Fd()) // it has the lock, too
}

// isLed reports whether a process that may lead has locked the directory. Deleting files ends no such lock.
func isLed(root *os.Root) (bool, error) {
	fd, err := tryLock(root, syscall.LOCK_EX|syscall.LOCK_NB)
	if fd >= 0 {
		syscall.Close(fd)
	}
	return fd < 0, err
}

// fates asks the kernel about each process that has made a pipe, by its nonce. Pipes of processes that have
// ended long ago are removed: their leases expire then, as all do whose holder is not known. It fails if a
// pipe cannot be opened, as where too many files are open: its process may live.
func (s *store) fates() (map[string]lease.Process, error) {
	fates := map[string]lease.Process{}
	all, err := os.ReadDir(s.dir)
	for _, f := range all {
		fd, nonce, err2 := s.openPipe(f.Name())
		if fd < 0 {
			err = cmp.Or(err, err2)
			continue
		}
		var buf [4096]byte // somebody may have written into it
		n, readErr := syscall.Read(fd, buf[:])
		syscall.Close(fd)

		switch {
		case readErr == syscall.EAGAIN, n > 0:
			fates[nonce] = lease.Lives
		case readErr == nil && fates[nonce] != lease.Lives: // it may have made another one
			fates[nonce] = lease.Ended
			removeOld(filepath.Join(s.dir, f.Name()))
		}
	}
	return fates, err
}

// openPipe opens a pipe for reading. It returns -1 for one that its process has not made, and for all else.
func (s *store) openPipe(name string) (fd int, nonce string, err error) {
	base, isPipe := strings.CutSuffix(name, aliveSuffix)
	nonce, made, _ := strings.Cut(base, "-")
	if !isPipe || nonce == "" {
		return -1, "", nil
	}
	fd, err = syscall.Open(filepath.Join(s.dir, name), syscall.O_RDONLY|pipeFlags, 0)
	if err == syscall.ENOENT || err == syscall.ELOOP { // it was removed meanwhile, or is a link
		return -1, "", nil
	} else if err != nil {
		return -1, "", &os.PathError{Op: "open", Path: name, Err: err}
	}
	if id, err := identity(fd); err != nil || id != made {
		syscall.Close(fd)
		return -1, "", err
	}
	return fd, nonce, nil
}

// untilEnded waits until a process has ended that lives, and reports whether it has.
func (s *store) untilEnded(ctx context.Context, nonce string) bool {
	all, _ := filepath.Glob(filepath.Join(s.dir, nonce+"-*"+aliveSuffix))
	for _, path := range all {
		if fd, _, _ := s.openPipe(filepath.Base(path)); fd >= 0 {
			pipe := os.NewFile(uintptr(fd), path)
			defer pipe.Close()
			stop := context.AfterFunc(ctx, func() { pipe.SetReadDeadline(time.Unix(1, 0)) })
			defer stop()

			_, err := io.Copy(io.Discard, pipe)
			return err == nil
		}
	}
	return false
}
