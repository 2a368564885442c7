package kubernetes

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// Acquire implements [backend.Backend]. It writes each Lease by itself, some of them at the same time.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	what := backend.Describe("acquire", len(bids), bids[0].Election)
	if err := b.enter(ctx, what, bids[0].Candidate.Nonce); err != nil {
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
	now, last := time.Now().UTC(), max(s.Term, s.known, bid.Expected.Term)
	if s.record != nil {
		last = backend.GrownTerm(last, s.record.Written, now)
	}
	term, err := backend.NextTerm(last, s.suspect, bid.MinTerm, now)
	if err != nil {
		return nil, err
	}
	return s.grant(bid, term, now).put, nil
}

// enroll has the census written if it may lack the election or the TTL, and makes the Lease if there is none:
// see docs/design/kubernetes.md, "The first grant". Then s is the Lease that it has made.
func (b *Backend) enroll(ctx context.Context, bid *backend.Bid, s *state) error {
	election, missing := bid.Election, ""
	if s.record != nil && s.record.Epoch == string(s.lease.UID) {
		election = "" // the census has it
	}
	select { // so that bids of this process do not fail by each other's writes of the census
	case b.enrolling <- struct{}{}:
		defer func() { <-b.enrolling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.lease == nil { // without a record and a spec that was released, it frees nothing either
		made, err := b.write(ctx, s, touch)
		if err != nil {
			return err
		}
		s.object, missing = made.object, s.Version
	}
	return b.writeCensus(ctx, election, missing, bid.TTL)
}

// Renew implements [backend.Backend] by one request for each lease, some of them at the same time.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renew(ctx, "renew", held, false)
}

func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renew(ctx, "mark", held, true)
}

func (b *Backend) renew(
	ctx context.Context, verb string, held []backend.Held, mark bool,
) ([]backend.Answer, error) {
	what := backend.Describe(verb, len(held), held[0].Election)
	if err := b.enter(ctx, what, held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	return b.answer(ctx, verb, len(held), func(i int) (string, decision) {
		h := &held[i]
		return h.Election, func(s *state) (edit, error) {
			if !s.own || s.Term != h.Term || s.Request.Kind == backend.Depose {
				return nil, nil
			}
			r := *s.record
			r.Heartbeat, r.Written = lease.NewHeartbeat(), later(r.Written, time.Duration(r.Renew))
			if mark {
				r.MovedTo, r.MovedFrom = h.MovedTo, h.MovedFrom
			}
			return r.put, nil
		}
	})
}

// later returns the time of a renewal after another write. Members of client-go watch nothing but
// renewTime, and that in whole seconds. So it is in a later second, even if the clock was set back,
// unless renewals are more frequent: see record.spec.
func later(before time.Time, renew time.Duration) time.Time {
	now, next := time.Now().UTC(), before.Truncate(time.Second).Add(time.Second)
	if renew >= time.Second && now.Before(next) {
		return next
	}
	return now
}

// Release implements [backend.Backend]. Members of client-go may lead over vacant records at once, too.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	what := backend.Describe("release", len(held), held[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	nonce := b.owner.Nonce()
	if nonce == "" {
		return nil // it has held nothing
	}
	errs := make([]error, len(held))
	client.InParallel(len(held), 16, func(i int) { errs[i] = b.fail(b.release(ctx, &held[i], nonce)) })
	return b.wrap(what, backend.Join(errs...))
}

func (b *Backend) release(ctx context.Context, h *backend.Held, nonce backend.Nonce) error {
	_, _, err := b.update(ctx, h.Election, func(s *state) (edit, error) {
		switch {
		case s.Holder.Nonce == nonce && (h.Term == 0 || h.Term == s.Term):
			return s.vacated(h.End).put, nil
		case h.Term == 0 && s.lease != nil: // what is on its way requires this UID and version, or less
			return touch, nil
		}
		return nil, nil
	})
	return err
}

// vacated returns the vacant record that follows a leadership of this process.
func (s *state) vacated(how backend.End) *record {
	r := *s.record
	r.ID, r.Nonce, r.Address, r.Metadata, r.TTL, r.Renew = "", "", "", "", 0, 0
	r.Heartbeat, r.Elected = lease.NewHeartbeat(), time.Now().UTC()
	r.Written = r.Elected
	s.endLeadership(&r, how, r.Written)
	if s.suspect { // a later grant may be lost: nobody may lead at once
		r.Epoch = ""
	}
	return &r
}

// Adopt implements [backend.Adopter]. Release goes by the nonce alone.
func (b *Backend) Adopt(nonce backend.Nonce, _ []backend.Held) error {
	return b.wrap("adopt", b.owner.Admit(nonce))
}

// Request implements [backend.Backend]. It writes the record once more, and leaves the spec alone.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	what := backend.Describe("request", len(requests), requests[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	errs := make([]error, len(requests))
	for i := range requests {
		errs[i] = b.fail(b.request(ctx, &requests[i]))
	}
	return b.wrap(what, backend.Join(errs...))
}

func (b *Backend) request(ctx context.Context, q *backend.Request) error {
	s, written, err := b.update(ctx, q.Election, func(s *state) (edit, error) {
		if q.Term == 0 || s.Term != q.Term || s.record == nil {
			return nil, nil
		}
		r := *s.record
		if r.Request = nil; q.Kind != "" {
			r.Request = &lease.Request{Kind: q.Kind, ID: q.ID, Nonce: string(q.Nonce)}
		}
		return r.putBeside, nil
	})
	if err == nil && !written {
		return fmt.Errorf("election %q has term %d, not %d: %w", q.Election, s.Term, q.Term, backend.ErrStale)
	}
	return err
}
