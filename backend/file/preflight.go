//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/go-election/go-election/backend"
)

var _ backend.Preflighter = (*Backend)(nil)

// Prove implements [backend.Preflighter]: that files can be made in the directory, and that
// those of the elections which are there can be written.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	err := fail("prove", b.guard.Enter(ctx, bids[0].Candidate.Nonce))
	if err == nil {
		err = fail("prove", b.probe())
	}
	for i, bid := range bids {
		if errs[i] = err; err == nil {
			errs[i] = fail(fmt.Sprintf("prove %q", bid.Election), b.preflight(bid))
		}
	}
	return errs
}

// probe makes a file in the directory, and takes it away again.
func (b *Backend) probe() error {
	f, err := os.CreateTemp(b.dir, tempPrefix)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (b *Backend) preflight(bid backend.Bid) error {
	if bid.TTL > b.maxTTL || bid.TTL < 1 {
		return fmt.Errorf("%w: a TTL of %v; the greatest in this directory is %v", backend.ErrInvalid, bid.TTL, b.maxTTL)
	}
	for _, suffix := range []string{lockSuffix, recordSuffix} {
		f, _, err := open(b.path(bid.Election, suffix), os.O_RDWR)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
