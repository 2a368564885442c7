package file

import (
	"errors"
	"os"
	"syscall"
)

// flock decides who holds an election. Its state can be read only by taking the lock,
// which could make another process's bid fail. So the holder also takes a probe lock: a
// record lock of the same open file, whose state the kernel tells anyone who asks. Like
// flock's, it belongs to the open file and ends with it. (A POSIX lock would belong to
// the process and end at any close of the file.) The numbers are the same on all Linux
// architectures.
const (
	ofdGetLock = 36 // F_OFD_GETLK
	ofdSetLock = 37 // F_OFD_SETLK
)

// setProbeLock reports false if another open file has the probe lock.
func setProbeLock(f *os.File) (bool, error) {
	err := control(f, func(fd int) error {
		return syscall.FcntlFlock(uintptr(fd), ofdSetLock, &syscall.Flock_t{Type: syscall.F_WRLCK})
	})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// setSharedProbeLock takes a probe lock on a directory, which several processes may have.
func setSharedProbeLock(f *os.File) error {
	return control(f, func(fd int) error {
		return syscall.FcntlFlock(uintptr(fd), ofdSetLock, &syscall.Flock_t{Type: syscall.F_RDLCK})
	})
}

// anySharedLock reports whether a process has a shared probe lock on a directory.
func anySharedLock(f *os.File) (bool, error) { return isLocked(f) }

func clearProbeLock(f *os.File) {
	control(f, func(fd int) error {
		return syscall.FcntlFlock(uintptr(fd), ofdSetLock, &syscall.Flock_t{Type: syscall.F_UNLCK})
	})
}

// isLocked reports whether another open file has the probe lock.
func isLocked(f *os.File) (bool, error) {
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

// syncData writes a file's content to the disk.
func syncData(f *os.File) error { return control(f, syscall.Fdatasync) }
