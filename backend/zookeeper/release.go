package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// Release ends leases: one transaction marks the record and deletes the node. What
// stands in a queue is withdrawn.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.admit(""); err != nil {
		return err
	}
	var ours []backend.Held
	b.mu.Lock()
	for _, l := range held {
		if b.locks[l.Election] != nil {
			ours = append(ours, l)
		}
	}
	b.mu.Unlock()
	if len(ours) == 0 {
		// A nonce has one Backend, so nobody else can have asked for anything. If there
		// is no session either the servers need not be asked whether they are there.
		b.mu.Lock()
		s := b.session
		b.mu.Unlock()
		if s == nil {
			return nil
		}
		return b.wrap("release", b.withSession(ctx, func(s *session) error { return s.sync(ctx) }))
	}
	s, err := b.currentSession(ctx, 0)
	if err != nil {
		return b.wrap("release", err)
	}
	errs := make([]error, len(ours))
	inParallel(len(ours), func(i int) {
		if err := b.release(ctx, s, ours[i]); err != nil {
			errs[i] = b.wrap(fmt.Sprintf("release %.80q", ours[i].Election), err)
		}
	})
	var failed error
	for _, err := range errs {
		if err != nil {
			failed = err
		}
	}
	return failed
}

func (b *Backend) release(ctx context.Context, s *session, l backend.Held) error {
	if l.Term == 0 {
		if err := b.resolveLock(ctx, s, l.Election); err != nil {
			return err
		}
	}
	path := b.layout.recordPath(l.Election)
	// Most often all is as it was at the last renewal: then this is all.
	if own := b.lockOf(l.Election); own.node != "" && own.record.heldBy(b.owner.Nonce(), l.Term) && own.term == own.record.Term && b.layout.kind != Node {
		next := own.record.clone()
		next.endLeadership(l.End, s.now(), l.Lapsed())
		next.Heartbeat = newHeartbeat()
		_, failed, err := s.write(ctx,
			&zk.SetDataRequest{Path: path, Data: next.encode(), Version: own.recordVersion},
			&zk.DeleteRequest{Path: b.layout.nodePath(l.Election, own.node), Version: -1})
		if err == nil {
			b.updateLock(l.Election, func(now *ownLock) { forgetNode(now, own) })
			return nil
		}
		if failed < 0 {
			return err
		}
	}
	for range 8 {
		r, err := s.cache.readPlain(ctx, nodeData, path)
		if err != nil {
			return err
		}
		rec, bad := parseRecord(r.data, l.Election)
		own := b.lockOf(l.Election)
		held := !r.missing && bad == nil && rec.heldBy(b.owner.Nonce(), l.Term)
		if held && rec.Unconfirmed != "" {
			now, err := b.readDeletions(ctx, s)
			if err != nil {
				return err
			}
			held = now.String() == rec.Unconfirmed // else it grants nothing
		}
		if !held {
			// Nothing is recorded as ours, in this term. A node may be there.
			if own.node != "" && (l.Term == 0 || own.term == l.Term) {
				return b.deleteLockNode(ctx, s, l.Election, own)
			}
			return nil
		}
		h := rec.Holder
		next := rec.clone()
		next.endLeadership(l.End, s.now(), l.Lapsed())
		next.Heartbeat, next.Unconfirmed = newHeartbeat(), ""
		node, version, err := b.holderNode(ctx, s, l.Election, h)
		if err != nil {
			return err
		}
		ops := []any{&zk.SetDataRequest{Path: path, Data: next.encode(), Version: r.stat.Version}}
		if node != "" {
			ops = append(ops, b.deleteOps(l.Election, node, h.Session, version)...)
		}
		_, failed, err := s.write(ctx, ops...)
		switch {
		case b.layout.kind == Node && failed == 1 && errors.Is(err, zk.ErrNoNode): // our session's own
			if id, _ := s.idAndEpoch(); sessionName(id) == h.Session {
				if err := b.restoreSessionRecord(ctx, s, id); err != nil {
					return err
				}
			}
			continue
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
			continue // a request was written, or a node changed
		case err != nil:
			return err
		}
		if own.node != "" && (b.layout.isHoldersNode(h, own.node) || h.Node == sealedNode) {
			b.updateLock(l.Election, func(now *ownLock) { forgetNode(now, own) })
		} else if own.node != "" && l.Term == 0 {
			return b.deleteLockNode(ctx, s, l.Election, own)
		}
		return nil
	}
	return fmt.Errorf("%w: the election changes too quickly", backend.ErrUnavailable)
}

// nodeOf returns the name of the node that a holder was granted with, "" if it is
// gone, and its version as of now.
func (b *Backend) holderNode(ctx context.Context, s *session, election string, h *holder) (string, int32, error) {
	if b.layout.kind == Node {
		version, there, err := b.lockNodeVersion(ctx, s, election, h.Node, h.Session)
		if err != nil || !there {
			return "", 0, err
		}
		return h.Node, version, nil
	}
	lock := b.layout.lockPath(election)
	r, err := s.cache.readPlain(ctx, childNames, lock)
	if err != nil {
		return "", 0, err
	}
	for _, name := range r.children {
		if !b.layout.isHoldersNode(h, name) {
			continue
		}
		node, err := s.cache.readPlain(ctx, uniqueData, lock+"/"+name)
		if err != nil || node.missing || sessionName(node.stat.EphemeralOwner) != h.Session {
			return "", 0, err
		}
		return name, -1, nil
	}
	return "", 0, nil
}
