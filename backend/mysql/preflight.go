package mysql

import (
	"context"

	"github.com/go-election/go-election/backend"
)

var _ backend.Preflighter = (*Backend)(nil)

// Prove implements [backend.Preflighter]: the statements of a grant, of the first grant of an
// election, and what the table says about TTLs. Servers check rights, and whether they
// may be written at all, before they look for rows, and there are none to find, and so
// none to lock: no election has such a name.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	err := b.enter(bids[0].Candidate.Nonce)
	if err == nil {
		err = b.call(ctx, describe("prove", len(bids), bids[0].Election), func(s *session) error {
			st, _, err := s.read(ctx, fullSQL, []string{bids[0].Election}, nil)
			if err != nil {
				return err
			}
			for i, bid := range bids {
				if bid.TTL > st.maxTTL {
					errs[i] = b.tooLong(bid.Election, bid.TTL, st.maxTTL)
				}
			}
			text, args := s.grantStatement(st.server, []rowChange{{name: "\x00"}}, bids[0].Candidate, newHeartbeat(), bids[0].TTL, bids[0].Renew)
			if _, err := s.exec(ctx, text, args...); err != nil {
				return err
			}
			for _, template := range []string{preflightLeaseSQL, preflightTermSQL} {
				if _, err := s.exec(ctx, s.text[template]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range errs {
		if err != nil {
			errs[i] = err
		}
	}
	return errs
}
