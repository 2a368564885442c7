package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// Mark writes the marks into records, and makes or deletes the seals that keep members of
// other programs from leading. One transaction for each lease does both. As a renewal does,
// it checks that our node and our session record exist and that the record is as it was
// granted. It changes the record, so a takeover that has observed the earlier state is
// refused.
//
// When a seal is broken, the first node in the queue leads. So the transaction also deletes
// the nodes of other programs that came before ours and have waited behind the seal. None
// of them leads; Curator's members queue again, behind ours.
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
		ensemble.InParallel(len(held), func(i int) {
			answers[i], errs[i] = b.markLease(ctx, s, id, held[i])
			if errs[i] != nil {
				answers[i] = backend.Answer{Err: b.wrap(fmt.Sprintf("mark %.80q", held[i].Election), errs[i])}
			}
		})
		b.fillValidFor(ctx, "mark", s, id, start, answers)
		return nil
	}); err != nil {
		return answers, b.wrap("mark", err)
	}
	if !slices.Contains(errs, nil) { // there is no outcome for any lease
		return answers, answers[0].Err
	}
	return answers, nil
}

// markLease is Mark for one lease. An error leaves the outcome unknown.
func (b *Backend) markLease(ctx context.Context, s *session, id int64, l backend.Held) (backend.Answer, error) {
	for range 8 {
		own := b.lockOf(l.Election)
		r, err := s.ReadNode(ctx, ensemble.Data, b.layout.recordPath(l.Election))
		if err != nil {
			return backend.Answer{}, err
		}
		rec, bad := parseRecord(r.Data, l.Election)
		ours := own.term != 0 && own.term == l.Term && own.session == id && own.node != "" && own.sessionCzxid == s.recordCzxidOf(id) &&
			!r.Missing && bad == nil && rec.namesGrant(l, id, own.grant) && b.layout.isHoldersNode(rec.Holder, own.node)
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
			&zk.SetDataRequest{Path: b.layout.recordPath(l.Election), Data: next.encode(), Version: r.Stat.Version},
		}
		more, node, again, err := b.sealOps(ctx, s, own, next, r.Stat.Version)
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
		case failed == 0 && errors.Is(err, zk.ErrNoNode): // see renewBatch
			s.noteRecordLost(id)
		case failed < 0 || !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNodeExists):
			return backend.Answer{}, err
		case failed == 1: // our node is gone
			b.updateLock(l.Election, func(now *ownLock) { forgetNode(now, own) })
		}
	}
	return backend.Answer{}, fmt.Errorf("%w: the election changes too quickly", backend.ErrUnavailable)
}

// finishMark notes a successful mark, and returns its answer.
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
	l.Holder, l.TTL, l.Renew = r.Holder.candidate(), time.Duration(r.Holder.TTL), time.Duration(r.Holder.Renew)
	if l.Version = version(g.leaseHeartbeat(r.Heartbeat, own.sessionCzxid, r.Election), node); g != nil {
		l.TTL, l.Renew = time.Duration(g.TTL), time.Duration(g.Renew)
	}
	return backend.Answer{Lease: l, Outcome: backend.Granted}, nil
}

// sealOps returns the writes that seal or unseal the lock of an election as its next record
// says, and the name of our node after them. version is the present record's. again means
// that a preparing step was made, and everything must be read again.
func (b *Backend) sealOps(ctx context.Context, s *session, own ownLock, next *record, version int32) (ops []any, node string, again bool, err error) {
	election, lock, path := next.Election, b.layout.lockPath(next.Election), b.layout.sealPath(next.Election)
	r, err := s.ReadNode(ctx, ensemble.Unique, path)
	if err != nil {
		return nil, "", false, err
	}
	seal, sealed := readSeal(r)
	if b.layout.kind != Node {
		sealed = !r.Missing // the name tells, whatever its data
	}
	text := []byte(sealText + next.MovedTo)
	switch {
	case next.MovedTo == "" && !sealed && own.node == sealedNode:
		if r.Missing || r.Stat.EphemeralOwner != own.session {
			b.updateLock(election, func(now *ownLock) { forgetNode(now, own) }) // an operator has broken the seal
			return nil, "", true, nil
		}
		return nil, nodeName(r), false, nil // created below
	case next.MovedTo == "" && !sealed:
		return nil, own.node, false, nil
	case next.MovedTo != "" && sealed:
		return []any{&zk.SetDataRequest{Path: path, Data: text, Version: r.Stat.Version}}, own.node, false, nil
	case next.MovedTo != "" && b.layout.kind == Node: // in place of our node
		ops = append(ops, &zk.DeleteRequest{Path: path, Version: r.Stat.Version}, &zk.CreateRequest{Path: path, Data: text, Acl: b.access.ACL})
		if r.Missing || nodeName(r) != own.node {
			b.updateLock(election, func(now *ownLock) { forgetNode(now, own) })
			return nil, "", true, nil
		}
		return ops, sealedNode, false, nil
	case next.MovedTo != "":
		return []any{&zk.CreateRequest{Path: path, Data: text, Acl: b.access.ACL}}, own.node, false, nil
	case b.layout.kind == Node:
		// The record names our node by its czxid, which is known only when the node exists.
		// So this takes two steps. Between them the record says that the election has
		// moved, and the path is ours.
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
	ops = append(ops, &zk.DeleteRequest{Path: path, Version: r.Stat.Version})
	// Any node that is not among them comes behind ours, which exists.
	q, err := s.ReadNode(ctx, ensemble.Children, lock)
	if err != nil {
		return nil, "", false, err
	}
	for _, name := range q.Children {
		if name != sealChild && !b.layout.isOurs(name) && b.layout.before(name, own.node) {
			ops = append(ops, &zk.DeleteRequest{Path: lock + "/" + name, Version: -1})
		}
	}
	return ops, own.node, false, nil
}
