package firefly

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/page"
)

// A member is the value of a member's key.
type member struct {
	ID        string    `json:"id,omitempty"`
	Nonce     string    `json:"nonce,omitempty"`
	Address   string    `json:"address,omitempty"`
	Metadata  string    `json:"metadata,omitempty"`
	Stage     string    `json:"stage,omitempty"`
	Elections string    `json:"elections,omitempty"`
	TTL       int64     `json:"ttl_us"`
	At        time.Time `json:"at"` // by the member's clock
}

// Announce implements [backend.Backend]. It makes the session before the first bid, which makes a
// handover faster, and renews it.
func (f *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := f.enter(ctx, "announce", m.Nonce); err != nil {
		return err
	}
	now := time.Now()
	value := member{
		m.ID, string(m.Nonce), m.Address, m.Metadata, clean.Text(m.Stage, backend.MaxStage, false), m.Elections,
		micros(m.TTL), now.UTC().Round(0),
	}
	if _, err := f.agent.Client.KV().Put(&api.KVPair{Key: f.members() + value.Nonce, Value: encode(value)}, write(ctx)); err != nil {
		return f.agent.Wrap("announce", err)
	}
	if _, err := f.ensureSession(ctx, m.Candidate); err != nil {
		return f.agent.Wrap("announce", err)
	}
	f.cleanUp(ctx, now)
	return nil
}

// cleanupEvery is how often a process deletes what others have left, and staleAfter how old that
// must be.
const (
	cleanupEvery = 6 * time.Hour
	staleAfter   = 24 * time.Hour
)

// cleanUp deletes keys of members that have been gone for a day. A member that was only cut off
// writes its key again.
func (f *Backend) cleanUp(ctx context.Context, now time.Time) {
	f.mu.Lock()
	due := now.Sub(f.lastCleanup) >= cleanupEvery
	if due {
		f.lastCleanup = now
	}
	f.mu.Unlock()
	if !due {
		return
	}
	pairs, _, err := f.agent.List(ctx, f.members())
	if err != nil {
		return // until the next time
	}
	for _, pair := range pairs {
		var v member
		if decode(pair, &v) && now.Sub(v.At) > staleAfter {
			if _, _, err := f.agent.Client.KV().DeleteCAS(pair, write(ctx)); err != nil {
				return
			}
		}
	}
}

// Members implements [backend.Backend]. It does not list members of FireflySoft, which are services
// of the agents, named le:<name>. Ages are by the members' clocks and this process's clock.
func (f *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := f.enter(ctx, "members", ""); err != nil {
		return nil, err
	}
	pairs, _, err := f.agent.List(ctx, f.members())
	if err != nil {
		return nil, f.agent.Wrap("members", err)
	}
	now := time.Now()
	var list []backend.Member
	for _, pair := range pairs {
		nonce := strings.TrimPrefix(pair.Key, f.members())
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
	return page.Cut(list, from, limit, func(m backend.Member) string { return string(m.Nonce) }), nil
}
