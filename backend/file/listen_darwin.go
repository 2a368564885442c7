package file

import (
	"context"
	"errors"
	"time"
)

// There is no notice here of a file that a process left locked: Listen looks.
type notice struct{}

type event struct {
	base   string
	closed bool
}

func newNotice(string) (*notice, error) { return nil, errors.ErrUnsupported }

func (*notice) close() {}

func (*notice) next(context.Context, time.Duration) ([]event, bool, error) {
	return nil, false, errors.ErrUnsupported
}
