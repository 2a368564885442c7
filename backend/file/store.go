//go:build linux || darwin

package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/register"
)

// A store is the directory as a [register.Register]: its value is the file with the greatest number.
type store struct {
	dir    string
	maxTTL time.Duration

	mu       sync.Mutex
	life     life
	root     *os.Root  // the directory that was last at the path: while it is open, no other has its identity
	replaced time.Time // when another one was there; zero: never
	doubted  string    // version of a value that may not be what was written last
	since    time.Time // when it was found, or earlier if nobody could lead; zero: there is no doubt
}

func (s *store) Get(ctx context.Context) (value []byte, version string, err error) {
	c, _, err := s.current(ctx)
	return c.value, c.version, fail("read", err)
}

func (s *store) Swap(ctx context.Context, version string, value []byte) (now string, err error) {
	began := time.Now()
	c, root, err := s.current(ctx)
	if err == nil && c.version != version {
		err = register.ErrChanged
	}
	if err == nil {
		now, err = add(root, &content{number: c.number + 1, value: value, maxTTL: s.maxTTL}, began)
	}
	return now, fail("write", err)
}

// Wait implements [register.Waiter]. It returns now and then, too: the directory may have been replaced.
func (s *store) Wait(ctx context.Context, version string) error {
	watch, err := fsnotify.NewWatcher()
	if err == nil {
		defer watch.Close()
		err = watch.Add(s.dir)
	}
	every := time.Second
	if err != nil { // the kernel has no watches left
		watch, every = &fsnotify.Watcher{}, 50*time.Millisecond
	}

	if _, now, err := s.Get(ctx); err != nil || now != version { // before it was watched
		return err
	}
	within, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	for {
		select {
		case e := <-watch.Events:
			if strings.HasPrefix(filepath.Base(e.Name), valuePrefix) {
				return nil
			}
		case <-watch.Errors: // such as an overflow
			return nil
		case <-within.Done():
			return ctx.Err()
		}
	}
}

func (s *store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.root.Close()
}

// current reads the value, decides whether it can be believed, and returns the directory that it was read in.
// What cannot be believed is read again: the first value is there before anybody locks the directory, but it
// may have come after a reading, and others that ask whether the directory is locked lock it for a moment.
func (s *store) current(ctx context.Context) (c content, in *os.Root, err error) {
	for range 5 {
		if c, in, err = s.currently(); err == nil {
			return c, in, ctx.Err()
		}
		select {
		case <-ctx.Done():
			return c, in, err
		case <-time.After(10 * time.Millisecond):
		}
	}
	return c, in, err
}

func (s *store) currently() (c content, in *os.Root, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.enter(); err == nil {
		c, err = read(s.root)
	}
	if err == nil {
		err = s.judge(&c)
	}
	return c, s.root, err
}

// enter makes s.root the directory that is at the path.
func (s *store) enter() error {
	there, err := os.Stat(s.dir)
	if err != nil {
		return err
	}
	known, err := s.root.Stat(".")
	if err != nil || os.SameFile(known, there) {
		return err
	}

	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	s.root.Close()
	s.root, s.replaced, s.since = root, time.Now(), time.Time{}
	return nil
}

// judge returns an error while a process may lead by a value that this one does not see (see doc.go).
func (s *store) judge(c *content) error {
	if left := s.maxTTL - time.Since(s.replaced); left >= 0 {
		return s.wait("the directory was replaced", left)
	}
	if c.original && c.maxTTL == s.maxTTL {
		s.since = time.Time{}
		return nil
	}

	if s.since.IsZero() || s.doubted != c.version {
		s.doubted, s.since = c.version, time.Now()
	}
	left := s.maxTTL - time.Since(s.since)
	if left < 0 {
		return nil
	}
	led, err := isLed(s.root)
	switch {
	case err != nil:
		return err
	case !led:
		s.since = s.since.Add(-2 * s.maxTTL) // this process itself may lead soon
		return nil
	case c.original:
		return fmt.Errorf("%w: max_ttl is %v, and that of %s is %v: all members need the same",
			backend.ErrDenied, s.maxTTL, s.dir, c.maxTTL)
	case c.version != "":
		return s.wait("the leases were restored from a copy", left)
	}
	return s.wait("the leases were deleted or damaged", left)
}

// wait says why nobody leads for a while.
func (s *store) wait(why string, left time.Duration) error {
	return fmt.Errorf("%w: %s: %s; nobody leads before %v have passed",
		backend.ErrUnavailable, s.dir, why, left.Round(time.Second))
}

// read reads the file with the greatest number, which another process may replace meanwhile.
func read(root *os.Root) (c content, err error) {
	for range 100 {
		_, number, err := list(root, false)
		if err != nil || number == 0 {
			return content{}, err
		}
		name, f := nameOf(number), (*os.File)(nil)
		info, err := root.Lstat(name)
		switch {
		case err == nil && info.Mode().IsRegular():
			f, err = root.Open(name)
		case err == nil: // nothing waits for the writer of a pipe, and no link is followed
			err = fmt.Errorf("%w: %s in %s is no regular file: remove it",
				backend.ErrDenied, name, root.Name())
		}
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return content{}, err
		}
		id, err := identity(int(f.Fd()))
		text, err2 := io.ReadAll(f)
		f.Close()
		return parse(number, text, id), errors.Join(err, err2)
	}
	return content{}, fmt.Errorf("%w: other processes kept replacing the file", backend.ErrUnavailable)
}

// add writes a value, unless there is one with its number. Its name appears once all of it is on the disk.
func add(root *os.Root, c *content, began time.Time) (version string, err error) {
	temp := tempPrefix + rand.Text()
	defer root.Remove(temp)
	if err := write(root, temp, c); err != nil {
		return "", err
	}
	if time.Since(began) > c.maxTTL/2 { // all may have been deleted since, and made anew with small numbers
		return "", fmt.Errorf("%w: the disk has taken too long", backend.ErrUnavailable)
	}
	var names []string
	var newest uint64
	if err = root.Link(temp, nameOf(c.number)); err == nil {
		names, newest, err = list(root, true)
	}
	switch {
	case err != nil && !errors.Is(err, os.ErrExist):
		return "", err
	case err != nil, newest > c.number: // somebody may have removed that file again
		return "", register.ErrChanged
	}
	tidy(root, c.number, names)
	return c.version, nil
}

// write writes a value under a temporary name, and its text to the disk.
func write(root *os.Root, name string, c *content) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if c.file, err = identity(int(f.Fd())); err == nil {
		_, err = f.Write(c.encode())
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// list returns all names, and the greatest number of a value, or 0. With sync it writes names to the disk.
func list(root *os.Root, sync bool) (names []string, newest uint64, err error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, 0, err
	}
	defer d.Close()
	names, err = d.Readdirnames(-1)
	for _, name := range names {
		newest = max(newest, numberOf(name))
	}
	if err == nil && sync {
		err = d.Sync()
	}
	return names, newest, err
}

// tidy removes the values before this one, and what processes that have ended were writing.
func tidy(root *os.Root, number uint64, names []string) {
	for _, name := range names {
		if n := numberOf(name); n > 0 && n < number {
			root.Remove(name)
		} else if strings.HasPrefix(name, tempPrefix) {
			removeOld(filepath.Join(root.Name(), name))
		}
	}
}

// removeOld removes what a process that has ended has left long ago.
func removeOld(path string) {
	if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > time.Hour {
		os.Remove(path)
	}
}
