package file

import (
	"errors"
	"os"
	"syscall"
)

// The lock is flock's. To look at it without taking it, which could make a bid
// fail, its holder also marks it: with a record lock of the same open file, which
// belongs to the open file as flock's does and ends in the same moment (not to the
// process, as POSIX's does, which any close of the file would end). The kernel
// tells whoever asks whether there is a mark. The numbers are Linux's on all
// architectures.
const (
	ofdGetLock = 36 // F_OFD_GETLK
	ofdSetLock = 37 // F_OFD_SETLK
)

func mark(f *os.File) (bool, error) {
	err := control(f, func(fd int) error {
		return syscall.FcntlFlock(uintptr(fd), ofdSetLock, &syscall.Flock_t{Type: syscall.F_WRLCK})
	})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// markShared marks a directory, beside others who do.
func markShared(f *os.File) error {
	return control(f, func(fd int) error {
		return syscall.FcntlFlock(uintptr(fd), ofdSetLock, &syscall.Flock_t{Type: syscall.F_RDLCK})
	})
}

// sharedByAny reports whether anybody has marked a directory.
func sharedByAny(f *os.File) (bool, error) { return locked(f) }

func unmark(f *os.File) {
	control(f, func(fd int) error {
		return syscall.FcntlFlock(uintptr(fd), ofdSetLock, &syscall.Flock_t{Type: syscall.F_UNLCK})
	})
}

// locked reports whether another open file holds the lock.
func locked(f *os.File) (bool, error) {
	l := syscall.Flock_t{Type: syscall.F_WRLCK}
	err := control(f, func(fd int) error { return syscall.FcntlFlock(uintptr(fd), ofdGetLock, &l) })
	return err == nil && l.Type != syscall.F_UNLCK, err
}

func duplicate(fd int) (int, error) {
	dup, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(dup), nil
}

func flush(f *os.File) error { return control(f, syscall.Fdatasync) }
