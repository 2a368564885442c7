package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// Mark writes the marks into records, and makes or deletes the seals that hold up
// members of other programs. One transaction for each lease does both: it checks that
// our node is there, and our session's, and that the record is as it was granted, as a
// renewal does, and it changes the record, so that a takeover which has watched what
// was before is refused.
//
// When a seal is broken, whoever stands first in the queue leads. So nodes of other
// programs that came before ours, and have waited behind the seal, are deleted with
// it. None of them leads; Curator's members queue again, behind ours.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	start := time.Now()
	if err := b.admit(held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	answers, errs := make([]backend.Answer, len(held)), make([]error, len(held))
	if err := b.withSession(ctx, func(s *session) error {
		id, err := b.prepareSession(ctx, s, held[0].Holder)
		if err != nil {
			return err
		}
		inParallel(len(held), func(i int) {
			answers[i], errs[i] = b.markLease(ctx, s, id, held[i])
			if errs[i] != nil {
				answers[i] = backend.Answer{Err: b.wrap(fmt.Sprintf("move %.80q", held[i].Election), errs[i])}
			}
		})
		return b.fillValidFor(ctx, s, id, start, answers)
	}); err != nil {
		return answers, b.wrap("mark", err)
	}
	if !slices.Contains(errs, nil) { // nothing was learnt at all
		return answers, answers[0].Err
	}
	return answers, nil
}

// move is Mark for one lease. The error leaves the outcome unknown.
func (b *Backend) markLease(ctx context.Context, s *session, id int64, l backend.Held) (backend.Answer, error) {
	for range 8 {
		own := b.lockOf(l.Election)
		r, err := s.cache.readPlain(ctx, nodeData, b.layout.recordPath(l.Election))
		if err != nil {
			return backend.Answer{}, err
		}
		rec, bad := parseRecord(r.data, l.Election)
		ours := own.term != 0 && own.term == l.Term && own.session == id && own.node != "" && own.sessionCzxid == s.recordCzxidOf(id) &&
			!r.missing && bad == nil && rec.namesGrant(l, id, own.grant) && b.layout.isHoldersNode(rec.Holder, own.node)
		if !ours || rec.Request != nil && rec.Request.Kind == backend.Depose && rec.Request.Term == l.Term {
			snap, err := b.takeSnapshot(ctx, s, l.Election, watchedRead())
			return backend.Answer{Lease: snap.lease, Outcome: backend.Refused}, err
		}
		next := rec.clone()
		next.Heartbeat, next.MovedTo, next.MovedFrom = newHeartbeat(), l.MovedTo, l.MovedFrom
		session := b.layout.sessionPath(sessionName(id))
		ops := []any{
			&zk.CheckVersionRequest{Path: session, Version: -1},
			&zk.CheckVersionRequest{Path: b.layout.nodePath(l.Election, own.node), Version: -1},
			&zk.SetDataRequest{Path: b.layout.recordPath(l.Election), Data: next.encode(), Version: r.stat.Version},
		}
		more, node, again, err := b.sealOps(ctx, s, own, next, r.stat.Version)
		if err != nil {
			return backend.Answer{}, err
		}
		if again {
			continue
		}
		if node != own.node {
			h := *next.Holder
			h.Node, next.Holder = node, &h
			ops[2].(*zk.SetDataRequest).Data = next.encode()
		}
		results, failed, err := s.write(ctx, append(ops, more...)...)
		switch {
		case err == nil:
			return b.finishMark(s, own, node, next, results[2].Stat)
		case failed == 0 && errors.Is(err, zk.ErrNoNode): // see Backend.renew
			s.noteRecordLost(id)
		case failed < 0 || !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNodeExists):
			return backend.Answer{}, err
		case failed == 1: // our node is gone
			b.updateLock(l.Election, func(now *ownLock) { forgetNode(now, own) })
		}
	}
	return backend.Answer{}, fmt.Errorf("%w: the election changes too quickly", backend.ErrUnavailable)
}

// moved notes a move that was made, and answers it.
func (b *Backend) finishMark(s *session, own ownLock, node string, r *record, stat *zk.Stat) (backend.Answer, error) {
	if stat == nil {
		return backend.Answer{}, fmt.Errorf("%w: the servers have answered a write without its outcome", backend.ErrUnavailable)
	}
	s.learnClock(stat)
	b.updateLock(r.Election, func(now *ownLock) {
		if now.node == own.node && now.term == own.term {
			now.node, now.recordVersion, now.record = node, stat.Version, r
			if b.layout.kind == Node {
				now.namePrefix = node
			}
		}
	})
	b.forgetSeal(s, r.Election)
	s.mu.Lock()
	g := s.record.groupOf(own.grant)
	s.mu.Unlock()
	l := r.lease()
	l.Holder, l.TTL, l.Renew, l.Ref = r.Holder.candidate(), time.Duration(r.Holder.TTL), time.Duration(r.Holder.Renew), node
	if l.Heartbeat = g.leaseHeartbeat(r.Heartbeat, own.sessionCzxid, r.Election); g != nil {
		l.TTL, l.Renew = time.Duration(g.TTL), time.Duration(g.Renew)
	}
	return backend.Answer{Lease: l, Outcome: backend.Granted}, nil
}

// reseal returns the writes that make the lock of an election as sealed as its next
// record says, and the name of our node after them. version is the present record's.
// again: something was done that goes before, and all is to be seen again.
func (b *Backend) sealOps(ctx context.Context, s *session, own ownLock, next *record, version int32) (ops []any, node string, again bool, err error) {
	election, lock, path := next.Election, b.layout.lockPath(next.Election), b.layout.sealPath(next.Election)
	r, err := s.cache.readPlain(ctx, uniqueData, path)
	if err != nil {
		return nil, "", false, err
	}
	seal, sealed := readSeal(r)
	if b.layout.kind != Node {
		sealed = !r.missing // by its name, whatever it holds
	}
	text := []byte(sealText + next.MovedTo)
	switch {
	case next.MovedTo == "" && !sealed && own.node == sealedNode:
		if r.missing || r.stat.EphemeralOwner != own.session {
			b.updateLock(election, func(now *ownLock) { forgetNode(now, own) }) // somebody has broken the seal
			return nil, "", true, nil
		}
		return nil, nodeName(r), false, nil // made below
	case next.MovedTo == "" && !sealed:
		return nil, own.node, false, nil
	case next.MovedTo != "" && sealed:
		return []any{&zk.SetDataRequest{Path: path, Data: text, Version: r.stat.Version}}, own.node, false, nil
	case next.MovedTo != "" && b.layout.kind == Node: // in the place of our node
		ops = append(ops, &zk.DeleteRequest{Path: path, Version: r.stat.Version}, &zk.CreateRequest{Path: path, Data: text, Acl: b.acl})
		if r.missing || nodeName(r) != own.node {
			b.updateLock(election, func(now *ownLock) { forgetNode(now, own) })
			return nil, "", true, nil
		}
		return ops, sealedNode, false, nil
	case next.MovedTo != "":
		return []any{&zk.CreateRequest{Path: path, Data: text, Acl: b.acl}}, own.node, false, nil
	case b.layout.kind == Node:
		// The record names our node by its czxid, which is known when it is there. So
		// this takes two steps; between them the record says that the election has
		// moved, and nobody else has the path.
		h := next.Holder
		request, _ := b.newLockNode(backend.Bid{Election: election, Candidate: h.candidate()})
		_, failed, err := s.write(ctx,
			&zk.CheckVersionRequest{Path: b.layout.sessionPath(h.Session), Version: -1},
			&zk.CheckVersionRequest{Path: b.layout.recordPath(election), Version: version},
			&zk.DeleteRequest{Path: path, Version: seal.version}, request)
		if err != nil && failed < 0 {
			return nil, "", false, err
		}
		if failed == 0 {
			s.noteRecordLost(own.session)
		}
		return nil, "", true, nil
	}
	ops = append(ops, &zk.DeleteRequest{Path: path, Version: r.stat.Version})
	// Who is not among them now comes behind our node, which is there.
	q, err := s.cache.readPlain(ctx, childNames, lock)
	if err != nil {
		return nil, "", false, err
	}
	for _, name := range q.children {
		if name != sealChild && !b.layout.isOurs(name) && b.layout.before(name, own.node) {
			ops = append(ops, &zk.DeleteRequest{Path: lock + "/" + name, Version: -1})
		}
	}
	return ops, own.node, false, nil
}
