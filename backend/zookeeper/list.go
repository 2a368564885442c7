package zookeeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// List reads the records that there are.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	var list []backend.Record
	err := b.with(ctx, func(s *session) (err error) {
		list, err = b.list(ctx, s, from, limit)
		return err
	})
	return list, b.fail("list", err)
}

func (b *Backend) list(ctx context.Context, s *session, from string, limit int) (list []backend.Record, err error) {
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	r, err := s.cache.plain(ctx, children, b.layout.record)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, part := range r.children {
		if name, ok := unescape(part); ok && backend.CheckName(name) == nil {
			names = append(names, name)
		}
	}
	names = backend.Page(names, from, limit, func(name string) string { return name })
	views, errs := make([]view, len(names)), make([]error, len(names))
	g := glance{heartbeats: &memo{}}
	each(len(names), func(i int) { views[i], errs[i] = b.see(ctx, s, names[i], g) })
	if err := firstOf(errs); err != nil {
		return nil, err
	}
	for _, v := range views {
		if v.unsure || v.record == nil && v.bad == nil {
			continue // being made, or deleted just now
		}
		out := backend.Record{Lease: v.lease}
		if rec := v.record; rec != nil {
			out.History = rec.History
			if rec.Holder != nil && !v.lease.Vacant() {
				out.Elected = rec.Holder.Elected
			}
		}
		list = append(list, out)
	}
	return list, nil
}

// A member is what a process says of itself, in an ephemeral node.
type member struct {
	ID        string   `json:"id"`
	Address   string   `json:"address,omitempty"`
	Metadata  string   `json:"metadata,omitempty"`
	Stage     string   `json:"stage,omitempty"`
	Elections string   `json:"elections,omitempty"`
	TTL       duration `json:"ttl"`
}

const maxMember = 64 << 10

// Announce writes this process's member record, which vanishes with the session. That
// tells who is there: if the servers have answered this session within half a TTL, and
// the record is there as it should be, nothing is written.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(m.Nonce); err != nil {
		return err
	}
	b.mu.Lock()
	b.expected = max(b.expected, length(m.TTL, m.TTL/3)) // so that a first bid finds a session that will do
	b.mu.Unlock()
	err := b.with(ctx, func(s *session) error {
		_, err := b.prepare(ctx, s, m.Candidate)
		if err == nil {
			err = b.announce(ctx, s, m)
		}
		return err
	})
	if err == nil {
		b.mu.Lock()
		b.member = &m
		b.mu.Unlock()
	}
	return b.fail("announce", err)
}

func (b *Backend) announce(ctx context.Context, s *session, m backend.Member) error {
	text, err := json.Marshal(member{ID: m.ID, Address: m.Address, Metadata: m.Metadata, Stage: m.Stage, Elections: m.Elections, TTL: duration(m.TTL)})
	if err != nil {
		return err
	}
	id, _ := s.present()
	path := b.layout.members + "/" + escape(m.Nonce)
	if s.heardSince(time.Now().Add(-m.TTL / 2)) {
		r, err := s.cache.get(ctx, once, path, true)
		if err != nil || bytes.Equal(r.data, text) && r.stat.EphemeralOwner == id {
			return err
		}
	}
	results, _, err := s.write(ctx, &zk.SetDataRequest{Path: path, Data: text, Version: -1})
	if err == nil {
		stat := results[0].Stat
		if stat == nil {
			return fmt.Errorf("%w: the servers have answered a write without its outcome", backend.ErrUnavailable)
		}
		if s.at(stat); stat.EphemeralOwner == id {
			return nil
		}
		// It is the last session's, and about to vanish.
		if _, _, err := s.write(ctx, &zk.DeleteRequest{Path: path, Version: -1}); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	} else if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for try := 0; ; try++ {
		_, err = call(ctx, s, func(c *zk.Conn) (string, error) { return c.Create(path, text, zk.FlagEphemeral, b.acl) })
		switch {
		case errors.Is(err, zk.ErrNodeExists): // its own answer was lost
			return nil
		case errors.Is(err, zk.ErrNoNode) && try == 0: // somebody has deleted the parent
			if err := b.parents(ctx, s, path, false); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// Members reads the members that there are.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(""); err != nil {
		return nil, err
	}
	var list []backend.Member
	err := b.with(ctx, func(s *session) (err error) {
		list, err = b.announced(ctx, s, from, limit)
		return err
	})
	return list, b.fail("members", err)
}

func (b *Backend) announced(ctx context.Context, s *session, from string, limit int) (list []backend.Member, err error) {
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	r, err := s.cache.plain(ctx, children, b.layout.members)
	if err != nil {
		return nil, err
	}
	var nonces []string
	for _, part := range r.children {
		if nonce, ok := unescape(part); ok && nonce >= from && len(nonce) <= 64 {
			nonces = append(nonces, nonce)
		}
	}
	slices.Sort(nonces)
	for len(nonces) > 0 && len(list) < limit {
		n := min(len(nonces), limit-len(list))
		found, errs := make([]*backend.Member, n), make([]error, n)
		each(n, func(i int) { found[i], errs[i] = b.memberOf(ctx, s, nonces[i]) })
		if err := firstOf(errs); err != nil {
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

// memberOf reads the member with a nonce. It returns nil if there is none, or if it hangs
// on no session. Its age is zero: its session lives, so the ensemble has heard of it within
// the session's length.
func (b *Backend) memberOf(ctx context.Context, s *session, nonce string) (*backend.Member, error) {
	r, err := s.cache.plain(ctx, once, b.layout.members+"/"+escape(nonce))
	var m member
	if err != nil || r.missing || r.stat.EphemeralOwner == 0 || len(r.data) > maxMember || json.Unmarshal(r.data, &m) != nil {
		return nil, err
	}
	clean := backend.CleanMember(backend.Member{
		Candidate: backend.Candidate{ID: m.ID, Nonce: nonce, Address: m.Address, Metadata: m.Metadata},
		Stage:     m.Stage, Elections: m.Elections, TTL: time.Duration(m.TTL),
	})
	return &clean, nil
}
