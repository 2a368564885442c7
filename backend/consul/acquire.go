package consul

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// Acquire implements [backend.Backend]. One reading, which may be that of Observe if
// it found the lease free; then, for each chunk, one transaction that is pinned to
// the index of all keys that the grant rests on, as they were read.
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
	known := entries != nil
	for try := 0; len(open) > 0; try++ {
		if !known {
			var err error
			if entries, err = b.read(ctx, electionsOf(open), true); err != nil {
				return answers, b.wrap(what, err)
			}
		}
		offers := b.offers(open, entries, answers)
		open = nil
		for _, part := range chunkOffers(offers) {
			lost, index, err := b.grant(ctx, part, answers)
			if err != nil {
				return answers, b.wrap(what, err)
			}
			shareChangesIndex(part, offers, index, answers)
			over := lost[:0:0]
			for _, o := range lost {
				// Perhaps only because what was known is out of date, or because some
				// other election has changed.
				if known || o.neverLed() && try < maxAttempts {
					open = append(open, o)
				} else {
					over = append(over, o)
				}
			}
			if err := b.answerOutbid(ctx, over, answers); err != nil {
				return answers, b.wrap(what, err)
			}
		}
		known = false
	}
	return answers, nil
}

// offers returns the offers that can be made by what was read, and answers the
// other bids.
func (b *Backend) offers(open []*offer, entries []*entry, answers []backend.Answer) (offers []*offer) {
	now := time.Now()
	for i, o := range open {
		e := entries[i]
		if !e.mine && !e.lease.Unchanged(o.bid.Expected) || e.lease.MovedTo != o.bid.Expected.MovedTo {
			answers[o.at] = backend.Answer{Lease: e.lease, Outcome: backend.Refused}
			if o.entry != nil { // tried, and refused
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

// free is what Observe has found to be free, so that a bid need not read it again.
// A lease that is held is watched first, and then a reading more is no matter.
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

// take returns what is known of the elections of those offers, once, or nil unless
// all that is bid over is known.
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

// outbid fills in the answers of bids that came too late: the leases as they are.
func (b *Backend) answerOutbid(ctx context.Context, lost []*offer, answers []backend.Answer) error {
	if len(lost) == 0 {
		return nil
	}
	entries, err := b.read(ctx, electionsOf(lost), true)
	if err != nil {
		return err
	}
	for i, o := range lost {
		if e := entries[i]; e.mine { // left over of an earlier bid whose answer was lost
			answers[o.at] = backend.Answer{Err: b.wrap(describe("acquire", 1, o.name), errConflict)}
		} else {
			b.heartbeats.recordRefusal(o)
			answers[o.at] = backend.Answer{Lease: e.lease, Outcome: backend.Refused}
		}
	}
	return nil
}
