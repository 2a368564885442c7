//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/go-election/go-election/backend"
)

// denied lists the errors that do not go away until an operator acts.
var denied = []error{fs.ErrPermission, syscall.EROFS, syscall.ELOOP, syscall.EISDIR, syscall.ENOTDIR, syscall.EXDEV, syscall.ENAMETOOLONG, syscall.EFBIG, syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.ESTALE, syscall.ENOLCK, syscall.ENOSYS, syscall.EOPNOTSUPP}

// fail wraps err with what was being done and with its class. It returns nil for nil.
func fail(what string, err error) error {
	if err == nil {
		return nil
	}
	for _, class := range []error{backend.ErrInvalid, backend.ErrDenied, backend.ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, class) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	for _, d := range denied {
		if errors.Is(err, d) {
			return fmt.Errorf("%s: %w: %w%s", what, backend.ErrDenied, err, hint(err))
		}
	}
	return fmt.Errorf("%s: %w: %w", what, backend.ErrUnavailable, err)
}

func hint(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return " (raise the limit of open files, ulimit -n)"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return " (the disk, its inodes or a quota are used up: free some)"
	case errors.Is(err, syscall.ELOOP):
		return " (a symbolic link where a file of an election should be: remove it)"
	}
	return ""
}
