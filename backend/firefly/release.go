package firefly

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/consulagent"
)

// Release implements [backend.Backend]. It reads the leases. Then it makes transactions that unlock,
// without a lock-delay, and write how the leaderships ended.
func (f *Backend) Release(ctx context.Context, held []backend.Held) error {
	what := describe("release", len(held), held[0].Election)
	if err := f.enter(ctx, what, ""); err != nil {
		return err
	}
	if f.owner.Nonce() == "" {
		return nil // this Backend has never held anything
	}
	for part := range slices.Chunk(held, maxRead) {
		if err := f.release(ctx, part); err != nil {
			return f.agent.Wrap(what, err)
		}
	}
	return nil
}

func (f *Backend) release(ctx context.Context, held []backend.Held) error {
	for range maxAttempts {
		names := make([]string, len(held))
		for i, l := range held {
			names[i] = l.Election
		}
		locks, err := f.read(ctx, names)
		if err != nil {
			return err
		}
		var todo []release
		for i, s := range locks {
			if ops := f.releaseOps(s, held[i]); ops != nil {
				todo = append(todo, release{held[i], ops})
			} else if !s.mine && (held[i].Term == 0 || f.termOf(s.name) == held[i].Term) {
				f.remove(s.name)
			}
		}
		held = nil
		for part := range slices.Chunk(todo, maxOps/sharedOps) {
			again, err := f.tryReleases(ctx, part)
			if err != nil {
				return err
			}
			held = append(held, again...)
		}
		if len(held) == 0 {
			return nil
		}
	}
	return consulagent.ErrConflict
}

// A release is one lease to release.
type release struct {
	lease backend.Held
	ops   api.KVTxnOps
}

// tryReleases makes one transaction for all releases. If that fails, it makes one for each. It
// returns the leases that have changed since they were read.
func (f *Backend) tryReleases(ctx context.Context, todo []release) (again []backend.Held, err error) {
	var ops api.KVTxnOps
	for _, r := range todo {
		ops = append(ops, r.ops...)
	}
	ok, answer, err := f.agent.Txn(ctx, ops)
	switch {
	case err != nil:
		return nil, err
	case ok:
		for _, r := range todo {
			f.remove(r.lease.Election)
		}
		return nil, nil
	case len(todo) == 1:
		if err := consulagent.Refusal(answer); !errors.Is(err, consulagent.ErrConflict) {
			return nil, err
		}
		return []backend.Held{todo[0].lease}, nil
	}
	for _, r := range todo {
		one, err := f.tryReleases(ctx, []release{r})
		if err != nil {
			return nil, err
		}
		again = append(again, one...)
	}
	return again, nil
}

// termOf returns the term in which this process holds an election, or 0.
func (f *Backend) termOf(name string) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[name].term
}

// releaseOps returns one release, or nil if there is nothing to release. If a bid of this process
// may still be on its way, it rewrites our key, so that the bid finds another index and fails.
func (f *Backend) releaseOps(s *entry, l backend.Held) api.KVTxnOps {
	self, now := f.owner.Nonce(), time.Now().UTC().Round(0)
	key, own := f.lock(s.name), f.record(s.name)
	recorded := s.unfinished && s.own.Nonce == string(self)
	locked := s.mine && !s.held // this process has the lock, and our key does not say so
	next := s.own
	next.Heartbeat = lease.NewHeartbeat()
	switch {
	case recorded && l.Term != 0 && l.Term != s.own.Term, !recorded && !locked && !f.mayHold(s.name), !recorded && !locked && l.Term != 0:
		return nil
	case !recorded && !locked: // a bid may be on its way
		next.Heartbeat, next.Touch = s.own.Heartbeat, lease.NewHeartbeat()
		return api.KVTxnOps{{Verb: api.KVCAS, Key: own, Index: indexOf(s.ownPair), Value: encode(next)}}
	case locked:
		next.Term, next.ID, next.Nonce, next.TTL, next.From = max(s.lastTerm, l.Term), s.lease.Holder.ID, string(self), 0, now
		next.To, next.End, next.Last, next.Request, next.Touch = time.Time{}, "", nil, nil, 0
	}
	next.close(l.End, now, l.ExpiredFor())
	next.Session, next.Created, next.Locks = "", 0, 0
	ops := api.KVTxnOps{pin(key, s.lockPair), pin(own, s.ownPair)}
	if s.mine && !s.sealed {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVUnlock, Key: key, Session: s.session, Value: s.lockPair.Value})
		next.Created, next.Locks = s.lockPair.CreateIndex, s.lockPair.LockIndex
	}
	if s.ownLocker != "" {
		return append(ops, &api.KVTxnOp{Verb: api.KVUnlock, Key: own, Session: s.ownLocker, Value: encode(next)})
	}
	return append(ops, &api.KVTxnOp{Verb: api.KVCAS, Key: own, Index: indexOf(s.ownPair), Value: encode(next)})
}
