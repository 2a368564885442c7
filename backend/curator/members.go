package curator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// A member is the data of a member record, an ephemeral node.
type member struct {
	ID        string   `json:"id"`
	Address   string   `json:"address,omitempty"`
	Metadata  string   `json:"metadata,omitempty"`
	Stage     string   `json:"stage,omitempty"`
	Elections string   `json:"elections,omitempty"`
	TTL       duration `json:"ttl"`
}

const maxMember = 64 << 10

// Announce writes this process's member record, which vanishes with the session. It writes
// nothing if the servers have answered this session within half a TTL and the record is as
// it should be: the session tells that the process is alive.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.admit(m.Nonce); err != nil {
		return err
	}
	b.mu.Lock()
	b.expectedSession = max(b.expectedSession, sessionLength(m.TTL, m.TTL/3)) // so that the session is long enough for the first bid
	b.mu.Unlock()
	err := b.withSession(ctx, func(s *session) error {
		_, err := b.prepareSession(ctx, s, m.Candidate)
		if err == nil {
			err = b.writeMember(ctx, s, m)
		}
		return err
	})
	if err == nil {
		b.mu.Lock()
		b.member = &m
		b.mu.Unlock()
	}
	return b.wrap("announce", err)
}

func (b *Backend) writeMember(ctx context.Context, s *session, m backend.Member) error {
	text, err := json.Marshal(member{ID: m.ID, Address: m.Address, Metadata: m.Metadata, Stage: m.Stage, Elections: m.Elections, TTL: duration(m.TTL)})
	if err != nil {
		return err
	}
	id := s.id()
	path := b.layout.memberParent + "/" + ensemble.Escape(string(m.Nonce))
	if s.answeredSince(time.Now().Add(-m.TTL / 2)) {
		r, err := s.Watched(ctx, ensemble.Unique, path)
		if err != nil || bytes.Equal(r.Data, text) && r.Stat.EphemeralOwner == id {
			return err
		}
	}
	results, _, err := s.write(ctx, &zk.SetDataRequest{Path: path, Data: text, Version: -1})
	if err == nil {
		stat := results[0].Stat
		if stat == nil {
			return fmt.Errorf("%w: the servers have answered a write without its outcome", backend.ErrUnavailable)
		}
		if s.learnClock(stat); stat.EphemeralOwner == id {
			return nil
		}
		// It belongs to our previous session and is about to vanish.
		if _, _, err := s.write(ctx, &zk.DeleteRequest{Path: path, Version: -1}); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	} else if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for try := 0; ; try++ {
		_, err = ensemble.Call(ctx, s.Session, func(c *zk.Conn) (string, error) { return c.Create(path, text, zk.FlagEphemeral, b.access.ACL) })
		switch {
		case errors.Is(err, zk.ErrNodeExists): // the answer to an earlier create was lost
			return nil
		case errors.Is(err, zk.ErrNoNode) && try == 0: // an operator has deleted the parent
			if err := b.createParents(ctx, s, path, false); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// Members reads the existing members.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.admit(""); err != nil {
		return nil, err
	}
	var list []backend.Member
	err := b.withSession(ctx, func(s *session) (err error) {
		list, err = b.readMembers(ctx, s, from, limit)
		return err
	})
	return list, b.wrap("members", err)
}

func (b *Backend) readMembers(ctx context.Context, s *session, from string, limit int) (list []backend.Member, err error) {
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	r, err := s.ReadNode(ctx, ensemble.Children, b.layout.memberParent)
	if err != nil {
		return nil, err
	}
	var nonces []backend.Nonce
	for _, part := range r.Children {
		if nonce, ok := ensemble.Unescape(part); ok && nonce >= from && len(nonce) <= 64 {
			nonces = append(nonces, backend.Nonce(nonce))
		}
	}
	slices.Sort(nonces)
	for len(nonces) > 0 && len(list) < limit {
		n := min(len(nonces), limit-len(list))
		found, errs := make([]*backend.Member, n), make([]error, n)
		ensemble.InParallel(n, func(i int) { found[i], errs[i] = b.readMember(ctx, s, nonces[i]) })
		if err := cmp.Or(errs...); err != nil {
			return nil, err
		}
		for _, m := range found {
			if m != nil {
				list = append(list, *m)
			}
		}
		nonces = nonces[n:]
	}
	return list, nil
}

// readMember reads the member with a nonce. It returns nil if there is none, or if its node
// belongs to no session. The age is zero: the session exists, so the ensemble has heard of
// it within the session's length.
func (b *Backend) readMember(ctx context.Context, s *session, nonce backend.Nonce) (*backend.Member, error) {
	r, err := s.ReadNode(ctx, ensemble.Unique, b.layout.memberParent+"/"+ensemble.Escape(string(nonce)))
	var m member
	if err != nil || r.Missing || r.Stat.EphemeralOwner == 0 || len(r.Data) > maxMember || json.Unmarshal(r.Data, &m) != nil {
		return nil, err
	}
	clean := clean.Member(backend.Member{
		Candidate: backend.Candidate{ID: m.ID, Nonce: nonce, Address: m.Address, Metadata: m.Metadata},
		Stage:     m.Stage, Elections: m.Elections, TTL: time.Duration(m.TTL),
	})
	return &clean, nil
}
