package curator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
)

// readHolder reads the holder that the record names. If its node exists, the lease in the
// snapshot is complete afterwards. Otherwise a challenger must observe for observeFor.
func (b *Backend) readHolder(ctx context.Context, s *session, mode readMode, get readFunc, snap *snapshot) (observeFor time.Duration, err error) {
	h := snap.record.Holder
	if i := slices.IndexFunc(snap.queue.names, func(name string) bool { return b.layout.isHoldersNode(h, name) }); i >= 0 {
		snap.holderNode = snap.queue.names[i]
	}
	stored, err := b.readHolderSession(ctx, s, mode, get, snap)
	if err != nil {
		return 0, err
	}
	if snap.holderPresent() || !stored.Missing {
		snap.showHolder(s, stored)
	}
	// Never shorter than the holder may trust any of its renewals.
	observeFor = max(time.Duration(h.TTL), snap.lease.TTL, time.Duration(stored.record.Most))
	if snap.holderPresent() {
		b.observePresentHolder(s, snap, stored, observeFor)
		return 0, nil
	}
	return b.observeAbsentHolder(snap, stored, observeFor), nil
}

// readHolderSession reads the holder's session record. It changes at each renewal, so it
// is read without a watch, and only when the mode asks for it. If the lock node is gone it
// tells whether the holder's session exists, and is watched.
func (b *Backend) readHolderSession(ctx context.Context, s *session, mode readMode, get readFunc, snap *snapshot) (storedSession, error) {
	path := b.layout.sessionPath(snap.record.Holder.Session)
	if !snap.holderPresent() {
		return newStoredSession(get(ensemble.Unique, path))
	}
	if mode.sessions == nil {
		return storedSession{record: &sessionRecord{}}, nil
	}
	return mode.sessions.get(path, func() (ensemble.Node, error) {
		if err := mode.waitForSync(); err != nil {
			return ensemble.Node{}, err
		}
		id, sent := s.id(), time.Now()
		r, err := s.ReadNode(ctx, ensemble.Unique, path)
		if err == nil {
			s.noteAnswer(id, sent, byServer)
		}
		return r, err
	})
}

// showHolder fills in the holder and its last renewal.
func (snap *snapshot) showHolder(s *session, stored storedSession) {
	rec, h, l := snap.record, snap.record.Holder, &snap.lease
	l.Holder, l.TTL, l.Renew, snap.ref = h.candidate(), time.Duration(h.TTL), time.Duration(h.Renew), cmp.Or(snap.holderNode, h.Node)
	renewed, czxid := stored.record.groupOf(h.Grant), stored.Stat.Czxid
	if renewed == nil && stored.record.Nonce != h.Nonce {
		czxid = stored.Stat.Mzxid // edited by an operator: earlier heartbeats must not come back
	}
	if snap.heartbeat = renewed.leaseHeartbeat(rec.Heartbeat, czxid, rec.Election); renewed != nil {
		l.TTL, l.Renew, l.Age = max(time.Duration(renewed.TTL), 1), time.Duration(renewed.Renew), s.age(stored.Stat.Mtime)
	}
}

// observePresentHolder fills in how long a challenger must observe a lease whose node
// exists.
func (b *Backend) observePresentHolder(s *session, snap *snapshot, stored storedSession, observeFor time.Duration) {
	h := snap.record.Holder
	switch {
	case h.Nonce == string(b.owner.Nonce()) && h.Session == sessionName(s.id()):
		// A leftover of our own, which is free for us.
	case stored.Missing || b.layout.kind == Node || h.Nonce == string(b.owner.Nonce()):
		// An operator has deleted the session record that a challenger would observe; or a
		// challenger could not be certain whose node it deletes; or the node is our own, of
		// an earlier session. The ensemble decides.
		snap.lease.ObserveFor = backend.ExpiresInStore
	default:
		snap.lease.ObserveFor, snap.sessionVersion = observeFor, stored.Stat.Version
	}
}

// observeAbsentHolder returns how long a challenger must observe a lease whose node does
// not exist.
func (b *Backend) observeAbsentHolder(snap *snapshot, stored storedSession, observeFor time.Duration) time.Duration {
	h, ours := snap.record.Holder, snap.record.Holder.Nonce == string(b.owner.Nonce())
	switch {
	case !stored.Missing && ours: // an operator has deleted our node: we need not wait for ourselves
		return 0
	case !stored.Missing: // an operator has deleted its node, or it needs none
		snap.sessionVersion, snap.checkSession = stored.Stat.Version, snap.fixedPathSealed(b)
		return observeFor
	case snap.fixedPathSealed(b): // only the session record shows the holder, and an operator may have deleted it
		return observeFor
	}
	// The holder's session has ended, and its leadership with it. The end of the session
	// does not show that the holder has stopped trusting its lease. See
	// docs/design/curator.md, "The holder's node is gone".
	snap.heartbeat = mix(snap.record.Heartbeat, "over")
	snap.lease.End, snap.lease.LastID = backend.Failed, h.ID
	if b.layout.kind == Node || ours {
		return 0
	}
	return observeFor
}
