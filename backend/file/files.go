//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/go-election/go-election/backend"
)

// open opens a file of this directory. A symbolic link, anything but a regular file, and a file of another
// user are errors: whoever put it there could make us write elsewhere. Children do not inherit the
// descriptor, because Go opens files with O_CLOEXEC.
func open(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600) // do not wait for the writer of a pipe
	if err != nil {
		return nil, err
	}
	var st syscall.Stat_t
	if err = control(f, func(fd int) error { return syscall.Fstat(fd, &st) }); err == nil {
		err = checkFile(path, &st)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func checkFile(path string, st *syscall.Stat_t) error {
	switch {
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return fmt.Errorf("%w: %s is not a regular file", backend.ErrDenied, path)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to user %d and this process is user %d: all members must run as one user", backend.ErrDenied, path, st.Uid, os.Geteuid())
	case st.Mode&0o002 != 0:
		return fmt.Errorf("%w: every user can write %s (chmod o-w)", backend.ErrDenied, path)
	}
	return nil
}

// identity names a file independently of its path. No other file gets the same identity while a process has
// the file open.
func identity(st *syscall.Stat_t) string { return fmt.Sprintf("%x-%x", uint64(st.Dev), st.Ino) }

// fileID is like identity, and differs for a later file that has the same inode.
func fileID(f *os.File) (string, error) {
	var st syscall.Stat_t
	err := control(f, func(fd int) error { return syscall.Fstat(fd, &st) })
	when, err2 := birth(f)
	return identity(&st) + when, errors.Join(err, err2)
}

// identityOf returns the identity of what is at the path. It follows links.
func identityOf(path string) (string, error) {
	var st syscall.Stat_t
	if err := retryEINTR(func() error { return syscall.Stat(path, &st) }); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return identity(&st), nil
}

// control runs a system call on a file.
func control(f *os.File, call func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := c.Control(func(fd uintptr) { result = retryEINTR(func() error { return call(int(fd)) }) }); err != nil {
		return err
	}
	if result != nil {
		return &os.PathError{Op: "use", Path: f.Name(), Err: result}
	}
	return nil
}

// retryEINTR repeats a system call that a signal has interrupted.
func retryEINTR(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}
