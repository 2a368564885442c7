package file

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"
)

// A notice is inotify on the directory. fsnotify, which this module has for other
// purposes, does not report that a file was closed.
type notice struct{ f *os.File }

// An event is about a file of one election.
type event struct {
	base   string // its encoded name
	closed bool   // the lock file was closed by somebody who could write
}

func newNotice(dir string) (*notice, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	_, err = syscall.InotifyAddWatch(fd, dir, syscall.IN_ONLYDIR|syscall.IN_MODIFY|syscall.IN_CLOSE_WRITE|
		syscall.IN_MOVED_TO|syscall.IN_MOVED_FROM|syscall.IN_DELETE|syscall.IN_DELETE_SELF|syscall.IN_MOVE_SELF)
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return &notice{os.NewFile(uintptr(fd), "inotify")}, nil
}

func (n *notice) close() { n.f.Close() }

// next waits for events: for ever if wait is negative. No events: that time has
// passed. everything: some were lost.
func (n *notice) next(ctx context.Context, wait time.Duration) (events []event, everything bool, err error) {
	deadline := time.Time{}
	if wait >= 0 {
		deadline = time.Now().Add(wait)
	}
	if err := n.f.SetReadDeadline(deadline); err != nil {
		return nil, false, err
	}
	stop := context.AfterFunc(ctx, func() { n.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 16<<10)
	for len(events) == 0 && !everything {
		got, err := n.f.Read(buf)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		}
		more, lost := parse(buf[:got])
		events, everything = append(events, more...), everything || lost
	}
	return events, everything, nil
}

// parse reads the kernel's struct inotify_event: descriptor, mask, cookie and
// length of the name, each of four bytes, and the name.
func parse(buf []byte) (events []event, lost bool) {
	for len(buf) >= syscall.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(buf[4:])
		size := int(binary.NativeEndian.Uint32(buf[12:]))
		name := strings.TrimRight(string(buf[syscall.SizeofInotifyEvent:syscall.SizeofInotifyEvent+size]), "\x00")
		buf = buf[syscall.SizeofInotifyEvent+size:]
		if mask&(syscall.IN_Q_OVERFLOW|syscall.IN_DELETE_SELF|syscall.IN_MOVE_SELF|syscall.IN_IGNORED) != 0 || name == registerFile {
			lost = true
		}
		for _, suffix := range []string{lockSuffix, recordSuffix, requestSuffix} {
			if base, ok := strings.CutSuffix(name, suffix); ok {
				events = append(events, event{base, suffix == lockSuffix && mask&syscall.IN_CLOSE_WRITE != 0})
			}
		}
	}
	return events, lost
}
