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

// Preflight implements [backend.Preflighter]. It checks that this process can make files
// in the directory, and can write the files of elections that exist.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	err := fail("preflight", b.owner.Enter(ctx, bids[0].Candidate.Nonce))
	if err == nil {
		err = fail("preflight", b.checkWritable())
	}
	for i, bid := range bids {
		if errs[i] = err; err == nil {
			errs[i] = fail(fmt.Sprintf("preflight %q", bid.Election), b.preflight(bid))
		}
	}
	return errs
}

// checkWritable makes a file in the directory and removes it again.
func (b *Backend) checkWritable() error {
	f, err := os.CreateTemp(b.dir, tempPrefix)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (b *Backend) preflight(bid backend.Bid) error {
	if bid.TTL > b.maxTTL || bid.TTL < 1 {
		return b.ttlError(bid.TTL)
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
