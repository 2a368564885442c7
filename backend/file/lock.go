//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
)

// A hold is an election's lock, taken by this process. It ends with release, or
// when the kernel closes the file because the process has died.
type hold struct {
	f    *os.File
	id   string // of the file that is locked
	dir  string // identity of its directory
	term uint64 // of the leadership; 0 before its grant
	rec  record // as this process has written it
	in   bool   // it counts: see join
}

// open opens a file of this directory. A symbolic link, anything but a file, and
// a file of another user are errors: who can put one there could let us write
// elsewhere, or hold a lock that we cannot see. Children never inherit it: Go opens
// with O_CLOEXEC.
func open(path string, flag int) (*os.File, syscall.Stat_t, error) {
	var st syscall.Stat_t
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600) // a named pipe must not make us wait
	if err != nil {
		return nil, st, err
	}
	if err := fstat(f, &st); err != nil {
		f.Close()
		return nil, st, err
	}
	switch {
	case st.Mode&syscall.S_IFMT != syscall.S_IFREG:
		err = fmt.Errorf("%w: %s is not a regular file", backend.ErrDenied, path)
	case int(st.Uid) != os.Geteuid():
		err = fmt.Errorf("%w: %s belongs to user %d and this process is user %d: all members must run as one user", backend.ErrDenied, path, st.Uid, os.Geteuid())
	case st.Mode&0o002 != 0:
		err = fmt.Errorf("%w: %s is writable for everybody (chmod o-w)", backend.ErrDenied, path)
	}
	if err != nil {
		f.Close()
		return nil, st, err
	}
	return f, st, nil
}

func fstat(f *os.File, st *syscall.Stat_t) error {
	return control(f, func(fd int) error { return syscall.Fstat(fd, st) })
}

// identity names a file, whatever its path, for as long as it is open anywhere.
func identity(st *syscall.Stat_t) string { return fmt.Sprintf("%x:%x", uint64(st.Dev), st.Ino) }

// same reports whether two identities are of one file of this directory. The number
// of the device says nothing there, and may be another after the machine has restarted.
func same(a, b string) bool {
	_, a, ok := strings.Cut(a, ":")
	_, b, _ = strings.Cut(b, ":")
	return ok && a == b
}

// at returns the identity of the file at path, "" if there is none.
func at(path string) (string, error) {
	var st syscall.Stat_t
	err := again(func() error { return syscall.Lstat(path, &st) })
	switch {
	case err == syscall.ENOENT:
		return "", nil
	case err != nil:
		return "", &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return identity(&st), nil
}

// where returns the identity of the directory at the path, links followed.
func (b *Backend) where() (string, error) {
	var st syscall.Stat_t
	if err := again(func() error { return syscall.Stat(b.dir, &st) }); err != nil {
		return "", &os.PathError{Op: "stat", Path: b.dir, Err: err}
	}
	return identity(&st), nil
}

// flock tries to lock f, and reports whether it did. A lock that f has already is
// had.
func flock(f *os.File, how int) (bool, error) {
	err := control(f, func(fd int) error { return syscall.Flock(fd, how|syscall.LOCK_NB) })
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// relock reports whether f still has its lock.
func relock(f *os.File) (bool, error) { return flock(f, syscall.LOCK_EX) }

// take locks an election's file, which it makes if need be. Nil: it is not to be
// had, somebody else has it, or it was replaced meanwhile.
func (b *Backend) take(name string) (h *hold, err error) {
	f, st, err := open(b.path(name, lockSuffix), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	got, err := flock(f, syscall.LOCK_EX)
	// Refused, and yet nobody holds it: a holder is between its last words and
	// its unlocking, or (where looking needs a lock) somebody is looking.
	for try := 0; try < 20 && !got && err == nil; try++ {
		held, err2 := locked(f)
		if held || err2 != nil {
			err = err2
			break
		}
		time.Sleep(250 * time.Microsecond)
		got, err = flock(f, syscall.LOCK_EX)
	}
	if got {
		var now string
		now, err = at(b.path(name, lockSuffix))
		got = err == nil && now == identity(&st)
	}
	var dir string
	if got && err == nil {
		dir, err = b.where()
	}
	if !got || err != nil {
		f.Close()
		return nil, err
	}
	return &hold{f: f, id: identity(&st), dir: dir}, nil
}

// drop unlocks. First the mark, then the lock, then the file, of whose closing
// the listeners hear.
func (b *Backend) drop(h *hold) error {
	unmark(h.f)
	_, err := flock(h.f, syscall.LOCK_UN)
	err = errors.Join(err, h.f.Close())
	if h.in {
		b.leave()
	}
	return err
}

// join says, by a shared lock on the directory itself, that this process holds
// something in it: see unled.
func (b *Backend) join(h *hold) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.in {
		return nil
	}
	if b.holds == 0 {
		f, err := os.Open(b.dir)
		if err != nil {
			return err
		}
		got, err := flock(f, syscall.LOCK_SH)
		for try := 0; try < 50 && !got && err == nil; try++ { // somebody is looking
			time.Sleep(250 * time.Microsecond)
			got, err = flock(f, syscall.LOCK_SH)
		}
		if !got && err == nil {
			err = fmt.Errorf("%w: another program has locked the directory %s", backend.ErrUnavailable, b.dir)
		}
		if err == nil {
			err = markShared(f)
		}
		if err != nil {
			f.Close()
			return err
		}
		b.share = f
	}
	b.holds++
	h.in = true
	return nil
}

func (b *Backend) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holds--; b.holds == 0 {
		b.share.Close()
		b.share = nil
	}
}

// settled reports whether the directory at the path is the one that was there when this
// Backend was opened, or has been there for the greatest TTL: whoever held anything in
// the earlier one has found that by now, and stopped. b.mu is held.
func (b *Backend) settled() bool {
	now, err := b.where()
	switch {
	case err != nil:
		return false
	case now == b.home:
		b.moved = ""
		return true
	case now != b.moved:
		b.moved, b.since = now, time.Now()
	case time.Since(b.since) > b.maxTTL:
		b.home, b.moved = now, ""
		return true
	}
	return false
}

// complete reports whether who does not stand in the register was never led.
func (b *Backend) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settled() && !b.register.part
}

// unled reports whether nobody at all holds anything in this directory.
func (b *Backend) unled() (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holds > 0 {
		return false, nil
	}
	if !b.settled() {
		return false, nil
	}
	f, err := os.Open(b.dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	led, err := sharedByAny(f)
	return !led && err == nil, err
}

// keep keeps a file open, and so locked, until the process ends.
func keep(f *os.File, before error) error {
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
	if err := c.Control(func(fd uintptr) { result = again(func() error { return call(int(fd)) }) }); err != nil {
		return err
	}
	if result != nil {
		return &os.PathError{Op: "lock", Path: f.Name(), Err: result}
	}
	return nil
}

// again repeats a system call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

// readAll reads a file of this directory, "" if it is not there. What is too long
// to be ours is cut, and will not be understood.
func readAll(path string) ([]byte, error) {
	f, _, err := open(path, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxRecord))
}

// Lock returns the lock of an election that this Backend holds, once more: a
// descriptor of the same open file, which keeps it until it is closed everywhere or
// the election is released. A process that works under the lease in the holder's
// place inherits it, so that a holder that is killed is not followed before that
// process has ended too: the kernel ends the lock with the last of them. (Unless somebody
// removes the file meanwhile: that process does not find that out.) Nil if the
// election is not held here. The caller closes it.
func (b *Backend) Lock(election string) (*os.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.held[election]
	if h == nil {
		return nil, nil
	}
	var copy *os.File
	err := control(h.f, func(fd int) error {
		d, err := duplicate(fd)
		if err == nil {
			copy = os.NewFile(uintptr(d), h.f.Name())
		}
		return err
	})
	return copy, fail("share a lock", err)
}
