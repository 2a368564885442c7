package file

import (
	"context"
	"errors"
	"time"
)

// A dirWatch does not exist on macOS: the kernel does not report that a process has left
// a file locked. Listen polls instead.
type dirWatch struct{}

type event struct {
	base   string
	closed bool
}

func watchDir(string) (*dirWatch, error) { return nil, errors.ErrUnsupported }

func (*dirWatch) close() {}

func (*dirWatch) next(context.Context, time.Duration) ([]event, bool, error) {
	return nil, false, errors.ErrUnsupported
}
