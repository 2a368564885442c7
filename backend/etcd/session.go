package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// A session is one key, into which all that this process holds is renewed. Its name is
// drawn for it and never used again. When its key is lost, to etcd or to somebody's
// hand, or holds what we have not written, so is the session, and what hung on it
// moves to another one.
type session struct {
	name string

	// Guarded by Backend.mu.
	revision       int64 // the revision of its key; 0: there is none yet
	createRevision int64 // … at which that was made
	restoredBefore int64 // Backend.restored at that time
	last           heartbeats
	unconfirmed    map[string]bool // what was written since and not confirmed
	requestsSeen   int64           // up to that revision all requests have been seen
}

var errLeaseEnded = fmt.Errorf("%w: the etcd lease has run out or was revoked", backend.ErrUnavailable)

// take waits for the turn to write the session's key.
func (b *Backend) lockSession(ctx context.Context) (give func(), err error) {
	select {
	case b.sessionMutex <- struct{}{}:
		return func() { <-b.sessionMutex }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// present returns the session if its key was made, or nil.
func (b *Backend) currentSession() *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.session; s != nil && s.revision != 0 {
		return s
	}
	return nil
}

// gone drops the session if a reading shows that its key is not there any more, and
// returns what is left.
func (b *Backend) removeIfDeleted(s *session, v *snapshot) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s == nil || v.sessions[s.name] != nil || v.revision < s.revision && v.restoredAt == s.restoredBefore { // then it was made since
		return s
	}
	if b.session == s {
		b.session = nil
	}
	return nil
}

// fresh returns a session that has no key yet. Whoever calls it has the turn, and
// writes the key. One whose answer did not come is never used.
func (b *Backend) newSession(who backend.Candidate) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session = &session{name: backend.NewNonce()[:16], restoredBefore: b.restoredAt, last: heartbeats{ID: who.ID, Nonce: who.Nonce, Heartbeat: heartbeat(newHeartbeat()), At: time.Now().UTC()}}
	return b.session
}

// beside returns what goes into a transaction that grants leases under a session: its
// key must be there, or is made, and is read last.
func (b *Backend) sessionOps(ctx context.Context, s *session, ttl time.Duration) (when []clientv3.Cmp, then []clientv3.Op, err error) {
	key := b.keys.heartbeat(s.name)
	b.mu.Lock()
	made, first := s.revision != 0, s.last
	b.mu.Unlock()
	if made {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)}, []clientv3.Op{clientv3.OpGet(key)}, nil
	}
	id, err := b.etcdLease(ctx, ttl)
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(key, encode(first), clientv3.WithLease(id)), clientv3.OpGet(key)}, err
}

// began notes the session's key, which a grant has made or found.
func (b *Backend) noteSessionKey(s *session, h *sessionRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.revision == 0 {
		s.revision, s.createRevision = h.revision, h.createRevision
	}
}

// A pulse is one renewal of the session: what it writes, and what it is pinned to.
type renewal struct {
	next           heartbeats
	value          string
	revision       int64 // of the session's key, until then
	createRevision int64 // … when that was made
	requestsSeen   int64
}

func (b *Backend) newRenewal(s *session, names []string) renewal {
	renewed := make(map[string]bool, len(names))
	for _, name := range names {
		renewed[name] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var others []string
	for name, h := range b.held {
		if elsewhere := h != nil && h.session != nil && h.session != s && h.unconfirmed == nil; !renewed[name] && !elsewhere {
			others = append(others, name)
		}
	}
	p := renewal{next: s.last.renew(names, others, time.Now().UTC().Round(0)), revision: s.revision, createRevision: s.createRevision, requestsSeen: s.requestsSeen}
	p.value = encode(p.next)
	if s.unconfirmed == nil {
		s.unconfirmed = make(map[string]bool)
	}
	s.unconfirmed[p.value] = true
	return p
}

// leave ends the use of a session.
func (b *Backend) abandonSession(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == s {
		b.session = nil
	}
}

// wrote notes what the session's key is after a pulse, at a revision; kv nil: it is
// gone. It reports whether that is what the pulse was to write.
func (b *Backend) noteRenewal(s *session, p *renewal, done bool, at int64, kv *mvccpb.KeyValue) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case done:
		s.last, s.revision, s.unconfirmed = p.next, at, nil
		return true
	case kv != nil && kv.ModRevision == p.revision: // there are requests, which were read
		s.requestsSeen = at
		return false
	case kv == nil:
	case string(kv.Value) == p.value: // a copy of the request came first
		s.last, s.revision, s.unconfirmed = p.next, kv.ModRevision, nil
		return true
	case s.unconfirmed[string(kv.Value)]: // a renewal whose answer was lost: nobody trusts it
		s.last, s.revision, s.unconfirmed = readHeartbeats(kv.Value), kv.ModRevision, nil
		return false
	}
	if b.session == s {
		b.session = nil
	}
	return false
}

// lasts is how many TTLs an etcd lease lasts. What hangs on it, the session's key and
// the member's record, is cleared away by it, and nothing else rests on it. It is kept
// alive at every eighth announcement.
const leaseTTLs = 24

// lease returns the etcd lease of this process, and makes one if there is none.
func (b *Backend) etcdLease(ctx context.Context, ttl time.Duration) (clientv3.LeaseID, error) {
	select { // one at a time
	case b.leaseMutex <- struct{}{}:
		defer func() { <-b.leaseMutex }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	b.mu.Lock()
	id := b.leaseID
	b.mu.Unlock()
	if id != 0 {
		return id, nil
	}
	sent := time.Now()
	var resp *clientv3.LeaseGrantResponse
	err := b.call(ctx, func() (err error) {
		resp, err = hedged(ctx, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) { // one whose answer is lost runs out
			return b.client.Grant(ctx, int64((leaseTTLs*ttl+time.Second-1)/time.Second))
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaseID, b.keptAlive = resp.ID, sent
	return resp.ID, nil
}

// ended forgets an etcd lease.
func (b *Backend) forgetEtcdLease(id clientv3.LeaseID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leaseID == id {
		b.leaseID = 0
	}
}

// keep keeps the etcd lease alive if it is time for that. It goes three times in the
// life of a lease, or twice and a bit.
func (b *Backend) keepAlive(ctx context.Context, ttl time.Duration) error {
	b.mu.Lock()
	id, kept := b.leaseID, b.keptAlive
	b.mu.Unlock()
	if id == 0 || time.Since(kept) < ttl*15/2 {
		return nil
	}
	sent := time.Now()
	err := b.call(ctx, func() error {
		_, err := hedged(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.keepAliveOnce(ctx, id) })
		return err
	})
	switch {
	case errors.Is(err, errLeaseEnded):
		b.forgetEtcdLease(id)
		return nil
	case err != nil:
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keptAlive = sent
	return nil
}

// keepOnce does what the client's method of that name does, without repeating it in
// failover delay.
func (b *Backend) keepAliveOnce(ctx context.Context, id clientv3.LeaseID) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewLeaseClient(b.client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return rpctypes.Error(err)
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil && !errors.Is(err, io.EOF) { // then Recv says why
		return rpctypes.Error(err)
	}
	resp, err := stream.Recv()
	switch {
	case err != nil:
		return rpctypes.Error(err)
	case resp.TTL <= 0:
		return errLeaseEnded
	}
	return nil
}
