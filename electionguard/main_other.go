//go:build !linux

package electionguard

import (
	"errors"
	"fmt"
)

// Main does nothing: there are guards on Linux only.
func Main(Open) { isMain.Store(true) }

// Start fails with errors.ErrUnsupported: there are guards on Linux only.
func Start(o Options) (*Guard, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("electionguard: only on Linux: %w", errors.ErrUnsupported)
}
