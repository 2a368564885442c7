//go:build linux || darwin

package file

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// Since it read the value, everything may have been deleted, and made anew by those who lead now.
func TestASwapThatTakesTooLongChangesNothing(t *testing.T) {
	dir := t.TempDir()
	SetValue(t, dir, []byte("present"))
	root, c := latest(t, dir)
	next := content{number: c.number + 1, value: []byte("late"), maxTTL: time.Minute}
	if _, err := add(root, &next, time.Now().Add(-31*time.Second)); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a swap after half of the greatest TTL: %v; want ErrUnavailable", err)
	}
	if got := Value(t, dir); string(got) != "present" {
		t.Errorf("the value is %q", got)
	}
}

// What passes by itself, as descriptors that are used up do, is tried again. For the rest a person is needed.
func TestWhatPassesByItselfIsNotDenied(t *testing.T) {
	for errno, want := range map[syscall.Errno]error{
		syscall.EMFILE: backend.ErrUnavailable, syscall.ENFILE: backend.ErrUnavailable, syscall.EAGAIN: backend.ErrUnavailable,
		syscall.ENOENT: backend.ErrUnavailable, syscall.ENOSPC: backend.ErrDenied, syscall.EACCES: backend.ErrDenied,
	} {
		if err := fail("open", &os.PathError{Op: "open", Path: "x", Err: errno}); !errors.Is(err, want) {
			t.Errorf("%v; want %v", err, want)
		}
	}
}
