//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/go-election/go-election/backend/register"
)

var _ register.Waiter = (*store)(nil)

const (
	recheckEvery = time.Second           // how often Wait reads though nothing was told: the directory may have been replaced
	pollEvery    = 50 * time.Millisecond // how often files are read where the kernel tells of no changes
)

// Wait implements [register.Waiter].
func (s *store) Wait(ctx context.Context, version string) error {
	watch, err := watchDir(s.dir)
	every := recheckEvery
	if err != nil { // the kernel has no watches left
		watch, every = &fsnotify.Watcher{}, pollEvery
	} else {
		defer watch.Close()
	}
	for {
		_, now, err := s.Get(ctx)
		if err != nil || now != version {
			return err
		}
		for again, told := time.After(every), false; !told; {
			select {
			case e := <-watch.Events:
				told = strings.HasPrefix(filepath.Base(e.Name), valuePrefix)
			case <-watch.Errors: // such as an overflow
				told = true
			case <-again:
				told = true
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// watchDir has the kernel tell of changes in a directory.
func watchDir(dir string) (*fsnotify.Watcher, error) {
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := watch.Add(dir); err != nil {
		return nil, errors.Join(err, watch.Close())
	}
	return watch, nil
}
