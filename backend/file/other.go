//go:build !linux && !darwin

package file

import (
	"fmt"
	"runtime"

	"github.com/go-election/go-election/backend"
)

// A Backend does not exist on this system.
type Backend struct{ backend.Backend }

// Open returns ErrInvalid on systems other than Linux and macOS.
func Open(Options) (*Backend, error) {
	return nil, fmt.Errorf("file: %w: it needs Linux or macOS, this is %s", backend.ErrInvalid, runtime.GOOS)
}
