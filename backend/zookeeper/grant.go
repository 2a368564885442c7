package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// A plan is one transaction, and what it means when one of its writes cannot be
// made.
type transaction struct {
	ops    []any
	failed []func() error // by write
}

func (p *transaction) add(op any, failed func() error) {
	p.ops, p.failed = append(p.ops, op), append(p.failed, failed)
}

// over adds that nothing has changed since v was seen: in particular that its
// holder has not renewed the lease that was watched, and ends its leadership for good by
// deleting its node.
func (b *Backend) addTakeover(p *transaction, s *session, election string, snap *snapshot) {
	again := func() error { s.cache.forget(childNames, b.layout.lockPath(election)); return nil }
	p.add(&zk.CheckVersionRequest{Path: b.layout.sessionPath(snap.record.Holder.Session), Version: snap.sessionVersion}, again)
	p.add(&zk.DeleteRequest{Path: b.layout.nodePath(election, snap.holderNode), Version: -1}, again)
}

// recorded adds the writing of a record.
func (b *Backend) addRecordWrite(ctx context.Context, p *transaction, s *session, r *record, snap *snapshot) {
	path := b.layout.recordPath(r.Election)
	again := func() error { s.cache.forget(nodeData, path); return nil }
	if snap.record == nil {
		p.add(&zk.CreateRequest{Path: path, Data: r.encode(), Acl: b.acl}, func() error {
			again()
			return b.createParents(ctx, s, path, false) // somebody may have deleted all records
		})
	} else {
		p.add(&zk.SetDataRequest{Path: path, Data: r.encode(), Version: snap.version}, again)
	}
}

// run makes the transaction. done is false if it was not made and what it rests on
// must be seen again.
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

// grant makes the grant, and takes over from a holder that is there. done is false if
// something has changed since v was seen.
func (b *Backend) grant(ctx context.Context, s *session, id int64, bid backend.Bid, snap *snapshot) (l backend.Lease, done bool, err error) {
	now, own, election := s.now(), b.lockOf(bid.Election), bid.Election
	r, last := &record{Election: election}, uint64(0)
	if snap.record != nil {
		r = snap.record.clone()
		last = r.Term
	}
	term, err := backend.NextTerm(last, snap.unconfirmed || snap.record == nil && snap.deleted.any(), bid.MinTerm, now)
	if err != nil {
		return l, false, err
	}
	grant := b.nextGrant()
	if snap.unconfirmed {
		r.Holder = nil // who was never told
	}
	r.endLeadership(backend.Failed, now, snap.lease.Lapsed())
	r.Term, r.Heartbeat, r.Request, r.Unconfirmed = term, newHeartbeat(), nil, ""
	if snap.record == nil {
		r.Unconfirmed = snap.deleted.String()
	}
	r.Holder = &holder{
		ID: bid.Candidate.ID, Nonce: bid.Candidate.Nonce, Address: bid.Candidate.Address, Metadata: bid.Candidate.Metadata,
		TTL: duration(bid.TTL), Renew: duration(bid.Renew), Elected: now.UTC(),
		Node: own.node, Session: sessionName(id), Grant: grant,
	}
	r.MovedTo = snap.lease.MovedTo
	var p transaction
	alone := snap.fixedPathSealed(b) // without a node
	begin, end, fresh := func() {}, func() {}, own.node == "" && !alone
	switch {
	case alone:
		own = ownLock{namePrefix: sealedNode, node: sealedNode, session: id}
		r.Holder.Node = sealedNode
		if err := b.updateUnlessReplaced(s, election, func(now *ownLock) { own.pending = now.pending; *now = own }); err != nil {
			return l, false, err
		}
	case fresh:
		if err := b.checkPathBytes(id, election); err != nil {
			return l, false, err
		}
		request, asked := b.newLockNode(bid)
		r.Holder.Node = asked
		if err := b.updateUnlessReplaced(s, election, func(own *ownLock) { *own = ownLock{namePrefix: asked, session: id, pending: own.pending} }); err != nil {
			return l, false, err
		}
		begin, end = b.trackPending(election)
		p.add(request, func() error { return b.createParents(ctx, s, request.Path, true) })
	default:
		if b.layout.kind != Node {
			r.Holder.Node = own.namePrefix
		}
		p.add(&zk.CheckVersionRequest{Path: b.layout.nodePath(election, own.node), Version: -1}, func() error {
			b.updateLock(election, func(now *ownLock) { forgetNode(now, own) })
			s.cache.forget(childNames, b.layout.lockPath(election))
			return nil
		})
	}
	// The session by which all of this goes, which may have ended.
	home := s.recordCzxidOf(id)
	p.add(&zk.CheckVersionRequest{Path: b.layout.sessionPath(sessionName(id)), Version: -1}, func() error { s.noteRecordLost(id); return errSessionEnded })
	if snap.holderPresent() && snap.holderNode != own.node {
		b.addTakeover(&p, s, election, snap)
	}
	if snap.checkSession {
		path := b.layout.sessionPath(snap.record.Holder.Session)
		p.add(&zk.CheckVersionRequest{Path: path, Version: snap.sessionVersion}, func() error { s.cache.forget(uniqueData, path); return nil })
	}
	if snap.queue.sealed {
		p.add(&zk.CheckVersionRequest{Path: b.layout.sealPath(election), Version: snap.queue.version}, func() error { b.forgetSeal(s, election); return nil })
	}
	b.addRecordWrite(ctx, &p, s, r, snap)
	results, done, err := p.run(ctx, s, begin, end)
	if !done {
		if fresh && (err == nil || isOpError(err) || errors.Is(err, errSessionEnded)) { // it was not made
			b.updateLock(election, (*ownLock).reset)
		}
		return l, false, err
	}
	version := int32(0)
	if stat := results[len(results)-1].Stat; stat != nil {
		version = stat.Version
		s.learnClock(stat)
	}
	if fresh {
		made := results[0].String
		own = ownLock{namePrefix: r.Holder.Node, node: strings.Clone(made[strings.LastIndexByte(made, '/')+1:]), session: id}
		b.updateLock(election, func(now *ownLock) { now.node = own.node })
	}
	if r.Unconfirmed != "" {
		if version, done, err = b.confirmNewRecord(ctx, s, r); !done {
			return l, false, err
		}
	}
	if fresh {
		if !s.cache.existsUnchanged(snap.queue.parent) || !isNextNumber(own.node, own.namePrefix, snap.queue.created) {
			if done, err := b.checkQueueOrder(ctx, s, bid, own, r, version, snap.queue.sealed); err != nil || !done {
				return l, false, err
			}
		}
	}
	if b.layout.kind == Node && !alone {
		if _, ok, err := b.checkFixedNode(ctx, s, election, own.node); err != nil || !ok {
			if !ok && err == nil {
				b.updateLock(election, func(now *ownLock) { forgetNode(now, own) })
			}
			return l, false, err
		}
		if err := b.writeLastLeader(ctx, s, bid); err != nil {
			return l, false, err
		}
	}
	b.updateLock(election, func(now *ownLock) {
		if now.node == own.node {
			now.term, now.grant, now.sessionCzxid, now.recordVersion, now.record = term, grant, home, version, r
		}
	})
	l = r.lease()
	l.Holder, l.TTL, l.Renew, l.Ref = bid.Candidate, bid.TTL, bid.Renew, own.node
	l.Heartbeat = (*renewalGroup)(nil).leaseHeartbeat(r.Heartbeat, home, election)
	return l, true, nil
}

// confirm makes a grant whole that has made the record. A node that is made has the
// version 0, whatever stood there before: if there was a record after the bid has looked
// for one, and somebody has deleted it, its holder would take this one for its own, and
// renew. So nobody renews under version 0. That no record was deleted since is read after
// this one is there, and then it is written once more. Until then it grants nothing, and if
// that is never done everybody waits for the longest TTL before it is written.
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

// verify makes sure, after a grant that has made our node, that no member of
// another program has come before it: who does not know of the record would lead.
// Whoever comes later is behind, and behind a seal nobody leads.
func (b *Backend) checkQueueOrder(ctx context.Context, s *session, bid backend.Bid, own ownLock, r *record, version int32, sealed bool) (done bool, err error) {
	q, err := s.cache.readPlain(ctx, childNames, b.layout.lockPath(bid.Election))
	if err != nil {
		return false, err
	}
	nodes := q.children
	switch foreign := b.layout.firstForeign(nodes); {
	case !slices.Contains(nodes, own.node): // deleted by somebody's hand
		b.updateLock(bid.Election, func(now *ownLock) { forgetNode(now, own) })
		return false, nil
	case foreign != "" && !sealed && b.layout.before(foreign, own.node):
		return false, b.withdrawGrant(ctx, s, bid, r.clone(), version)
	}
	return true, nil
}

// withdraw takes back a grant that nobody was told of. Our node stays in the queue.
func (b *Backend) withdrawGrant(ctx context.Context, s *session, bid backend.Bid, r *record, version int32) error {
	r.Holder, r.Heartbeat, r.Unconfirmed = nil, newHeartbeat(), ""
	var p transaction
	b.addRecordWrite(ctx, &p, s, r, &snapshot{record: r, version: version})
	_, _, err := p.run(ctx, s, func() {}, func() {})
	return err
}

// evict ends the leadership of a holder that has not renewed for its TTL, for the good
// of a member of another program that stands behind it.
func (b *Backend) evictHolder(ctx context.Context, s *session, id int64, bid backend.Bid, snap *snapshot) error {
	r := snap.record.clone()
	r.endLeadership(backend.Failed, s.now(), snap.lease.Lapsed())
	r.Heartbeat = newHeartbeat()
	var p transaction
	b.addTakeover(&p, s, bid.Election, snap)
	b.addRecordWrite(ctx, &p, s, r, snap)
	_, _, err := p.run(ctx, s, func() {}, func() {})
	return err
}

// still reports whether the node at a fixed path is the one that we made, and what it
// holds. It is asked after a write: what it reads is not older than that.
func (b *Backend) checkFixedNode(ctx context.Context, s *session, election, node string) (r reading, ok bool, err error) {
	r, err = s.cache.readPlain(ctx, nodeData, b.layout.lockPath(election))
	if node == sealedNode {
		_, ok = readSeal(r)
	} else {
		ok = !r.missing && nodeName(r) == node
	}
	return r, err == nil && ok, err
}

// nextGrant returns a number for a grant.
func (b *Backend) nextGrant() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grantCount++
	return b.grantCount
}
