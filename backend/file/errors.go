//go:build linux || darwin

package file

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/go-election/go-election/backend"
)

// passing are the errors of the kernel that may go away by themselves. All others need an operator.
var passing = []syscall.Errno{syscall.ENOENT, syscall.EEXIST, syscall.EINTR, syscall.EAGAIN, syscall.ENOMEM}

var hints = map[syscall.Errno]string{
	syscall.EMFILE: " (raise the limit of open files, ulimit -n)",
	syscall.ENOSPC: " (the disk, its inodes or a quota are used up: free some)",
	syscall.EDQUOT: " (the disk, its inodes or a quota are used up: free some)",
	syscall.ELOOP:  " (a symbolic link where a file of an election should be: remove it)",
}

// fail wraps err with what was being done, and an error of the kernel with its class. It returns nil for nil.
func fail(what string, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case err == nil:
		return nil
	case !ok: // it has a class, or is that of a context
		return fmt.Errorf("%s: %w", what, err)
	case slices.Contains(passing, errno):
		return fmt.Errorf("%s: %w: %w", what, backend.ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w: %w%s", what, backend.ErrDenied, err, hints[errno])
}
