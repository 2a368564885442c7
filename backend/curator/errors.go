package curator

import (
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// wrap wraps err for the caller: what was done, and the class.
func (b *Backend) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("curator: %s: %w", what, err) // already has its class
	}
	err = b.access.Fail(err, fmt.Sprintf("read, write, create and delete below %s and at %s (zkCli.sh: getAcl -R %s)", b.options.Root, b.layout.pathTemplate, b.options.Root))
	return fmt.Errorf("curator: %s: %w", what, err)
}
