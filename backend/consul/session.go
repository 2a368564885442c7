package consul

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// minSessionTTL is the least session TTL that Consul's servers allow by default.
const minSessionTTL = 10 * time.Second

// sessionTTLs is the session's TTL in TTLs of its leases. It does not affect when a lease is taken:
// the end of the session only clears away what a dead process has left. The session is renewed
// when half its TTL has passed.
const sessionTTLs = 12

// A session is this Backend's one session in Consul. No lease depends on how long it lives; each
// renewal requires that it still lives.
type session struct {
	createMutex chan struct{} // held while a session is made

	mu      sync.Mutex
	id      string // empty: none
	ttl     time.Duration
	renewed time.Time // when the last renewal was sent, by the monotonic clock
}

func (s *session) get() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// due reports whether 1/part of the TTL has passed since the last renewal.
func (s *session) due(part time.Duration) (id string, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.id != "" && time.Since(s.renewed) >= s.ttl/part
}

func (s *session) set(id string, ttl time.Duration, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.ttl, s.renewed = id, ttl, at
}

func (s *session) recordRenewal(id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == id {
		s.renewed = at
	}
}

// forgetSession forgets a session that has ended. Its leases are lost.
func (b *Backend) forgetSession(id string) {
	b.session.mu.Lock()
	defer b.session.mu.Unlock()
	if b.session.id == id {
		b.session.id = ""
	}
}

// openSession returns the session. If there is none, it makes one with its heartbeat key.
func (b *Backend) openSession(ctx context.Context, candidate backend.Candidate, ttl time.Duration) (string, error) {
	select {
	case b.session.createMutex <- struct{}{}:
		defer func() { <-b.session.createMutex }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if id := b.session.get(); id != "" {
		return id, nil
	}
	entry := &api.SessionEntry{
		Name: "election " + candidate.ID, Behavior: api.SessionBehaviorRelease, TTL: max(minSessionTTL, sessionTTLs*ttl).String(),
		LockDelay: max(ttl, time.Millisecond),
	}
	sent := time.Now()
	id, err := b.agent.CreateSession(ctx, entry)
	if err != nil {
		return "", err
	}
	first := lease.Session{ID: candidate.ID, Nonce: string(candidate.Nonce), Heartbeat: lease.NewHeartbeat(), At: sent.UTC().Round(0)}
	ok, answer, err := b.agent.Txn(ctx, api.KVTxnOps{
		{Verb: api.KVCheckNotExists, Key: b.keys.heartbeat + id}, // a late repetition must not restore an old heartbeat
		{Verb: api.KVLock, Key: b.keys.heartbeat + id, Session: id, Value: encode(first)},
	})
	if err == nil && !ok {
		err = Refusal(answer)
	}
	if err != nil {
		return "", err // that session is never used, and expires
	}
	b.heartbeats.start(first, answer.Results)
	b.session.set(id, max(minSessionTTL, sessionTTLs*ttl), sent)
	return id, nil
}

// renewSessionIfDue renews the session if 1/part of its TTL has passed.
func (b *Backend) renewSessionIfDue(ctx context.Context, part time.Duration) error {
	id, due := b.session.due(part)
	if !due {
		return nil
	}
	return b.renewSession(ctx, id)
}

// renewSession renews a session. If it has ended, it is forgotten, and that is no error.
func (b *Backend) renewSession(ctx context.Context, id string) error {
	sent := time.Now()
	entry, _, err := b.agent.Client.Session().Renew(id, write(ctx))
	switch {
	case err != nil:
		return err
	case entry == nil: // status 404
		b.forgetSession(id)
	default:
		b.session.recordRenewal(id, sent)
	}
	return nil
}

// destroyIdleSession destroys the session and its heartbeat key if this process holds nothing.
func (b *Backend) destroyIdleSession(ctx context.Context) {
	id := b.session.get()
	if id == "" || !b.heartbeats.empty() {
		return
	}
	b.agent.Txn(ctx, api.KVTxnOps{
		{Verb: api.KVCheckSession, Key: b.keys.heartbeat + id, Session: id},
		{Verb: api.KVDelete, Key: b.keys.heartbeat + id},
	})
	b.agent.Client.Session().Destroy(id, write(ctx))
}
