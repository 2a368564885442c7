package file

import (
	"os"
	"syscall"
	"time"
)

// macOS has no lock whose state can be read without taking it. So there is no probe lock:
// isLocked takes the lock shared for a moment, and a bid that fails for that reason tries
// again.

func setProbeLock(*os.File) (bool, error) { return true, nil }

func setSharedProbeLock(*os.File) error { return nil }

// anySharedLock reports whether a process has locked a directory, shared. It locks the
// directory exclusively for a moment, and tries again in case another process is doing
// the same.
func anySharedLock(f *os.File) (bool, error) {
	got, err := flock(f, syscall.LOCK_EX)
	for try := 0; try < 20 && !got && err == nil; try++ {
		time.Sleep(250 * time.Microsecond)
		got, err = flock(f, syscall.LOCK_EX)
	}
	if got {
		_, err = flock(f, syscall.LOCK_UN)
	}
	return !got && err == nil, err
}

func clearProbeLock(*os.File) {}

// isLocked reports whether another open file holds the lock.
func isLocked(f *os.File) (bool, error) {
	got, err := flock(f, syscall.LOCK_SH)
	if got {
		_, err = flock(f, syscall.LOCK_UN)
	}
	return !got && err == nil, err
}

func duplicate(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	dup, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(dup)
	}
	return dup, err
}

// syncData writes a file to the disk. Go's Sync uses F_FULLFSYNC here.
func syncData(f *os.File) error { return f.Sync() }
