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

// workers is how many bids run at the same time. Each waits for the disk, which serves
// several writes at once well.
const workers = 8

// Acquire makes one attempt at each lease. It takes the lock, reads the files again under
// the lock, compares them with the bid, writes the term to the disk, and then the record.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.owner.Enter(ctx, bids[0].Candidate.Nonce); err != nil {
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
	done, err := b.serialize(ctx, name)
	if err != nil {
		return a, err
	}
	defer done()
	if bid.TTL > b.maxTTL || bid.TTL < 1 {
		return a, b.ttlError(bid.TTL)
	}
	h := b.heldLock(name)
	if h != nil { // left from an earlier grant of ours
		now, err := identityAt(b.path(name, lockSuffix))
		if err != nil {
			return a, err
		}
		if now != h.id {
			h, err = nil, b.unlock(name, h)
		}
		if err != nil {
			return a, err
		}
	}
	if h == nil {
		l, err := b.readLease(name)
		if err != nil {
			return a, err
		}
		if !isExpected(l, bid.Expected) {
			return backend.Answer{Lease: l, Outcome: backend.Refused}, nil
		}
		if h, err = b.tryLock(name); err != nil {
			return a, err
		}
		if h == nil {
			l, err := b.readLease(name)
			if err != nil {
				return a, err
			}
			if l.ObserveFor == 0 { // a lock without a probe lock: another bid of this moment, or flock(1)
				l.ObserveFor = backend.ExpiresInStore
			}
			return backend.Answer{Lease: l, Outcome: backend.Refused}, nil
		}
	}
	a, err = b.grant(h, bid)
	if a.Outcome != backend.Granted {
		err = errors.Join(err, b.unlock(name, h))
		if err == nil { // read it without our lock
			a.Lease, err = b.readLease(name)
		}
		if err != nil {
			a.Outcome = backend.Unknown
		}
	}
	return a, err
}

// isExpected reports whether a lease is the one that the bidder expects, and whether the
// bidder has observed it for as long as it must.
func isExpected(l, expected backend.Lease) bool {
	return l.ObserveFor >= 0 && l.ObserveFor <= max(expected.ObserveFor, 0) && l.Term == expected.Term && l.Version == expected.Version &&
		l.MovedTo == expected.MovedTo && l.MovedFrom == expected.MovedFrom
}

// grant begins a leadership if the lease is still as expected. This process has the lock.
func (b *Backend) grant(h *electionLock, bid backend.Bid) (a backend.Answer, err error) {
	s, err := b.readUnderLock(bid.Election, h)
	if err != nil {
		return a, err
	}
	if h.term == 0 && !isExpected(b.lease(s), bid.Expected) || s.rec.MovedTo != bid.Expected.MovedTo {
		return backend.Answer{Outcome: backend.Refused}, nil
	}
	_, listed, err := b.isListed(bid.Election)
	if err == nil {
		err = b.addElection(bid.Election)
	}
	if err != nil {
		return a, err
	}
	if err := b.lockDir(h); err != nil {
		return a, err
	}
	now := time.Now().UTC()
	term, err := b.nextTerm(s, bid.MinTerm, listed, now)
	if err != nil {
		return a, err
	}
	line := lockLine{Term: term, Nonce: string(bid.Candidate.Nonce), Heartbeat: heartbeat(), TTL: bid.TTL, Renew: bid.Renew, Lock: h.id, Written: now}
	if err := line.write(h.f); err != nil {
		return a, err
	}
	// Only now: until then other processes read what they read before.
	if got, err := setProbeLock(h.f); err != nil || !got {
		return backend.Answer{Outcome: backend.Refused}, err
	}
	if err := syncData(h.f); err != nil {
		return a, err
	}
	if s.line.Term == 0 { // the file may be new: write its name to the disk, too
		if err := b.syncDir(); err != nil {
			return a, err
		}
	}
	if err := b.removeRequest(bid.Election); err != nil {
		return a, err
	}
	r := s.rec
	r.endLeadership(backend.Failed, now, s.lapsed(now))
	r.Layout, r.Election, r.Term, r.Heartbeat, r.Lock = layout, bid.Election, term, line.Heartbeat, h.id
	r.Holder = &candidate{bid.Candidate.ID, string(bid.Candidate.Nonce), bid.Candidate.Address, bid.Candidate.Metadata}
	r.TTL, r.Renew, r.Written, r.Elected = bid.TTL, bid.Renew, now, now
	if err := b.writeRecord(r, false); err != nil {
		return a, err
	}
	if now, err := identityAt(b.path(bid.Election, lockSuffix)); err != nil || now != h.id {
		return backend.Answer{Outcome: backend.Refused}, err // the file was removed during the grant
	}
	b.mu.Lock()
	h.term, h.rec = term, r
	b.held[bid.Election] = h
	b.mu.Unlock()
	s.rec, s.line, s.request, s.filesLost = r, line, backend.Request{}, false
	return backend.Answer{Lease: b.lease(s), Outcome: backend.Granted, ValidFor: bid.TTL}, nil
}

// nextTerm returns the term of a new leadership. A file of this election may be lost, and
// with it a greater term: then the term skips some (docs/design/file.md, "Terms"). A first
// election has lost none.
func (b *Backend) nextTerm(s state, minTerm uint64, listed bool, now time.Time) (uint64, error) {
	last := max(s.rec.Term, s.line.Term)
	skip := s.filesLost || s.rec.Term == 0 || s.line.Term == 0
	if last == 0 && !listed && !s.filesLost && b.registerComplete() {
		skip = false
	}
	return backend.NextTerm(last, skip, minTerm, now)
}
