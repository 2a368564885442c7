package kubernetes

import (
	"context"
	"fmt"
	"time"

	api "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Acquire implements [backend.Backend]. It writes each Lease by itself, some of them at the same time.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(ctx, about("acquire", len(bids), bids[0].Election), bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	b.each(len(bids), func(i int) {
		answer, err := b.acquire(ctx, &bids[i])
		answer.Err = wrap(about("acquire", 1, bids[i].Election), err)
		answers[i] = answer
	})
	return answers, allFailed(answers)
}

// acquire makes one attempt at a lease. It begins with what was read last, if that is as the bid expects it.
// Each write requires the Lease as it was read; if only something else of it has changed, acquire tries again.
func (b *Backend) acquire(ctx context.Context, bid *backend.Bid) (backend.Answer, error) {
	if err := checkTTL(bid.TTL); err != nil {
		return backend.Answer{}, err
	}
	b.mu.Lock()
	b.longest = max(b.longest, bid.TTL)
	b.mu.Unlock()

	s, ok := b.remembered(bid.Election)
	ok = ok && !s.suspect && s.Unchanged(bid.Expected)
	for range rounds {
		if !ok {
			var err error
			if s, err = b.readOne(ctx, bid.Election); err != nil {
				return backend.Answer{}, err
			}
		}
		ok = false
		if !s.own && !s.Unchanged(bid.Expected) || s.MovedTo != bid.Expected.MovedTo {
			return backend.Answer{Lease: s.Lease, Outcome: backend.Refused}, nil
		}

		after, err := b.grant(ctx, bid, s)
		switch {
		case err == nil:
			return backend.Answer{Lease: after.Lease, Outcome: backend.Granted, ValidFor: bid.TTL}, nil
		case !conflict(err):
			return backend.Answer{}, b.fail(err)
		}
	}
	return backend.Answer{}, errBusy
}

func checkTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("%w: TTL is %v; it must be %v to %v", backend.ErrInvalid, ttl, MinTTL, MaxTTL)
	}
	return nil
}

// grant writes a grant over what was read, after the census has the election and the TTL. A conflict means that
// the election must be read again.
func (b *Backend) grant(ctx context.Context, bid *backend.Bid, s state) (after state, err error) {
	if s, err = b.enroll(ctx, bid, s); err != nil {
		return state{}, err
	}
	now := time.Now().UTC()
	term, err := backend.NextTerm(max(s.lastTerm(now), bid.Expected.Term), s.suspect, bid.MinTerm, now)
	if err != nil {
		return state{}, err
	}

	b.mu.Lock()
	longest := b.longest
	b.pending[s.name] = true
	b.mu.Unlock()
	after, err = b.write(ctx, &s, change{record: s.grant(bid, term, now, longest)})
	if err == nil || conflict(err) || api.IsNotFound(err) { // whatever else says nothing of an earlier copy
		b.mu.Lock()
		delete(b.pending, s.name)
		b.mu.Unlock()
	}
	if err == nil && (!after.own || after.Term != term) {
		err = errBack // noticed meanwhile
	}
	return after, err
}

// enroll has the census written if it may lack the election or the TTL, and makes the Lease if there is none: see
// docs/design/kubernetes.md, "The first grant". It returns the state over which the grant is to be written.
func (b *Backend) enroll(ctx context.Context, bid *backend.Bid, s state) (state, error) {
	missing := s.lease == nil
	known := !missing && s.record != nil && s.record.Epoch == string(s.lease.UID)
	b.mu.Lock()
	enrolled := known && b.census != nil && b.census.MaxTTL >= bid.TTL
	b.mu.Unlock()
	if enrolled {
		return s, nil
	}

	select { // one after another, so that bids of this process do not fail by each other's writes of the census
	case b.enrolling <- struct{}{}:
		defer func() { <-b.enrolling }()
	case <-ctx.Done():
		return state{}, ctx.Err()
	}
	switch {
	case known:
		return s, b.writeCensus(ctx, "", "", bid.TTL)
	case !missing:
		return s, b.writeCensus(ctx, bid.Election, "", bid.TTL)
	}
	made, err := b.make(ctx, s)
	if err != nil {
		return state{}, err
	}
	return made, b.writeCensus(ctx, bid.Election, s.Version, bid.TTL)
}

// make makes the Lease of an election that has none. By itself it grants nothing: a record without the UID
// frees nothing either.
func (b *Backend) make(ctx context.Context, missing state) (made state, err error) {
	now := time.Now().UTC()
	made, err = b.write(ctx, &missing, change{record: &record{Record: lease.Record{
		Election: missing.Election, Heartbeat: lease.NewHeartbeat(), Elected: now, Written: now,
	}}})
	made.Lease, made.suspect = missing.Lease, missing.suspect
	return made, err
}
