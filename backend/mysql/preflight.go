package mysql

import (
	"context"

	"github.com/go-election/go-election/backend"
)

var _ backend.Preflighter = (*Backend)(nil)

// Preflight implements [backend.Preflighter]. It runs the statements of a grant and of the
// first grant of an election, and compares the TTLs with the greatest one in the table. A
// server checks rights, and whether it is read-only, before it looks for rows. No election
// has the name that is used here, so that no row is found, changed or locked.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	err := b.enter(bids[0].Candidate.Nonce)
	if err == nil {
		err = b.call(ctx, describe("preflight", len(bids), bids[0].Election), func(s *session) error {
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
