//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
)

// workers is how many bids are made at the same time: each waits for the disk,
// and disks are good at that.
const workers = 8

// Acquire makes one attempt at each lease: lock, read again what stands there
// under the lock, compare, write the term to the disk, and then the record.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.guard.Enter(ctx, bids[0].Candidate.Nonce); err != nil {
		return nil, fail("acquire", err)
	}
	answers := make([]backend.Answer, len(bids))
	next := make(chan int, len(bids))
	for i := range bids {
		next <- i
	}
	close(next)
	var wg sync.WaitGroup
	for range min(workers, len(bids)) {
		wg.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				a, err := b.acquire(ctx, bids[i])
				if a.Err == nil {
					a.Err = fail(fmt.Sprintf("acquire %q", bids[i].Election), err)
				}
				answers[i] = a
			}
		})
	}
	wg.Wait()
	return answers, fail("acquire", ctx.Err())
}

func (b *Backend) acquire(ctx context.Context, bid backend.Bid) (a backend.Answer, err error) {
	name := bid.Election
	done, err := b.turn(ctx, name)
	if err != nil {
		return a, err
	}
	defer done()
	if bid.TTL > b.maxTTL || bid.TTL < 1 {
		return a, fmt.Errorf("%w: a TTL of %v; the greatest in this directory is %v", backend.ErrInvalid, bid.TTL, b.maxTTL)
	}
	h := b.holding(name)
	if h != nil { // a leftover of ours
		now, err := at(b.path(name, lockSuffix))
		if err != nil {
			return a, err
		}
		if now != h.id {
			h, err = nil, b.forget(name, h)
		}
		if err != nil {
			return a, err
		}
	}
	if h == nil {
		l, err := b.look(name)
		if err != nil {
			return a, err
		}
		if !still(l, bid.Expected) {
			return backend.Answer{Lease: l, Outcome: backend.Refused}, nil
		}
		if h, err = b.take(name); err != nil {
			return a, err
		}
		if h == nil {
			l, err := b.look(name)
			if err != nil {
				return a, err
			}
			if l.ObserveFor == 0 { // somebody has it and does not say so: a bid of this moment, or flock(1)
				l.ObserveFor = backend.ExpiresInStore
			}
			return backend.Answer{Lease: l, Outcome: backend.Refused}, nil
		}
	}
	a, err = b.grant(h, bid)
	if a.Outcome != backend.Granted {
		err = errors.Join(err, b.forget(name, h))
		if err == nil { // as it is without our lock
			a.Lease, err = b.look(name)
		}
		if err != nil {
			a.Outcome = backend.Unknown
		}
	}
	return a, err
}

// still reports whether a lease is what was bid over, and was watched for as long
// as it must be now.
func still(l, over backend.Lease) bool {
	return l.ObserveFor >= 0 && l.ObserveFor <= max(over.ObserveFor, 0) && l.Term == over.Term && l.Heartbeat == over.Heartbeat && l.Ref == over.Ref &&
		l.MovedTo == over.MovedTo && l.MovedFrom == over.MovedFrom
}

// grant begins a leadership, if the lease is still what was bid over. The lock is ours.
func (b *Backend) grant(h *hold, bid backend.Bid) (a backend.Answer, err error) {
	s, err := b.readHeld(bid.Election, h)
	if err != nil {
		return a, err
	}
	if h.term == 0 && !still(b.lease(s), bid.Expected) || s.rec.MovedTo != bid.Expected.MovedTo {
		return backend.Answer{Outcome: backend.Refused}, nil
	}
	_, led, err := b.listed(bid.Election)
	if err == nil {
		err = b.enlist(bid.Election)
	}
	if err != nil {
		return a, err
	}
	if err := b.join(h); err != nil {
		return a, err
	}
	now := time.Now().UTC()
	last := max(s.rec.Term, s.pulse.Term)
	// A term was lost with its file, perhaps: skip some. A first election has lost none.
	foreign, floor := s.lost || s.rec.Term == 0 || s.pulse.Term == 0, bid.MinTerm
	if last == 0 && !led && !s.lost && b.complete() {
		foreign = false
	}
	if foreign { // from the clock, not from last: jumps that add up would lose to one that knows of none of them
		last, floor = 0, max(last, floor)
	}
	term, err := backend.NextTerm(last, foreign, floor, now)
	if err != nil {
		return a, err
	}
	p := pulse{Term: term, Nonce: bid.Candidate.Nonce, Heartbeat: heartbeat(), TTL: bid.TTL, Renew: bid.Renew, Lock: h.id, Written: now}
	if err := p.write(h.f); err != nil {
		return a, err
	}
	// Marked only now: until then others see what they saw before.
	if got, err := mark(h.f); err != nil || !got {
		return backend.Answer{Outcome: backend.Refused}, err
	}
	if err := flush(h.f); err != nil {
		return a, err
	}
	if s.pulse.Term == 0 { // the file may be new: its name must last as well
		if err := b.syncDir(); err != nil {
			return a, err
		}
	}
	if err := b.withdraw(bid.Election); err != nil {
		return a, err
	}
	r := s.rec
	r.close(backend.Failed, now, s.lapsed(now))
	r.Layout, r.Election, r.Term, r.Heartbeat, r.Lock = layout, bid.Election, term, p.Heartbeat, h.id
	r.Holder = &person{bid.Candidate.ID, bid.Candidate.Nonce, bid.Candidate.Address, bid.Candidate.Metadata}
	r.TTL, r.Renew, r.Written, r.Elected = bid.TTL, bid.Renew, now, now
	if err := b.writeRecord(r, false); err != nil {
		return a, err
	}
	if now, err := at(b.path(bid.Election, lockSuffix)); err != nil || now != h.id {
		return backend.Answer{Outcome: backend.Refused}, err // removed in this very moment
	}
	b.mu.Lock()
	h.term, h.rec = term, r
	b.held[bid.Election] = h
	b.mu.Unlock()
	s.rec, s.pulse, s.request, s.lost = r, p, backend.Request{}, false
	return backend.Answer{Lease: b.lease(s), Outcome: backend.Granted, ValidFor: bid.TTL}, nil
}

// forget unlocks what is, or is about to be, held.
func (b *Backend) forget(name string, h *hold) error {
	b.mu.Lock()
	if b.held[name] == h {
		delete(b.held, name)
	}
	b.mu.Unlock()
	return b.drop(h)
}
