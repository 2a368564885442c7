package etcd

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A session is one key, into which this process writes the heartbeats of all leases that it
// holds. Its name is random and never used again. When the key is deleted, or has a value
// that this process did not write, the session is abandoned, and its leases continue under
// another one: docs/design/etcd.md, "A lost session key".
type session struct {
	name string

	// The following fields are guarded by Backend.mu.
	revision       int64 // of its key; 0: the key was not created yet
	createRevision int64 // of its key
	restoredAt     int64 // Backend.restoredAt when the session began
	last           lease.Session
	unconfirmed    map[string]bool // values that were sent since, without an answer
	requestsSeen   int64           // all requests up to this revision were read
}

// lockSession waits for the exclusive right to write the session key.
func (b *Backend) lockSession(ctx context.Context) (unlock func(), err error) {
	select {
	case b.sessionMutex <- struct{}{}:
		return func() { <-b.sessionMutex }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// currentSession returns the session if its key was created, or nil.
func (b *Backend) currentSession() *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.session; s != nil && s.revision != 0 {
		return s
	}
	return nil
}

// removeIfDeleted drops the session and returns nil if a snapshot shows that its key was
// deleted. Otherwise it returns the session.
func (b *Backend) removeIfDeleted(s *session, v *snapshot) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s == nil || v.sessions[s.name] != nil || v.revision < s.revision && v.restoredAt == s.restoredAt { // in the last case it was created since
		return s
	}
	if b.session == s {
		b.session = nil
	}
	return nil
}

// newSession returns a session that has no key yet. The caller holds the session mutex and
// writes the key. If the answer is lost, the session is never used.
func (b *Backend) newSession(holder backend.Candidate) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session = &session{name: string(backend.NewNonce()[:16]), restoredAt: b.restoredAt, last: lease.Session{ID: holder.ID, Nonce: string(holder.Nonce), Heartbeat: lease.NewHeartbeat(), At: time.Now().UTC()}}
	return b.session
}

// sessionOps returns the conditions and operations with which a grant requires the session
// key, or creates it, and reads it last.
func (b *Backend) sessionOps(ctx context.Context, s *session, ttl time.Duration) (when []clientv3.Cmp, then []clientv3.Op, err error) {
	key := b.keys.heartbeat(s.name)
	b.mu.Lock()
	exists, first := s.revision != 0, s.last
	b.mu.Unlock()
	if exists {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)}, []clientv3.Op{clientv3.OpGet(key)}, nil
	}
	id, err := b.etcdLease(ctx, ttl)
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, encode(first), clientv3.WithLease(id)), clientv3.OpGet(key)}, err
}

// noteSessionKey notes the revisions of the session key that a grant has created or found.
func (b *Backend) noteSessionKey(s *session, record *sessionRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.revision == 0 {
		s.revision, s.createRevision = record.revision, record.createRevision
	}
}

// A renewal is one renewal of the session: what it writes, and what it requires.
type renewal struct {
	next           lease.Session
	value          string // next, encoded
	revision       int64  // of the session key, required
	createRevision int64  // of the session key
	requestsSeen   int64  // there must be no later requests
}

// newRenewal prepares a renewal of some elections. Others keep their heartbeats if they
// may be held under this session.
func (b *Backend) newRenewal(s *session, names []string) renewal {
	renewed := make(map[string]bool, len(names))
	for _, name := range names {
		renewed[name] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var others []string
	for name, h := range b.held {
		if inOtherSession := h != nil && h.session != nil && h.session != s && h.unconfirmed == nil; !renewed[name] && !inOtherSession {
			others = append(others, name)
		}
	}
	r := renewal{next: s.last.Renew(names, others, time.Now()), revision: s.revision, createRevision: s.createRevision, requestsSeen: s.requestsSeen}
	r.value = encode(r.next)
	if s.unconfirmed == nil {
		s.unconfirmed = make(map[string]bool)
	}
	s.unconfirmed[r.value] = true
	return r
}

// abandonSession stops using a session.
func (b *Backend) abandonSession(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == s {
		b.session = nil
	}
}

// noteRenewal notes the session key as a renewal has found or left it at a revision; kv
// nil: it was deleted. It reports whether the key has the value of this renewal.
func (b *Backend) noteRenewal(s *session, r *renewal, succeeded bool, at int64, kv *mvccpb.KeyValue) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case succeeded:
		s.last, s.revision, s.unconfirmed = r.next, at, nil
		return true
	case kv != nil && kv.ModRevision == r.revision: // there were new requests, which were read
		s.requestsSeen = at
		return false
	case kv == nil:
	case string(kv.Value) == r.value: // a copy of the transaction came first
		s.last, s.revision, s.unconfirmed = r.next, kv.ModRevision, nil
		return true
	case s.unconfirmed[string(kv.Value)]: // an earlier renewal whose answer was lost: it is not trusted
		s.last, s.revision, s.unconfirmed = readHeartbeats(kv.Value), kv.ModRevision, nil
		return false
	}
	if b.session == s {
		b.session = nil
	}
	return false
}
