package backend_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-election/go-election/backend"
)

// The error of a call about thousands of leases is one line, and is of the class of each of them.
func TestTheErrorsOfManyItemsAreOneLine(t *testing.T) {
	var errs []error
	for i := range 200 {
		errs = append(errs, nil, fmt.Errorf("release %d: %w", i, backend.ErrUnavailable))
	}
	errs[399] = fmt.Errorf("release 199: %w", backend.ErrDenied)
	err := backend.Join(errs...)
	if want := "release 0: store unavailable; release 1: store unavailable; release 2: store unavailable; and 197 more"; err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if backend.Class(err) != backend.ErrDenied || !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("its class is %v, and it does not wrap all", backend.Class(err))
	}
	if err := backend.Join(nil, nil); err != nil {
		t.Errorf("of no errors: %v", err)
	}
}
