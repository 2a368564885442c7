package firefly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/consulagent"
)

// Observe implements [backend.Backend]. It always reads.
func (f *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	what := describe("observe", len(seen), seen[0].Election)
	if err := f.enter(ctx, what, ""); err != nil {
		return nil, err
	}
	if changed, err = f.readChanged(ctx, seen); err != nil {
		return nil, f.agent.Wrap(what, err)
	}
	return changed, nil
}

// readChanged reads the leases and returns those that differ from what was seen.
func (f *Backend) readChanged(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	locks, err := f.read(ctx, names)
	for i, s := range locks {
		if seen[i].Version == "" || s.lease.Differs(seen[i]) {
			changed = append(changed, s.lease)
		}
	}
	return changed, err
}

// Listen implements [backend.Backend]. It makes a blocking query that the server answers once a key
// of any election has changed, also because a session ended. The query continues from the index
// of the last call.
func (f *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := f.enter(ctx, "listen", ""); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	err := f.listen(ctx, seen)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return f.agent.Wrap("listen", err)
}

func (f *Backend) listen(ctx context.Context, seen []backend.Lease) error {
	f.mu.Lock()
	index := f.listenIndex
	f.mu.Unlock()
	set := func(now uint64) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.listenIndex = now
	}
	if index == 0 {
		now, err := f.agent.Index(ctx, f.root, 0)
		if err != nil {
			return err
		}
		index = max(now, 1)
		set(index)
		if changed, err := f.readChanged(ctx, seen); err != nil || len(changed) > 0 {
			return err
		}
	}
	for {
		now, err := f.agent.Index(ctx, f.root, index)
		if err != nil {
			return err
		}
		if now = max(now, 1); now != index { // also if it went back, after the servers were restored
			set(now)
			return nil
		}
	}
}

// Request implements [backend.Backend]. Each request takes one read, and one write of our key on
// condition that it is as it was read. Members of FireflySoft know no requests: while one of
// them leads, the error is [backend.ErrInvalid].
func (f *Backend) Request(ctx context.Context, requests []backend.Request) error {
	what := describe("request", len(requests), requests[0].Election)
	if err := f.enter(ctx, what, ""); err != nil {
		return err
	}
	var never error
	for _, req := range requests {
		if err := f.writeRequest(ctx, req); err != nil {
			if ctx.Err() != nil || backend.Class(f.agent.Wrap("", err)) != backend.ErrInvalid {
				return f.agent.Wrap(what, err)
			}
			never = err
		}
	}
	return f.agent.Wrap(what, never)
}

func (f *Backend) writeRequest(ctx context.Context, req backend.Request) error {
	for range maxAttempts {
		locks, err := f.read(ctx, []string{req.Election})
		if err != nil {
			return err
		}
		s := locks[0]
		switch {
		case s.own.Term == 0 || s.own.Term != req.Term:
			return fmt.Errorf("election %q has term %d, not %d: %w", req.Election, s.own.Term, req.Term, backend.ErrStale)
		case !s.held && !s.sealed && s.session != "":
			return fmt.Errorf("%w: election %q is led by %q, a member of another program, which supports no requests", backend.ErrInvalid, req.Election, s.lease.Holder.ID)
		}
		next := s.own
		if next.Request = nil; req.Kind != "" {
			next.Request = &request{req.Term, req.Kind, req.ID, string(req.Nonce)}
		}
		ok, answer, err := f.agent.Txn(ctx, api.KVTxnOps{{Verb: api.KVCAS, Key: f.record(req.Election), Index: s.ownPair.ModifyIndex, Value: encode(next)}})
		if err != nil || ok {
			return err
		}
		if err := consulagent.Refusal(answer); !errors.Is(err, consulagent.ErrConflict) {
			return err
		}
	}
	return consulagent.ErrConflict
}

// List implements [backend.Backend]. It reads all keys. An election that no member of this module
// has led yet is listed, with term 0, as long as it has a leader.
func (f *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := f.enter(ctx, "list", ""); err != nil {
		return nil, err
	}
	found, _, err := f.agent.List(ctx, f.root)
	if err != nil {
		return nil, f.agent.Wrap("list", err)
	}
	pairs := make(map[string]*api.KVPair, len(found))
	for _, pair := range found {
		pairs[pair.Key] = pair
	}
	var names []string
	for key := range pairs {
		at := strings.LastIndexByte(key, '/')
		if at <= len(f.root) {
			continue
		}
		if name := key[len(f.root):at]; name >= from && backend.CheckName(name) == nil && (key == f.lock(name) || key == f.record(name) && pairs[f.lock(name)] == nil) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var list []backend.Record
	for _, name := range names {
		s := &entry{name: name, lockPair: pairs[f.lock(name)], ownPair: pairs[f.record(name)]}
		s.parse()
		f.classify(s)
		if s.lease.Term == 0 && s.lease.Vacant() || len(list) >= limit {
			continue
		}
		r := backend.Record{Lease: s.lease, History: s.own.History}
		if s.held {
			r.Elected = s.own.From.UTC()
		}
		list = append(list, r)
	}
	return list, nil
}
