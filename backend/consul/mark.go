package consul

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Mark implements [backend.Backend]. It reads the leases once. Then it makes one transaction for
// each chunk, which rewrites lock and record if they are as they were read. The lock's fresh
// heartbeat makes that a renewal: challengers watch from then on.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	what := describe("mark", len(held), held[0].Election)
	if err := b.enter(ctx, what, held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(held))
	all := make([]int, len(held))
	for i := range all {
		all[i] = i
	}
	for part := range slices.Chunk(all, grantChunk) {
		if err := b.writeMarks(ctx, held, part, answers); err != nil {
			return answers, b.wrap(what, err)
		}
	}
	return answers, nil
}

func (b *Backend) writeMarks(ctx context.Context, held []backend.Held, part []int, answers []backend.Answer) error {
	names := make([]string, len(part))
	for n, i := range part {
		names[n] = held[i].Election
	}
	for range maxAttempts {
		session := b.session.get()
		entries, err := b.read(ctx, names, true)
		if err != nil {
			return err
		}
		var offers []*offer
		var ops api.KVTxnOps
		sent := time.Now()
		for n, i := range part {
			l, e := held[i], entries[n]
			if !e.heldBy(session, l.Holder.Nonce, l.Term) || e.deposed() {
				answers[i] = backend.Answer{Lease: e.lease, Outcome: backend.Refused}
				continue
			}
			o := &offer{entry: e, at: i, bid: backend.Bid{TTL: duration(e.lock.TTL)}, next: l.Term, leadership: e.lock, record: e.term}
			o.leadership.Heartbeat, o.leadership.At = lease.NewHeartbeat(), sent.UTC().Round(0)
			o.record.Heartbeat, o.record.MovedTo, o.record.Moved = lease.NewHeartbeat(), l.MovedTo, l.MovedFrom
			key := b.keys.lock + e.name
			ops = append(ops, pin(key, e.lockPair),
				&api.KVTxnOp{Verb: api.KVLock, Key: key, Session: session, Value: encode(o.leadership)},
				&api.KVTxnOp{Verb: api.KVCAS, Key: b.keys.term + e.name, Index: indexOf(e.termPair), Value: encode(o.record)})
			offers = append(offers, o)
		}
		if offers == nil {
			return nil
		}
		ok, answer, err := b.agent.Txn(ctx, append(ops, b.changesOp()))
		if err != nil {
			return err
		}
		if ok {
			b.granted(offers, lastIndex(answer.Results), sent, session, answers)
			return nil
		}
		if err := Refusal(answer); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return ErrConflict
}
