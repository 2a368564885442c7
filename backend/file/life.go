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

	"golang.org/x/sys/unix"

	"github.com/go-election/go-election/backend"
)

// A life shows that this process lives: it has a named pipe open for writing, which the kernel closes with
// the process. The pipe's name is <nonce>-<identity>.alive.
type life struct {
	mu    sync.Mutex
	path  string // of the pipe; "": none was made
	pipes []int  // it, after those that somebody has removed: no os.File, which the garbage collector would close
	over  bool
}

const (
	aliveSuffix = ".alive"
	pipeFlags   = syscall.O_NONBLOCK | syscall.O_NOFOLLOW | syscall.O_CLOEXEC
)

// show makes the pipe, unless it is there.
func (l *life) show(dir string, nonce backend.Nonce) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return backend.ErrClosed
	}
	if _, err := os.Lstat(l.path); err == nil {
		return nil
	}
	temp := filepath.Join(dir, tempPrefix+rand.Text())
	if err := syscall.Mkfifo(temp, 0o600); err != nil {
		return &os.PathError{Op: "mkfifo", Path: temp, Err: err}
	}
	defer os.Remove(temp) // unless it has its name
	fd, id, err := openNew(temp)
	if err != nil {
		return &os.PathError{Op: "open", Path: temp, Err: err}
	}
	path := filepath.Join(dir, string(nonce)+"-"+id+aliveSuffix)
	if err := os.Rename(temp, path); err != nil {
		syscall.Close(fd)
		return err
	}
	l.pipes, l.path = append(l.pipes, fd), path
	return nil
}

// openNew opens a new pipe for writing, which needs a reader for a moment.
func openNew(path string) (fd int, id string, err error) {
	reader, err := syscall.Open(path, syscall.O_RDONLY|pipeFlags, 0)
	if err != nil {
		return -1, "", err
	}
	defer syscall.Close(reader)
	var st syscall.Stat_t
	if err := syscall.Fstat(reader, &st); err != nil {
		return -1, "", err
	}
	fd, err = syscall.Open(path, syscall.O_WRONLY|pipeFlags, 0)
	return fd, identity(&st), err
}

// end closes the pipes and removes the last, when no lease is held.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	os.Remove(l.path)
	for _, fd := range l.pipes {
		syscall.Close(fd)
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
	fd, err := unix.FcntlInt(uintptr(l.pipes[len(l.pipes)-1]), unix.F_DUPFD_CLOEXEC, 0) // no child inherits it by chance
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), l.path), nil
}

// A fate is what the kernel says of a process.
type fate int

const (
	unproven fate = iota // it shows nothing: its lease must be watched
	ended
	lives
)

// fates asks the kernel about each process that has made a pipe. Pipes of processes that have ended long ago are
// removed: what those held was released, or expires.
func (s *store) fates() map[backend.Nonce]fate {
	fates := map[backend.Nonce]fate{}
	names, _ := s.names() // what cannot be read proves nothing
	for _, name := range names {
		fd, nonce := s.openPipe(name)
		if fd < 0 {
			continue
		}
		f := state(fd)
		syscall.Close(fd)
		if fates[nonce] = max(fates[nonce], f); f == ended {
			s.removeOld(name)
		}
	}
	return fates
}

// openPipe opens a pipe for reading. It returns -1 for one that its process has not made, and for all else.
func (s *store) openPipe(name string) (fd int, nonce backend.Nonce) {
	name, isPipe := strings.CutSuffix(name, aliveSuffix)
	who, id, _ := strings.Cut(name, "-")
	if !isPipe || who == "" {
		return -1, ""
	}
	fd, err := syscall.Open(filepath.Join(s.dir, name+aliveSuffix), syscall.O_RDONLY|pipeFlags, 0)
	if err != nil {
		return -1, ""
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO || identity(&st) != id {
		syscall.Close(fd)
		return -1, ""
	}
	return fd, backend.Nonce(who)
}

// state reports whether a process has a pipe open for writing. Somebody may have written into it.
func state(fd int) fate {
	var buf [4096]byte
	n, err := syscall.Read(fd, buf[:])
	switch {
	case err == syscall.EAGAIN, err == nil && n > 0:
		return lives
	case err != nil:
		return unproven
	}
	return ended
}

// untilEnded waits until a process has ended that lives.
func (s *store) untilEnded(ctx context.Context, nonce backend.Nonce) error {
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, string(nonce)+"-") {
			continue
		}
		if fd, _ := s.openPipe(name); fd >= 0 {
			return untilClosed(ctx, os.NewFile(uintptr(fd), name))
		}
	}
	return ctx.Err()
}

// untilClosed waits until nobody has the pipe open for writing, and closes it.
func untilClosed(ctx context.Context, pipe *os.File) error {
	defer pipe.Close()
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
