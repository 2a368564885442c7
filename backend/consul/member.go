package consul

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A member is the value of a member's key.
type member struct {
	candidate
	Stage     string    `json:"stage,omitempty"`
	Elections string    `json:"elections,omitempty"`
	TTL       int64     `json:"ttl_us"`
	At        time.Time `json:"at"` // by the member's clock
}

// announced is the member's key as this process last wrote it.
type announced struct {
	mu              sync.Mutex
	value           member
	at              time.Time // zero: never
	piggybackedLast bool      // written with a renewal or a read
}

// piggyback returns an operation that announces this process again, if half its TTL has passed. A
// follower sends it with a read, and the leader of many leases with a renewal: that saves the
// request that it needs to look for manual edits.
func (a *announced) piggyback(prefix string, now time.Time) api.KVTxnOps {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || within(a.at, duration(a.value.TTL)/2) {
		return nil
	}
	value := a.value
	value.At = now.UTC().Round(0)
	return api.KVTxnOps{{Verb: api.KVSet, Key: prefix + value.Nonce, Value: encode(value)}}
}

// piggybacked notes that the operation was applied.
func (a *announced) piggybacked(sent time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.piggybackedLast = sent, true
}

// stopPiggyback stops it until the next announcement.
func (a *announced) stopPiggyback() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = time.Time{}
}

// needed reports whether value must be written, because it is new or was not sent with another
// request a moment ago. If so, it stops piggybacking until recordWrite.
func (a *announced) needed(value member) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	value.At = a.value.At
	if value == a.value && a.piggybackedLast && within(a.at, duration(value.TTL)*3/4) {
		return false
	}
	a.at = time.Time{}
	return true
}

func (a *announced) recordWrite(value member, sent time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.value, a.at, a.piggybackedLast = value, sent, false
}

// Announce implements [backend.Backend]. It writes the member's key, unless another request has
// just done so. It makes the session before the first bid, which makes a handover faster, and
// renews it when half its TTL has passed.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(ctx, "announce", m.Nonce); err != nil {
		return err
	}
	if err := b.writeMember(ctx, m); err != nil {
		return b.wrap("announce", err)
	}
	if ttl := min(m.TTL, maxTTL); b.session.get() == "" && ttl > 0 {
		if _, err := b.openSession(ctx, m.Candidate, ttl); err != nil {
			return b.wrap("announce", err)
		}
	}
	if err := b.renewSessionIfDue(ctx, 2); err != nil {
		return b.wrap("announce", err)
	}
	b.cleanUp(ctx, time.Now())
	return nil
}

// writeMember writes the member's key.
func (b *Backend) writeMember(ctx context.Context, m backend.Member) error {
	now := time.Now()
	value := member{
		candidate{m.ID, string(m.Nonce), m.Address, m.Metadata}, clean.Text(m.Stage, backend.MaxStage, false), m.Elections,
		int64(m.TTL / time.Microsecond), now.UTC().Round(0),
	}
	if b.announced.needed(value) {
		_, err := b.agent.Client.KV().Put(&api.KVPair{Key: b.keys.member + string(m.Nonce), Value: encode(value)}, write(ctx))
		if err != nil {
			return err
		}
		b.announced.recordWrite(value, now)
	}
	return nil
}

// cleanupEvery is how often a process deletes what others have left, and staleAfter how old that
// must be.
const (
	cleanupEvery = 6 * time.Hour
	staleAfter   = 24 * time.Hour
)

// cleanUp deletes keys of members and sessions that have been gone for a day. A member that was
// only cut off writes its key again. A heartbeat key is deleted only after its session has ended,
// and a lease that still names that session is watched anew.
func (b *Backend) cleanUp(ctx context.Context, now time.Time) {
	b.mu.Lock()
	due := now.Sub(b.lastCleanup) >= cleanupEvery
	if due {
		b.lastCleanup = now
	}
	b.mu.Unlock()
	if !due {
		return
	}
	for _, prefix := range []string{b.keys.member, b.keys.heartbeat} {
		pairs, _, err := b.listKeys(ctx, prefix)
		if err != nil {
			return // until the next time
		}
		for _, pair := range pairs {
			var at struct{ At time.Time }
			if decode(pair, &at) && now.Sub(at.At) > staleAfter && pair.Session == "" {
				if _, _, err := b.agent.Client.KV().DeleteCAS(pair, write(ctx)); err != nil {
					return
				}
			}
		}
	}
}

// Members implements [backend.Backend]. Ages are by the members' clocks and this process's clock.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, "members", ""); err != nil {
		return nil, err
	}
	pairs, _, err := b.listKeys(ctx, b.keys.member)
	if err != nil {
		return nil, b.wrap("members", err)
	}
	now := time.Now()
	var list []backend.Member
	for key, pair := range pairs {
		nonce := strings.TrimPrefix(key, b.keys.member)
		var v member
		if len(nonce) > 64 || !decode(pair, &v) || v.Nonce != nonce {
			continue
		}
		m := clean.Member(backend.Member{
			Candidate: backend.Candidate{ID: v.ID, Nonce: backend.Nonce(v.Nonce), Address: v.Address, Metadata: v.Metadata},
			Stage:     v.Stage, Elections: v.Elections, TTL: duration(v.TTL), Age: now.Sub(v.At),
		})
		if m.Age <= 2*m.TTL {
			list = append(list, m)
		}
	}
	return backend.Page(list, from, limit, func(m backend.Member) string { return string(m.Nonce) }), nil
}
