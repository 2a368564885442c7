package file

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/go-election/go-election/backend"
)

// A dirWatch is an inotify watch on the directory. The module fsnotify, which is used
// elsewhere in this repository, does not report that a file was closed.
type dirWatch struct{ f *os.File }

// An event is about a file of one election.
type event struct {
	base   string // the election's encoded name
	closed bool   // a process that had the lock file open for writing closed it
}

func watchDir(dir string) (*dirWatch, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	_, err = syscall.InotifyAddWatch(fd, dir, syscall.IN_ONLYDIR|syscall.IN_MODIFY|syscall.IN_CLOSE_WRITE|
		syscall.IN_MOVED_TO|syscall.IN_MOVED_FROM|syscall.IN_DELETE|syscall.IN_DELETE_SELF|syscall.IN_MOVE_SELF)
	if err != nil {
		syscall.Close(fd)
		if err == syscall.ENOSPC { // not of the disk
			err = fmt.Errorf("%w: the user has used up its inotify watches: raise fs.inotify.max_user_watches, or set poll", backend.ErrDenied)
		}
		return nil, err
	}
	return &dirWatch{os.NewFile(uintptr(fd), "inotify")}, nil
}

func (w *dirWatch) close() { w.f.Close() }

// next waits for events until wait has passed, or without limit if wait is negative. It
// returns no events if the time has passed, and overflow if events were lost.
func (w *dirWatch) next(ctx context.Context, wait time.Duration) (events []event, overflow bool, err error) {
	deadline := time.Time{}
	if wait >= 0 {
		deadline = time.Now().Add(wait)
	}
	if err := w.f.SetReadDeadline(deadline); err != nil {
		return nil, false, err
	}
	stop := context.AfterFunc(ctx, func() { w.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 16<<10)
	for len(events) == 0 && !overflow {
		got, err := w.f.Read(buf)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		}
		more, lost := parse(buf[:got])
		events, overflow = append(events, more...), overflow || lost
	}
	return events, overflow, nil
}

// parse reads the kernel's struct inotify_event: descriptor, mask, cookie and length of
// the name, each of four bytes, and the name. A change of the directory itself, or of the
// register, may concern every election, and counts as an overflow.
func parse(buf []byte) (events []event, overflow bool) {
	for len(buf) >= syscall.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(buf[4:])
		size := int(binary.NativeEndian.Uint32(buf[12:]))
		name := strings.TrimRight(string(buf[syscall.SizeofInotifyEvent:syscall.SizeofInotifyEvent+size]), "\x00")
		buf = buf[syscall.SizeofInotifyEvent+size:]
		if mask&(syscall.IN_Q_OVERFLOW|syscall.IN_DELETE_SELF|syscall.IN_MOVE_SELF|syscall.IN_IGNORED) != 0 || name == registerFile {
			overflow = true
		}
		for _, suffix := range []string{lockSuffix, recordSuffix, requestSuffix} {
			if base, ok := strings.CutSuffix(name, suffix); ok {
				events = append(events, event{base, suffix == lockSuffix && mask&syscall.IN_CLOSE_WRITE != 0})
			}
		}
	}
	return events, overflow
}
