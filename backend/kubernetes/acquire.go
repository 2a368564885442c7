package kubernetes

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Acquire implements [backend.Backend]. It writes each Lease by itself, some of them at the same time.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(ctx, about("acquire", len(bids), bids[0].Election), bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	return b.answer(ctx, "acquire", len(bids), func(i int) (string, decision) {
		bid := &bids[i]
		return bid.Election, func(s *state) (edit, error) { return b.grant(ctx, bid, s) }
	})
}

// grant decides on a bid. It returns the edit that grants it, after the census has the election and the TTL.
func (b *Backend) grant(ctx context.Context, bid *backend.Bid, s *state) (edit, error) {
	if !s.own && !s.Unchanged(bid.Expected) || s.MovedTo != bid.Expected.MovedTo {
		return nil, nil
	}
	if err := b.enroll(ctx, bid, s); err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	term, err := backend.NextTerm(max(s.lastTerm(now), bid.Expected.Term), s.suspect, bid.MinTerm, now)
	if err != nil {
		return nil, err
	}
	return s.grant(bid, term, now).put, nil
}

// enroll has the census written if it may lack the election or the TTL, and makes the Lease if there is none: see
// docs/design/kubernetes.md, "The first grant". Then s is the Lease that it has made.
func (b *Backend) enroll(ctx context.Context, bid *backend.Bid, s *state) error {
	election, missing := bid.Election, ""
	if s.lease != nil && s.record != nil && s.record.Epoch == string(s.lease.UID) {
		election = "" // the census has it
	}
	b.mu.Lock()
	c, _ := b.lastCensus()
	b.mu.Unlock()
	if election == "" && c != nil && c.MaxTTL >= bid.TTL {
		return nil
	}

	select { // one after another, so that bids of this process do not fail by each other's writes of the census
	case b.enrolling <- struct{}{}:
		defer func() { <-b.enrolling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.lease == nil {
		missing = s.Version
		if err := b.make(ctx, s); err != nil {
			return err
		}
	}
	return b.writeCensus(ctx, election, missing, bid.TTL)
}

// make makes the Lease of an election that has none. By itself it grants nothing: a record without the UID
// frees nothing either.
func (b *Backend) make(ctx context.Context, s *state) error {
	now := time.Now().UTC()
	r := &record{Record: lease.Record{
		Election: s.Election, Heartbeat: lease.NewHeartbeat(), Elected: now, Written: now,
	}}
	made, err := b.write(ctx, s, r.put)
	if err != nil {
		return err
	}
	s.object = made.object
	return nil
}
