package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
)

// Observe implements [backend.Backend]. It always reads.
func (f *Firefly) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	what := describe("observe", len(seen), seen[0].Election)
	if err := f.base.enter(ctx, what, ""); err != nil {
		return nil, err
	}
	if changed, err = f.readChanged(ctx, seen); err != nil {
		return nil, f.base.wrap(what, err)
	}
	return changed, nil
}

// readChanged reads the leases and returns those that differ from what was seen.
func (f *Firefly) readChanged(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
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
func (f *Firefly) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := f.base.enter(ctx, "listen", ""); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	err := f.listen(ctx, seen)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return f.base.wrap("listen", err)
}

func (f *Firefly) listen(ctx context.Context, seen []backend.Lease) error {
	b := f.base
	index := b.listenIndex.get()
	if index == 0 {
		now, err := b.leasesIndex(ctx)
		if err != nil {
			return err
		}
		b.listenIndex.set(max(now, 1))
		changed, err := f.readChanged(ctx, seen)
		if err != nil || len(changed) > 0 {
			return err
		}
		index = max(now, 1)
	}
	for {
		_, now, err := b.waitForChange(ctx, index)
		if err != nil {
			return err
		}
		if now = max(now, 1); now != index { // also if it went back, after the servers were restored
			b.listenIndex.set(now)
			return nil
		}
	}
}

// Request implements [backend.Backend]. Each request takes one read, and one write of our key on
// condition that it is as it was read. Members of FireflySoft know no requests: while one of
// them leads, the error is [backend.ErrInvalid].
func (f *Firefly) Request(ctx context.Context, requests []backend.Request) error {
	what := describe("request", len(requests), requests[0].Election)
	if err := f.base.enter(ctx, what, ""); err != nil {
		return err
	}
	var never error
	for _, req := range requests {
		if err := f.writeRequest(ctx, req); err != nil {
			if ctx.Err() != nil || backend.Class(f.base.wrap("", err)) != backend.ErrInvalid {
				return f.base.wrap(what, err)
			}
			never = err
		}
	}
	return f.base.wrap(what, never)
}

func (f *Firefly) writeRequest(ctx context.Context, req backend.Request) error {
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
		ok, answer, err := f.base.txn(ctx, api.KVTxnOps{{Verb: api.KVCAS, Key: f.record(req.Election), Index: s.ownPair.ModifyIndex, Value: encode(next)}})
		if err != nil || ok {
			return err
		}
		if err := txnError(answer); !errors.Is(err, errConflict) {
			return err
		}
	}
	return errConflict
}

// List implements [backend.Backend]. It reads all keys. An election that no member of this module
// has led yet is listed, with term 0, as long as it has a leader.
func (f *Firefly) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := f.base.enter(ctx, "list", ""); err != nil {
		return nil, err
	}
	pairs, _, err := f.base.listKeys(ctx, f.root)
	if err != nil {
		return nil, f.base.wrap("list", err)
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
		s := &fireflyEntry{name: name, lockPair: pairs[f.lock(name)], ownPair: pairs[f.record(name)]}
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

// Announce implements [backend.Backend]. It makes the session before the first bid, which makes a
// handover faster, and renews it.
func (f *Firefly) Announce(ctx context.Context, m backend.Member) error {
	b := f.base
	if err := b.enter(ctx, "announce", m.Nonce); err != nil {
		return err
	}
	if err := b.writeMember(ctx, m); err != nil {
		return b.wrap("announce", err)
	}
	if _, err := f.ensureSession(ctx, m.Candidate); err != nil {
		return b.wrap("announce", err)
	}
	b.cleanUp(ctx, time.Now())
	return nil
}

// Members implements [backend.Backend]. It does not list members of FireflySoft, which are services
// of the agents, named le:<name>.
func (f *Firefly) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	return f.base.Members(ctx, from, limit)
}
