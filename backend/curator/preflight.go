package curator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

var _ backend.Preflighter = (*Backend)(nil)

// Preflight implements [backend.Preflighter]. For each bid it makes the writes of a grant,
// in a transaction that ends with a condition that is never met. ZooKeeper checks the
// writes one after the other, each with the rights to it, and makes all or none. Parents
// and the session record are created as for a bid.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	need := time.Duration(0)
	for i, bid := range bids {
		if errs[i] = b.checkLength(bid); errs[i] == nil {
			need = max(need, sessionLength(bid.TTL, bid.Renew))
		}
	}
	err := b.admit(bids[0].Candidate.Nonce)
	var s *session
	if err == nil && need > 0 {
		s, err = b.currentSession(ctx, need)
	}
	if err == nil && need > 0 {
		_, err = b.prepareSession(ctx, s, bids[0].Candidate)
	}
	ensemble.InParallel(len(bids), func(i int) {
		if errs[i] == nil {
			errs[i] = err
		}
		if errs[i] == nil {
			errs[i] = s.checkLength(bids[i])
		}
		if errs[i] == nil {
			errs[i] = b.preflightBid(ctx, s, bids[i])
		}
		errs[i] = b.wrap(fmt.Sprintf("preflight %.80q", bids[i].Election), errs[i])
	})
	return errs
}

// impossibleVersion is the version of no node.
const impossibleVersion = -2

func (b *Backend) preflightBid(ctx context.Context, s *session, bid backend.Bid) error {
	path := b.layout.recordPath(bid.Election)
	for range 8 {
		now, err := s.ReadNode(ctx, ensemble.Data, path)
		if err != nil {
			return err
		}
		// The transaction would write what is there, or almost nothing.
		var record any = &zk.CreateRequest{Path: path, Data: (&record{Election: bid.Election}).encode(), Acl: b.access.ACL}
		if !now.Missing {
			record = &zk.SetDataRequest{Path: path, Data: now.Data, Version: now.Stat.Version}
		}
		node, _ := b.newLockNode(bid)
		_, failed, err := s.write(ctx, record, node, &zk.CheckVersionRequest{Path: b.layout.sessionParent, Version: impossibleVersion})
		switch missing := errors.Is(err, zk.ErrNoNode); {
		case err == nil:
			return fmt.Errorf("%w: the server has made a write that a condition forbids", backend.ErrDenied)
		case failed == 2 && errors.Is(err, zk.ErrBadVersion), failed == 1 && errors.Is(err, zk.ErrNodeExists): // the server has checked the rights to a node before that
			return nil
		case failed == 2 && missing, failed == 0 && missing && now.Missing:
			err = b.createParents(ctx, s, path, false)
		case failed == 1 && missing:
			err = b.createParents(ctx, s, node.Path, true)
		case failed == 0 && (missing || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrBadVersion)): // another member was faster
			err = nil
		}
		if err != nil {
			return err
		}
		s.Watches.Forget(ensemble.Data, path)
	}
	return fmt.Errorf("%w: the election changes too quickly", backend.ErrUnavailable)
}
