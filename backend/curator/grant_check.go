package curator

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
)

// confirmNewRecord completes a grant that has created the record. It checks that no record
// was deleted since the bid looked for one, and then writes the record a second time. Until
// then the record names no leader, and nobody renews under version 0. See
// docs/design/curator.md, "The first grant of an election".
func (b *Backend) confirmNewRecord(ctx context.Context, s *session, r *record) (version int32, done bool, err error) {
	now, err := b.readDeletions(ctx, s)
	if err != nil || now.String() != r.Unconfirmed {
		return 0, false, err
	}
	r.Unconfirmed, r.Heartbeat = "", newHeartbeat()
	var p transaction
	b.addRecordWrite(ctx, &p, s, r, &snapshot{record: r})
	results, done, err := p.run(ctx, s, func() {}, func() {})
	if !done {
		return 0, false, err
	}
	stat := results[0].Stat
	if stat == nil {
		return 0, false, fmt.Errorf("%w: the servers have answered a write without its outcome", backend.ErrUnavailable)
	}
	s.learnClock(stat)
	return stat.Version, true, nil
}

// checkQueueOrder makes sure, after a grant that has created our node, that no node of
// another program comes before it: its owner does not know of the record and would lead.
// Later nodes come behind ours, and behind a seal no other program leads.
func (b *Backend) checkQueueOrder(ctx context.Context, s *session, bid backend.Bid, own ownLock, r *record, version int32, sealed bool) (done bool, err error) {
	q, err := s.ReadNode(ctx, ensemble.Children, b.layout.lockPath(bid.Election))
	if err != nil {
		return false, err
	}
	nodes := q.Children
	switch foreign := b.layout.firstForeign(nodes); {
	case !slices.Contains(nodes, own.node): // deleted by an operator
		b.updateLock(bid.Election, func(now *ownLock) { forgetNode(now, own) })
		return false, nil
	case foreign != "" && !sealed && b.layout.before(foreign, own.node):
		return false, b.withdrawGrant(ctx, s, bid, r.clone(), version)
	}
	return true, nil
}

// withdrawGrant takes back a grant that no one was told of. Our node stays in the queue.
func (b *Backend) withdrawGrant(ctx context.Context, s *session, bid backend.Bid, r *record, version int32) error {
	r.Holder, r.Heartbeat, r.Unconfirmed = nil, newHeartbeat(), ""
	var p transaction
	b.addRecordWrite(ctx, &p, s, r, &snapshot{record: r, version: version})
	_, _, err := p.run(ctx, s, func() {}, func() {})
	return err
}

// evictHolder ends the leadership of a holder that has not renewed for its TTL, for a
// member of another program that waits behind it.
func (b *Backend) evictHolder(ctx context.Context, s *session, id int64, bid backend.Bid, snap *snapshot) error {
	r := snap.record.clone()
	r.endLeadership(backend.Failed, s.now(), snap.lease.ExpiredFor())
	r.Heartbeat = newHeartbeat()
	var p transaction
	b.addTakeover(&p, s, bid.Election, snap)
	b.addRecordWrite(ctx, &p, s, r, snap)
	_, _, err := p.run(ctx, s, func() {}, func() {})
	return err
}

// checkFixedNode reports whether the node at a fixed path is the one that we created, and
// returns what it holds. It is called after a write, so it reads a state that is not older.
func (b *Backend) checkFixedNode(ctx context.Context, s *session, election, node string) (r ensemble.Node, ok bool, err error) {
	r, err = s.ReadNode(ctx, ensemble.Data, b.layout.lockPath(election))
	if node == sealedNode {
		_, ok = readSeal(r)
	} else {
		ok = !r.Missing && nodeName(r) == node
	}
	return r, err == nil && ok, err
}
