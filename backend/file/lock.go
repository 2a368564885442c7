//go:build linux || darwin

package file

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// An electionLock is an election's lock, held by this process. It ends when it is
// closed, or when the kernel closes the file because the process has died.
type electionLock struct {
	f       *os.File
	id      string // identity of the locked file
	dir     string // identity of its directory
	term    uint64 // of the leadership; 0 before the grant
	rec     record // as this process has written it
	counted bool   // it has a part in the shared lock on the directory: see lockDir
}

// flock tries to lock f and reports whether f is locked now. It succeeds if f was locked
// before.
func flock(f *os.File, how int) (bool, error) {
	err := control(f, func(fd int) error { return syscall.Flock(fd, how|syscall.LOCK_NB) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// stillLocked reports whether f still has its lock.
func stillLocked(f *os.File) (bool, error) { return flock(f, syscall.LOCK_EX) }

// tryLock locks an election's file, and makes the file if it does not exist. It returns
// nil if another process holds the lock or if the file was replaced meanwhile.
func (b *Backend) tryLock(name string) (h *electionLock, err error) {
	f, st, err := open(b.path(name, lockSuffix), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	got, err := flock(f, syscall.LOCK_EX)
	// The lock may be refused although no process holds the lease: a holder has written
	// its release and is about to unlock, or (on macOS) a reader tests the lock by taking it.
	for try := 0; try < 20 && !got && err == nil; try++ {
		held, err2 := isLocked(f)
		if held || err2 != nil {
			err = err2
			break
		}
		time.Sleep(250 * time.Microsecond)
		got, err = flock(f, syscall.LOCK_EX)
	}
	if got {
		var now string
		now, err = identityAt(b.path(name, lockSuffix))
		got = err == nil && now == identity(&st)
	}
	var dir string
	if got && err == nil {
		dir, err = b.dirIdentity()
	}
	if !got || err != nil {
		f.Close()
		return nil, err
	}
	return &electionLock{f: f, id: identity(&st), dir: dir}, nil
}

// closeLock unlocks: first the probe lock, then the lock, then the file. Closing the
// file last notifies the listeners when the lock is free.
func (b *Backend) closeLock(h *electionLock) error {
	clearProbeLock(h.f)
	_, err := flock(h.f, syscall.LOCK_UN)
	err = errors.Join(err, h.f.Close())
	if h.counted {
		b.unlockDir()
	}
	return err
}

// unlock ends a lock that is held, or that was taken for a bid.
func (b *Backend) unlock(name string, h *electionLock) error {
	b.mu.Lock()
	if b.held[name] == h {
		delete(b.held, name)
	}
	b.mu.Unlock()
	return b.closeLock(h)
}

// Lock returns a second descriptor of the locked file of an election that this Backend
// holds, or nil if it does not hold the election. The kernel keeps the lock until every
// descriptor is closed or the election is released. So a process that works under the
// lease in the holder's place can inherit the descriptor: if the holder is killed, no
// other process leads before that process has ended too. If the file is removed
// meanwhile, that process does not find out. The caller closes the descriptor.
func (b *Backend) Lock(election string) (*os.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.held[election]
	if h == nil {
		return nil, nil
	}
	var shared *os.File
	err := control(h.f, func(fd int) error {
		d, err := duplicate(fd)
		if err == nil {
			shared = os.NewFile(uintptr(d), h.f.Name())
		}
		return err
	})
	return shared, fail("share a lock", err)
}

// keepOpen keeps a file open, and so locked, until the process ends.
func keepOpen(f *os.File, before error) error {
	return errors.Join(before, control(f, func(fd int) error {
		_, err := duplicate(fd)
		return err
	}))
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
		return &os.PathError{Op: "lock", Path: f.Name(), Err: result}
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
