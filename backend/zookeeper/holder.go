package zookeeper

import (
	"context"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// seeHolder looks at whom the record names as the holder. decided: that is all
// there is to see. If not, alone is for how long it may believe to lead.
func (b *Backend) readHolder(ctx context.Context, s *session, mode readMode, get func(kind, string) (reading, error), snap *snapshot) (alone time.Duration, decided bool, err error) {
	rec, l := snap.record, &snap.lease
	h := rec.Holder
	if i := slices.IndexFunc(snap.queue.names, func(name string) bool { return b.layout.isHoldersNode(h, name) }); i >= 0 {
		snap.holderNode = snap.queue.names[i]
	}
	there, path := snap.holderNode != "", b.layout.sessionPath(h.Session)
	// The session's node changes at each renewal, which is read of when it is asked
	// for. If the lock node is gone it tells whether the holder lives.
	own := storedSession{record: &sessionRecord{}}
	if !there {
		own, err = newStoredSession(get(uniqueData, path))
	} else if mode.sessions != nil {
		own, err = mode.sessions.get(path, func() (reading, error) {
			if err := mode.waitForSync(); err != nil {
				return reading{}, err
			}
			id, _ := s.idAndEpoch()
			sent := time.Now()
			r, err := s.cache.readPlain(ctx, uniqueData, path)
			if err == nil {
				s.noteAnswer(id, sent, byServer)
			}
			return r, err
		})
	}
	if err != nil {
		return 0, false, err
	}
	if there || !own.missing {
		l.Holder, l.TTL, l.Renew, l.Ref = h.candidate(), time.Duration(h.TTL), time.Duration(h.Renew), h.Node
		if there {
			l.Ref = snap.holderNode
		}
		renewed, made := own.record.groupOf(h.Grant), own.stat.Czxid
		if renewed == nil && own.record.Nonce != h.Nonce {
			made = own.stat.Mzxid // somebody has written over it, and earlier heartbeats must not come back
		}
		if l.Heartbeat = renewed.leaseHeartbeat(rec.Heartbeat, made, rec.Election); renewed != nil {
			l.TTL, l.Renew, l.Age = max(time.Duration(renewed.TTL), 1), time.Duration(renewed.Renew), s.age(own.stat.Mtime)
		}
	}
	// Never shorter than the holder may trust any renewal so far.
	watch := max(time.Duration(h.TTL), l.TTL, time.Duration(own.record.Most))
	id, _ := s.idAndEpoch()
	switch {
	case there && h.Nonce == b.owner.Nonce() && h.Session == sessionName(id):
		return 0, true, nil // a leftover: free for us
	case there && (own.missing || b.layout.kind == Node || h.Nonce == b.owner.Nonce()):
		// There is nothing to watch, as somebody has deleted it; or nothing that could
		// be deleted with certainty that it is the holder's; or it is our own, of an
		// earlier session. The ensemble will.
		l.ObserveFor = backend.ExpiresInStore
		return 0, true, nil
	case there:
		l.ObserveFor, snap.sessionVersion = watch, own.stat.Version
		return 0, true, nil
	case !own.missing && h.Nonce == b.owner.Nonce():
		return 0, false, nil // somebody has deleted our node; we are not to wait for ourselves
	case !own.missing: // somebody has deleted its node, or it needs none
		snap.sessionVersion, snap.checkSession = own.stat.Version, snap.fixedPathSealed(b)
		return watch, false, nil
	case snap.fixedPathSealed(b): // then the session's node is all that tells of it, and somebody may have deleted that
		return watch, false, nil
	}
	// The ensemble has ended its session, and the leadership with it. But when it did is not
	// for sessions to tell: its holder may have closed it, servers that were started anew
	// with a smaller maxSessionTimeout end it early, and somebody may have deleted its
	// nodes. So it is watched for as long as the holder may trust it, at a fixed path
	// excepted, where nobody can watch before.
	l.Heartbeat = mix(rec.Heartbeat, "over")
	l.End, l.LastID, l.LastNonce = backend.Failed, h.ID, h.Nonce
	if b.layout.kind == Node || h.Nonce == b.owner.Nonce() {
		return 0, false, nil
	}
	return watch, false, nil
}
