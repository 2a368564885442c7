//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/go-election/go-election/backend"
)

// denied lists the errors that do not go away until an operator acts, and ofAll those of them that are about no single
// file: a disk that is full or breaks, a file system without locks, limits.
var (
	ofAll  = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.ESTALE, syscall.ENOLCK, syscall.ENOSYS, syscall.EOPNOTSUPP}
	denied = append([]error{fs.ErrPermission, syscall.EROFS, syscall.ELOOP, syscall.EISDIR, syscall.ENOTDIR, syscall.EXDEV, syscall.ENAMETOOLONG, syscall.EFBIG}, ofAll...)
)

// fail wraps err with what was being done and with its class. It returns nil for nil.
func fail(what string, err error) error {
	if err == nil {
		return nil
	}
	for _, class := range []error{backend.ErrInvalid, backend.ErrDenied, backend.ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, class) {
			return fmt.Errorf("file: %s: %w", what, err)
		}
	}
	for _, d := range denied {
		if errors.Is(err, d) {
			return fmt.Errorf("file: %s: %w: %w%s", what, backend.ErrDenied, err, hint(err))
		}
	}
	return fmt.Errorf("file: %s: %w: %w", what, backend.ErrUnavailable, err)
}

// isFileError reports whether err is about one file, which costs the others nothing.
func isFileError(err error) bool {
	err = fail("", err) // which knows its class
	return errors.Is(err, backend.ErrDenied) && !slices.ContainsFunc(ofAll, func(e error) bool { return errors.Is(err, e) })
}

func hint(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return " (each lease that is held is an open file: raise the limit, ulimit -n)"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return " (the disk, its inodes or a quota are used up: free some)"
	case errors.Is(err, syscall.ELOOP):
		return " (a symbolic link where a file of an election should be: remove it)"
	}
	return ""
}
