package curator

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// Release ends leases: one transaction marks the record and deletes the node. With Term 0 it
// also deletes a node of ours that waits in the queue.
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
		// A nonce has one Backend, so no other process can have requested anything for it.
		// Without a session there is no need to contact the servers either.
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
	ensemble.InParallel(len(ours), func(i int) {
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

// release ends one lease, or with Term 0 whatever we have in the election.
func (b *Backend) release(ctx context.Context, s *session, l backend.Held) error {
	if l.Term == 0 {
		if err := b.resolveLock(ctx, s, l.Election); err != nil {
			return err
		}
	}
	if done, err := b.releaseAsLastKnown(ctx, s, l); done || err != nil {
		return err
	}
	for range 8 {
		if done, err := b.releaseOnce(ctx, s, l); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: the election changes too quickly", backend.ErrUnavailable)
}

// releaseAsLastKnown releases a lease without reading it first. That succeeds if nothing
// has changed since the last renewal, which is the usual case.
func (b *Backend) releaseAsLastKnown(ctx context.Context, s *session, l backend.Held) (done bool, err error) {
	own := b.lockOf(l.Election)
	if own.node == "" || !own.record.heldBy(b.owner.Nonce(), l.Term) || own.term != own.record.Term || b.layout.kind == Node {
		return false, nil
	}
	next := own.record.clone()
	next.endLeadership(l.End, s.now(), l.ExpiredFor())
	next.Heartbeat = newHeartbeat()
	_, failed, err := s.write(ctx,
		&zk.SetDataRequest{Path: b.layout.recordPath(l.Election), Data: next.encode(), Version: own.recordVersion},
		&zk.DeleteRequest{Path: b.layout.nodePath(l.Election, own.node), Version: -1})
	if err == nil {
		b.updateLock(l.Election, func(now *ownLock) { forgetNode(now, own) })
		return true, nil
	}
	if failed < 0 {
		return false, err
	}
	return false, nil
}

// releaseOnce reads the record and releases the lease. done is false if something has
// changed meanwhile.
func (b *Backend) releaseOnce(ctx context.Context, s *session, l backend.Held) (done bool, err error) {
	path := b.layout.recordPath(l.Election)
	r, err := s.ReadNode(ctx, ensemble.Data, path)
	if err != nil {
		return false, err
	}
	rec, bad := parseRecord(r.Data, l.Election)
	own := b.lockOf(l.Election)
	held := !r.Missing && bad == nil && rec.heldBy(b.owner.Nonce(), l.Term)
	if held && rec.Unconfirmed != "" {
		now, err := b.readDeletions(ctx, s)
		if err != nil {
			return false, err
		}
		held = now.String() == rec.Unconfirmed // otherwise it grants nothing
	}
	if !held {
		// The record has no leadership of ours in this term. Our node may exist.
		if own.node != "" && (l.Term == 0 || own.term == l.Term) {
			return true, b.deleteLockNode(ctx, s, l.Election, own)
		}
		return true, nil
	}
	h := rec.Holder
	next := rec.clone()
	next.endLeadership(l.End, s.now(), l.ExpiredFor())
	next.Heartbeat, next.Unconfirmed = newHeartbeat(), ""
	node, version, err := b.holderNode(ctx, s, l.Election, h)
	if err != nil {
		return false, err
	}
	ops := []any{&zk.SetDataRequest{Path: path, Data: next.encode(), Version: r.Stat.Version}}
	if node != "" {
		ops = append(ops, b.deleteOps(l.Election, node, h.Session, version)...)
	}
	_, failed, err := s.write(ctx, ops...)
	switch {
	case b.layout.kind == Node && failed == 1 && errors.Is(err, zk.ErrNoNode): // our session record is gone
		if id := s.id(); sessionName(id) == h.Session {
			return false, b.restoreSessionRecord(ctx, s, id)
		}
		return false, nil
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return false, nil // a request was written, or a node has changed
	case err != nil:
		return false, err
	}
	if own.node != "" && (b.layout.isHoldersNode(h, own.node) || h.Node == sealedNode) {
		b.updateLock(l.Election, func(now *ownLock) { forgetNode(now, own) })
	} else if own.node != "" && l.Term == 0 {
		return true, b.deleteLockNode(ctx, s, l.Election, own)
	}
	return true, nil
}

// holderNode returns the name of a holder's node, "" if it is gone, and its present
// version.
func (b *Backend) holderNode(ctx context.Context, s *session, election string, h *holder) (string, int32, error) {
	if b.layout.kind == Node {
		version, there, err := b.lockNodeVersion(ctx, s, election, h.Node, h.Session)
		if err != nil || !there {
			return "", 0, err
		}
		return h.Node, version, nil
	}
	lock := b.layout.lockPath(election)
	r, err := s.ReadNode(ctx, ensemble.Children, lock)
	if err != nil {
		return "", 0, err
	}
	for _, name := range r.Children {
		if !b.layout.isHoldersNode(h, name) {
			continue
		}
		node, err := s.ReadNode(ctx, ensemble.Unique, lock+"/"+name)
		if err != nil || node.Missing || sessionName(node.Stat.EphemeralOwner) != h.Session {
			return "", 0, err
		}
		return name, -1, nil
	}
	return "", 0, nil
}
