package curator

import (
	"context"
	"errors"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// writeLastLeader writes the last leader where other programs look for it.
func (b *Backend) writeLastLeader(ctx context.Context, s *session, bid backend.Bid) error {
	if b.layout.lastTemplate == "" {
		return nil
	}
	path, content := b.layout.lastPath(bid.Election), []byte(bid.Candidate.ID)
	if b.options.Data == "address" {
		content = []byte(bid.Candidate.Address)
	}
	for try := 0; ; try++ {
		_, err := ensemble.Call(ctx, s.Session, func(c *zk.Conn) (struct{}, error) {
			_, err := c.Set(path, content, -1)
			if errors.Is(err, zk.ErrNoNode) {
				_, err = c.Create(path, content, zk.FlagPersistent, b.access.ACL)
			}
			return struct{}{}, err
		})
		if !errors.Is(err, zk.ErrNoNode) || try > 0 {
			return err
		}
		if err := b.createParents(ctx, s, path, false); err != nil {
			return err
		}
	}
}

// readLastLeader reads the last leader where other programs look for it. If it is not ours,
// it has led since and has failed: such programs do not resign. Members of this module with
// an IncumbentGrace then wait for it to come back. This needs a record, without which the
// lease has no term, and ids as the nodes' data, because the record knows only ids.
func (b *Backend) readLastLeader(get readFunc, snap *snapshot) error {
	if b.layout.lastTemplate == "" || b.options.Data != "id" || snap.record == nil {
		return nil
	}
	l := &snap.lease
	r, err := get(ensemble.Data, b.layout.lastPath(l.Election))
	if err != nil {
		return err
	}
	if id := string(r.Data); id != "" && id != l.LastID {
		l.End, l.LastID = backend.Failed, clean.Text(id, backend.MaxID, false)
		snap.heartbeat = mix(snap.heartbeat, "last "+id)
	}
	return err
}
