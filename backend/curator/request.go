package curator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// Request writes requests into records, by compare-and-swap. The holder's next renewal
// finds that its record has another version, and reads it.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.admit(""); err != nil {
		return err
	}
	errs := make([]error, len(requests))
	if err := b.withSession(ctx, func(s *session) error {
		if err := s.sync(ctx); err != nil {
			return err
		}
		ensemble.InParallel(len(requests), func(i int) { errs[i] = b.writeRequest(ctx, s, requests[i]) })
		for _, err := range errs {
			if err != nil && !errors.Is(err, backend.ErrStale) {
				return err
			}
		}
		return nil
	}); err != nil && cmp.Or(errs...) == nil {
		return b.wrap("request", err)
	}
	// Report errors that can be retried before those that cannot.
	var failed error
	for i, err := range errs {
		if err != nil && (failed == nil || errors.Is(failed, backend.ErrStale)) {
			failed = b.wrap(fmt.Sprintf("request %.80q", requests[i].Election), err)
		}
	}
	return failed
}

func (b *Backend) writeRequest(ctx context.Context, s *session, w backend.Request) error {
	path := b.layout.recordPath(w.Election)
	for range 8 {
		r, err := s.ReadNode(ctx, ensemble.Data, path)
		if err != nil {
			return err
		}
		rec, bad := parseRecord(r.Data, w.Election)
		if r.Missing || bad != nil || rec.Term != w.Term || rec.Unconfirmed != "" {
			has := uint64(0)
			if rec != nil && rec.Unconfirmed == "" {
				has = rec.Term
			}
			return fmt.Errorf("the election has term %d, not %d: %w", has, w.Term, backend.ErrStale)
		}
		next := rec.clone()
		if next.Request = nil; w.Kind != "" {
			next.Request = &request{Term: w.Term, Kind: w.Kind, ID: w.ID, Nonce: string(w.Nonce)}
		}
		_, _, err = s.write(ctx, &zk.SetDataRequest{Path: path, Data: next.encode(), Version: r.Stat.Version})
		if !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
	}
	return fmt.Errorf("%w: the election changes too quickly", backend.ErrUnavailable)
}
