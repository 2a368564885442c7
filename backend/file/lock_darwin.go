package file

import (
	"os"
	"syscall"
	"time"
)

// There is no lock here that can be looked at without being taken: to look is to
// take it shared for a moment. A bid that fails because of that tries again.

func mark(*os.File) (bool, error) { return true, nil }

func markShared(*os.File) error { return nil }

// sharedByAny reports whether anybody has locked a directory, shared. To see that
// is to lock it exclusively for a moment; others who look in that moment are not
// meant.
func sharedByAny(f *os.File) (bool, error) {
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

func unmark(*os.File) {}

// locked reports whether another open file holds the lock.
func locked(f *os.File) (bool, error) {
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

func flush(f *os.File) error { return f.Sync() } // F_FULLFSYNC
