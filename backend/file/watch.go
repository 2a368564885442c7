//go:build linux || darwin

package file

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/go-election/go-election/backend/register"
)

// A waiter is a store that tells of changes. It implements [register.Waiter].
type waiter struct {
	*store

	watchMutex sync.Mutex
	watch      *fsnotify.Watcher // nil: not yet, or the kernel has none left
	changed    chan struct{}     // closed by the next change
}

var _ register.Waiter = (*waiter)(nil)

// recheckEvery is how often Wait reads the directory though nothing was told: it may have been replaced.
const recheckEvery = time.Second

// Wait implements [register.Waiter].
func (w *waiter) Wait(ctx context.Context, version string) error {
	for {
		changed, every := w.next()
		_, now, err := w.Get(ctx)
		if err != nil || now != version {
			return err
		}
		select {
		case <-changed:
		case <-time.After(every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next returns a channel that the next change closes, and how long to wait for it.
func (w *waiter) next() (changed <-chan struct{}, every time.Duration) {
	w.watchMutex.Lock()
	defer w.watchMutex.Unlock()
	if w.watch == nil {
		watch, err := fsnotify.NewWatcher()
		if err != nil {
			return nil, pollEvery
		}
		w.watch = watch
		go w.pass(watch)
	}
	if err := w.watch.Add(w.dir); err != nil { // the directory that is there now
		return nil, pollEvery
	}
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed, recheckEvery
}

// pass tells of changes until the watcher is closed.
func (w *waiter) pass(watch *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-watch.Events:
			if !ok {
				return
			}
			if !strings.Contains(e.Name, valuePrefix) && e.Name != w.dir {
				continue
			}
		case _, ok := <-watch.Errors: // such as an overflow
			if !ok {
				return
			}
		}
		w.watchMutex.Lock()
		if w.changed != nil {
			close(w.changed)
			w.changed = nil
		}
		w.watchMutex.Unlock()
	}
}

// Close implements [register.Register].
func (w *waiter) Close() error {
	w.watchMutex.Lock()
	defer w.watchMutex.Unlock()
	if w.watch == nil {
		return nil
	}
	err := w.watch.Close()
	w.watch = nil
	return err
}
