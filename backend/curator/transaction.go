package curator

import (
	"context"
	"errors"

	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// A transaction is a batch of writes, with the reaction to the failure of each.
type transaction struct {
	ops    []any
	failed []func() error // one for each write
}

func (p *transaction) add(op any, failed func() error) {
	p.ops, p.failed = append(p.ops, op), append(p.failed, failed)
}

// addTakeover adds the checks that nothing has changed since the snapshot, in particular
// that the holder has not renewed the observed lease, and deletes the holder's node.
func (b *Backend) addTakeover(p *transaction, s *session, election string, snap *snapshot) {
	again := func() error { s.Watches.Forget(ensemble.Children, b.layout.lockPath(election)); return nil }
	p.add(&zk.CheckVersionRequest{Path: b.layout.sessionPath(snap.record.Holder.Session), Version: snap.sessionVersion}, again)
	p.add(&zk.DeleteRequest{Path: b.layout.nodePath(election, snap.holderNode), Version: -1}, again)
}

// addRecordWrite adds the write of a record.
func (b *Backend) addRecordWrite(ctx context.Context, p *transaction, s *session, r *record, snap *snapshot) {
	path := b.layout.recordPath(r.Election)
	again := func() error { s.Watches.Forget(ensemble.Data, path); return nil }
	if snap.record == nil {
		p.add(&zk.CreateRequest{Path: path, Data: r.encode(), Acl: b.access.ACL}, func() error {
			again()
			return b.createParents(ctx, s, path, false) // an operator may have deleted all records
		})
	} else {
		p.add(&zk.SetDataRequest{Path: path, Data: r.encode(), Version: snap.version}, again)
	}
}

// run makes the transaction. done is false if it was not made and the election must be read
// again.
func (p *transaction) run(ctx context.Context, s *session, begin, end func()) (results []zk.MultiResponse, done bool, err error) {
	results, failed, err := s.writeAfter(ctx, begin, end, p.ops...)
	switch {
	case err == nil:
		return results, true, nil
	case failed >= 0 && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNodeExists)):
		return nil, false, p.failed[failed]()
	}
	return nil, false, err
}
