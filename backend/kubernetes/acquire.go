package kubernetes

import (
	"context"
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

// acquire bids for one lease. It begins with what was read last. Each write requires the Lease as it was read; if
// only something else of it has changed, acquire tries again.
func (b *Backend) acquire(ctx context.Context, bid *backend.Bid) (answer backend.Answer, err error) {
	err = b.attempt(ctx, bid.Election, func(s *state) (bool, error) {
		if !s.own && !s.Unchanged(bid.Expected) || s.MovedTo != bid.Expected.MovedTo {
			answer = backend.Answer{Lease: s.Lease, Outcome: backend.Refused}
			return false, nil
		}
		after, err := b.grant(ctx, bid, *s)
		answer = backend.Answer{Lease: after.Lease, Outcome: backend.Granted, ValidFor: bid.TTL}
		return true, err
	})
	if err != nil {
		return backend.Answer{}, err
	}
	return answer, nil
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

	b.setPending(s.name, true)
	after, err = b.write(ctx, &s, s.grant(bid, term, now).put)
	if err == nil || conflict(err) || api.IsNotFound(err) { // whatever else says nothing of an earlier copy
		b.setPending(s.name, false)
	}
	if err == nil && (!after.own || after.Term != term) {
		err = errBack // noticed meanwhile
	}
	return after, err
}

// enroll has the census written if it may lack the election or the TTL, and makes the Lease if there is none: see
// docs/design/kubernetes.md, "The first grant". It returns the state over which the grant is to be written.
func (b *Backend) enroll(ctx context.Context, bid *backend.Bid, s state) (state, error) {
	election, missing := bid.Election, ""
	if s.lease != nil && s.record != nil && s.record.Epoch == string(s.lease.UID) {
		election = "" // the census has it
	}
	b.mu.Lock()
	c, _ := b.lastCensus()
	b.mu.Unlock()
	if election == "" && c != nil && c.MaxTTL >= bid.TTL {
		return s, nil
	}

	select { // one after another, so that bids of this process do not fail by each other's writes of the census
	case b.enrolling <- struct{}{}:
		defer func() { <-b.enrolling }()
	case <-ctx.Done():
		return state{}, ctx.Err()
	}
	if s.lease == nil {
		missing = s.Version
		var err error
		if s, err = b.make(ctx, s); err != nil {
			return state{}, err
		}
	}
	return s, b.writeCensus(ctx, election, missing, bid.TTL)
}

// make makes the Lease of an election that has none. By itself it grants nothing: a record without the UID
// frees nothing either.
func (b *Backend) make(ctx context.Context, missing state) (made state, err error) {
	now := time.Now().UTC()
	r := &record{Record: lease.Record{
		Election: missing.Election, Heartbeat: lease.NewHeartbeat(), Elected: now, Written: now,
	}}
	made, err = b.write(ctx, &missing, r.put)
	made.Lease, made.suspect = missing.Lease, missing.suspect
	return made, err
}
