package curator

import (
	"context"
	"errors"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// A grantAttempt is one attempt to grant a lease by one transaction.
type grantAttempt struct {
	bid          backend.Bid
	snap         *snapshot
	session      int64
	sessionCzxid int64   // czxid of our session record
	number       int     // of the grant
	record       *record // as the transaction writes it
	own          ownLock // with our node, or with the prefix of its name if it is to be created
	create       bool    // our node is to be created
	noNode       bool    // the lease needs no node: the election is sealed at a fixed path

	tx         transaction
	begin, end func() // called before and after a request that creates our node
}

// grant grants the lease, and takes it over from a holder that is present. done is false
// if something has changed since the snapshot.
func (b *Backend) grant(ctx context.Context, s *session, id int64, bid backend.Bid, snap *snapshot) (l backend.Lease, done bool, err error) {
	g, err := b.newGrantAttempt(s, id, bid, snap)
	if err != nil {
		return l, false, err
	}
	if err := b.addOwnNode(ctx, s, g); err != nil {
		return l, false, err
	}
	b.addConditions(s, g)
	b.addRecordWrite(ctx, &g.tx, s, g.record, snap)
	results, done, err := g.tx.run(ctx, s, g.begin, g.end)
	if !done {
		if g.create && (err == nil || ensemble.IsOpError(err) || errors.Is(err, errSessionEnded)) { // the node was not created
			b.updateLock(bid.Election, (*ownLock).reset)
		}
		return l, false, err
	}
	recordVersion, done, err := b.completeGrant(ctx, s, g, results)
	if !done {
		return l, false, err
	}
	b.updateLock(bid.Election, func(now *ownLock) {
		if now.node == g.own.node {
			now.term, now.grant, now.sessionCzxid, now.recordVersion, now.record = g.record.Term, g.number, g.sessionCzxid, recordVersion, g.record
		}
	})
	l = g.record.lease()
	l.Holder, l.TTL, l.Renew = bid.Candidate, bid.TTL, bid.Renew
	l.Version = version((*renewalGroup)(nil).leaseHeartbeat(g.record.Heartbeat, g.sessionCzxid, bid.Election), g.own.node)
	return l, true, nil
}

// newGrantAttempt prepares the record of a grant.
func (b *Backend) newGrantAttempt(s *session, id int64, bid backend.Bid, snap *snapshot) (*grantAttempt, error) {
	now, own := s.now(), b.lockOf(bid.Election)
	r, last := &record{Election: bid.Election}, uint64(0)
	if snap.record != nil {
		r = snap.record.clone()
		last = r.Term
	}
	term, err := backend.NextTerm(last, snap.unconfirmed || snap.record == nil && snap.deleted.any(), bid.MinTerm, now)
	if err != nil {
		return nil, err
	}
	number := b.nextGrant()
	if snap.unconfirmed {
		r.Holder = nil // its grant was never answered
	}
	r.endLeadership(backend.Failed, now, snap.lease.ExpiredFor())
	r.Term, r.Heartbeat, r.Request, r.Unconfirmed = term, newHeartbeat(), nil, ""
	if snap.record == nil {
		r.Unconfirmed = snap.deleted.String()
	}
	r.Holder = &holder{
		ID: bid.Candidate.ID, Nonce: string(bid.Candidate.Nonce), Address: bid.Candidate.Address, Metadata: bid.Candidate.Metadata,
		TTL: duration(bid.TTL), Renew: duration(bid.Renew), Elected: now.UTC(),
		Node: own.node, Session: sessionName(id), Grant: number,
	}
	r.MovedTo = snap.lease.MovedTo
	noNode := snap.fixedPathSealed(b)
	return &grantAttempt{
		bid: bid, snap: snap, session: id, number: number, record: r, own: own,
		create: own.node == "" && !noNode, noNode: noNode, begin: func() {}, end: func() {},
	}, nil
}

// addOwnNode adds the creation of our node, or the check that it exists.
func (b *Backend) addOwnNode(ctx context.Context, s *session, g *grantAttempt) error {
	election, r := g.bid.Election, g.record
	switch {
	case g.noNode:
		g.own = ownLock{namePrefix: sealedNode, node: sealedNode, session: g.session}
		r.Holder.Node = sealedNode
		return b.updateUnlessReplaced(s, election, func(now *ownLock) { g.own.pending = now.pending; *now = g.own })
	case g.create:
		if err := b.checkPathBytes(g.session, election); err != nil {
			return err
		}
		request, name := b.newLockNode(g.bid)
		r.Holder.Node = name
		if err := b.updateUnlessReplaced(s, election, func(now *ownLock) {
			*now = ownLock{namePrefix: name, session: g.session, pending: now.pending}
		}); err != nil {
			return err
		}
		g.begin, g.end = b.trackPending(election)
		g.tx.add(request, func() error { return b.createParents(ctx, s, request.Path, true) })
		return nil
	}
	if b.layout.kind != Node {
		r.Holder.Node = g.own.namePrefix
	}
	own := g.own
	g.tx.add(&zk.CheckVersionRequest{Path: b.layout.nodePath(election, own.node), Version: -1}, func() error {
		b.updateLock(election, func(now *ownLock) { forgetNode(now, own) })
		s.Watches.Forget(ensemble.Children, b.layout.lockPath(election))
		return nil
	})
	return nil
}

// addConditions adds the conditions that the grant relies on besides the record: that our
// session exists, that a holder has not renewed, and that the seal is the same.
func (b *Backend) addConditions(s *session, g *grantAttempt) {
	election, snap, id := g.bid.Election, g.snap, g.session
	g.sessionCzxid = s.recordCzxidOf(id)
	g.tx.add(&zk.CheckVersionRequest{Path: b.layout.sessionPath(sessionName(id)), Version: -1}, func() error { s.noteRecordLost(id); return errSessionEnded })
	if snap.holderPresent() && snap.holderNode != g.own.node {
		b.addTakeover(&g.tx, s, election, snap)
	}
	if snap.checkSession {
		path := b.layout.sessionPath(snap.record.Holder.Session)
		g.tx.add(&zk.CheckVersionRequest{Path: path, Version: snap.sessionVersion}, func() error { s.Watches.Forget(ensemble.Unique, path); return nil })
	}
	if snap.queue.sealed {
		g.tx.add(&zk.CheckVersionRequest{Path: b.layout.sealPath(election), Version: snap.queue.version}, func() error { b.forgetSeal(s, election); return nil })
	}
}

// completeGrant does what must follow the transaction before anyone is told of the grant:
// it confirms a record that the transaction has created, checks that no other program's
// node is before ours, and at a fixed path that the node is ours. It returns the version
// of the record.
func (b *Backend) completeGrant(ctx context.Context, s *session, g *grantAttempt, results []zk.MultiResponse) (version int32, done bool, err error) {
	election, r := g.bid.Election, g.record
	if stat := results[len(results)-1].Stat; stat != nil {
		version = stat.Version
		s.learnClock(stat)
	}
	if g.create {
		path := results[0].String
		g.own = ownLock{namePrefix: r.Holder.Node, node: strings.Clone(path[strings.LastIndexByte(path, '/')+1:]), session: g.session}
		b.updateLock(election, func(now *ownLock) { now.node = g.own.node })
	}
	if r.Unconfirmed != "" {
		if version, done, err = b.confirmNewRecord(ctx, s, r); !done {
			return 0, false, err
		}
	}
	queue := &g.snap.queue
	if g.create && (!queue.unmoved() || !isNextNumber(g.own.node, g.own.namePrefix, queue.created)) {
		if done, err := b.checkQueueOrder(ctx, s, g.bid, g.own, r, version, queue.sealed); err != nil || !done {
			return 0, false, err
		}
	}
	if b.layout.kind == Node && !g.noNode {
		if _, ok, err := b.checkFixedNode(ctx, s, election, g.own.node); err != nil || !ok {
			if !ok && err == nil {
				b.updateLock(election, func(now *ownLock) { forgetNode(now, g.own) })
			}
			return 0, false, err
		}
		if err := b.writeLastLeader(ctx, s, g.bid); err != nil {
			return 0, false, err
		}
	}
	return version, true, nil
}

// nextGrant returns a number for a grant.
func (b *Backend) nextGrant() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grantCount++
	return b.grantCount
}
