//go:build linux || darwin

package file

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
)

// A life shows that this process lives: it has a named pipe open for writing, which the kernel closes with
// the process. The pipe's name is <nonce>-<identity>.alive.
type life struct {
	mu    sync.Mutex
	path  string // of the pipe
	id    string // its identity
	over  bool
	pipes []int // descriptors, of the pipe and of those before it that somebody has removed
}

const aliveSuffix = ".alive"

// show makes the pipe, unless it is there.
func (l *life) show(dir string, nonce backend.Nonce) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return backend.ErrClosed
	}
	if l.path != "" {
		if id, err := identityOf(l.path); err == nil && id == l.id {
			return nil
		}
	}
	temp := filepath.Join(dir, tempPrefix+rand.Text())
	if err := retryEINTR(func() error { return syscall.Mkfifo(temp, 0o600) }); err != nil {
		return &os.PathError{Op: "mkfifo", Path: temp, Err: err}
	}
	fd, id, err := openPipe(temp)
	if err == nil {
		l.pipes = append(l.pipes, fd) // never closed while a lease may be held, whatever becomes of its name
		l.path, l.id = filepath.Join(dir, string(nonce)+"-"+id+aliveSuffix), id
		err = os.Rename(temp, l.path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}

// openPipe opens a new pipe for writing, which needs a reader for a moment.
func openPipe(path string) (fd int, id string, err error) {
	const flags = syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
	reader, err := syscall.Open(path, syscall.O_RDONLY|flags, 0)
	if err == nil {
		defer syscall.Close(reader)
		fd, err = syscall.Open(path, syscall.O_WRONLY|flags, 0)
	}
	var st syscall.Stat_t
	if err == nil {
		err = syscall.Fstat(fd, &st)
	}
	if err != nil {
		return -1, "", &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, identity(&st), nil
}

// end closes the pipes and removes the last, when no lease is held.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fd := range l.pipes {
		syscall.Close(fd)
	}
	if id, err := identityOf(l.path); l.path != "" && err == nil && id == l.id {
		os.Remove(l.path)
	}
	l.over, l.path, l.pipes = true, "", nil
}

// share returns another descriptor of the pipe.
func (l *life) share() (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pipes) == 0 {
		return nil, nil
	}
	syscall.ForkLock.RLock() // no child may inherit it by chance
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Dup(l.pipes[len(l.pipes)-1])
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), l.path), nil
}

// A fate is what the kernel says of a process.
type fate int

const (
	unproven fate = iota // it shows nothing: its lease must be watched
	lives
	ended
)

// fateOf asks the kernel about the process that had this nonce.
func (s *store) fateOf(nonce backend.Nonce) (f fate) {
	alive := false
	for _, pipe := range s.pipesOf(nonce) {
		switch state(pipe) {
		case lives:
			alive = true
		case ended:
			f = ended
		}
		pipe.Close()
	}
	if alive {
		return lives
	}
	return f
}

// pipesOf opens for reading what the process with this nonce has made.
func (s *store) pipesOf(nonce backend.Nonce) (pipes []*os.File) {
	if nonce == "" {
		return nil
	}
	names, err := s.names()
	if err != nil {
		return nil
	}
	for _, name := range names {
		id, ok := strings.CutPrefix(name, string(nonce)+"-")
		id, ok2 := strings.CutSuffix(id, aliveSuffix)
		if !ok || !ok2 {
			continue
		}
		f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		var st syscall.Stat_t
		err = control(f, func(fd int) error { return syscall.Fstat(fd, &st) })
		if err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO || identity(&st) != id {
			f.Close() // not the one that the process has made
			continue
		}
		pipes = append(pipes, f)
	}
	return pipes
}

// state reports whether a process has a pipe open for writing. Somebody may have written into it.
func state(pipe *os.File) fate {
	var buf [4096]byte
	for range 64 {
		n, err := 0, error(nil)
		if control(pipe, func(fd int) error { n, err = syscall.Read(fd, buf[:]); return err }); err == syscall.EAGAIN {
			return lives
		}
		if err != nil {
			return unproven
		}
		if n == 0 {
			return ended
		}
	}
	return lives
}

// cleanPipe removes the pipe of a process that has ended long ago. Its leases were released, or expire.
func (s *store) cleanPipe(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeNamedPipe || time.Since(info.ModTime()) < oldTemp {
		return
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if state(f) == ended {
		os.Remove(path)
	}
}

// untilEnded waits until a process has ended that lives.
func (s *store) untilEnded(ctx context.Context, nonce backend.Nonce) error {
	for _, pipe := range s.pipesOf(nonce) {
		err := untilClosed(ctx, pipe)
		pipe.Close()
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// untilClosed waits until nobody has the pipe open for writing.
func untilClosed(ctx context.Context, pipe *os.File) error {
	stop := context.AfterFunc(ctx, func() { pipe.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4096)
	for ctx.Err() == nil {
		_, err := pipe.Read(buf)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded): // this kernel cannot wait for it (macOS)
			select {
			case <-time.After(pollEvery):
			case <-ctx.Done():
			}
		}
	}
	return ctx.Err()
}
