package consul

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// Acquire implements [backend.Backend]. It reads the leases once, or uses the last result of
// Observe if that found them vacant. Then it makes one transaction for each chunk, which
// requires that all keys are as they were read.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	what := describe("acquire", len(bids), bids[0].Election)
	if err := b.enter(ctx, what, bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	open := make([]*offer, 0, len(bids))
	for i, bid := range bids {
		if bid.TTL > maxTTL || bid.TTL <= 0 {
			answers[i].Err = b.wrap(what, fmt.Errorf("%w: TTL is %v, the greatest is %v", backend.ErrInvalid, bid.TTL, maxTTL))
			continue
		}
		open = append(open, &offer{at: i, bid: bid})
	}
	entries := b.vacant.take(open)
	cached := entries != nil
	for try := 0; len(open) > 0; try++ {
		if !cached {
			var err error
			if entries, err = b.read(ctx, electionsOf(open), true); err != nil {
				return answers, b.wrap(what, err)
			}
		}
		offers := b.makeOffers(open, entries, answers)
		open = nil
		for _, part := range chunkOffers(offers) {
			stale, index, err := b.grant(ctx, part, answers)
			if err != nil {
				return answers, b.wrap(what, err)
			}
			shareChangesIndex(part, offers, index, answers)
			beaten := stale[:0:0]
			for _, o := range stale {
				// The cached entry may be out of date, or another election may have
				// changed election/changes.
				if cached || o.neverLed() && try < maxAttempts {
					open = append(open, o)
				} else {
					beaten = append(beaten, o)
				}
			}
			if err := b.answerOutbid(ctx, beaten, answers); err != nil {
				return answers, b.wrap(what, err)
			}
		}
		cached = false
	}
	return answers, nil
}

// makeOffers returns the offers that are possible by what was read, and answers the other bids.
func (b *Backend) makeOffers(open []*offer, entries []*entry, answers []backend.Answer) (offers []*offer) {
	now := time.Now()
	for i, o := range open {
		e := entries[i]
		if !e.mine && !e.lease.Unchanged(o.bid.Expected) || e.lease.MovedTo != o.bid.Expected.MovedTo {
			answers[o.at] = backend.Answer{Lease: e.lease, Outcome: backend.Refused}
			if o.entry != nil { // it was tried and refused
				b.heartbeats.recordRefusal(o)
			}
			continue
		}
		next, err := backend.NextTerm(max(e.lastTerm, o.bid.Expected.Term), e.dataLost, o.bid.MinTerm, now)
		if err != nil {
			answers[o.at].Err = b.wrap(describe("acquire", 1, e.name), err)
			continue
		}
		o.entry, o.next = e, next
		offers = append(offers, o)
	}
	return offers
}

// A vacantCache has the leases that Observe found vacant, so that a bid need not read them
// again. Held leases are not cached: they are watched first, and then one more read costs
// little.
type vacantCache struct {
	mu      sync.Mutex
	entries map[string]*entry
}

func (v *vacantCache) record(e *entry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case e.held || e.lease.ObserveFor != 0:
		delete(v.entries, e.name)
	case v.entries == nil:
		v.entries = map[string]*entry{e.name: e}
	default:
		v.entries[e.name] = e
	}
}

// take removes the entries of these offers and returns them, or nil unless all of them are
// cached and as the bids expect.
func (v *vacantCache) take(open []*offer) []*entry {
	v.mu.Lock()
	defer v.mu.Unlock()
	entries := make([]*entry, len(open))
	whole := true
	for i, o := range open {
		e := v.entries[o.bid.Election]
		delete(v.entries, o.bid.Election)
		entries[i], whole = e, whole && e != nil && e.lease.Unchanged(o.bid.Expected)
	}
	if !whole {
		return nil
	}
	return entries
}

func electionsOf(open []*offer) []string {
	names := make([]string, len(open))
	for i, o := range open {
		names[i] = o.bid.Election
	}
	return names
}

// answerOutbid answers bids that came too late, with the leases as they are now.
func (b *Backend) answerOutbid(ctx context.Context, stale []*offer, answers []backend.Answer) error {
	if len(stale) == 0 {
		return nil
	}
	entries, err := b.read(ctx, electionsOf(stale), true)
	if err != nil {
		return err
	}
	for i, o := range stale {
		if e := entries[i]; e.mine { // left over from an earlier bid whose answer was lost
			answers[o.at] = backend.Answer{Err: b.wrap(describe("acquire", 1, o.name), ErrConflict)}
		} else {
			b.heartbeats.recordRefusal(o)
			answers[o.at] = backend.Answer{Lease: e.lease, Outcome: backend.Refused}
		}
	}
	return nil
}
