package kubernetes

import (
	"context"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// Renew implements [backend.Backend] by one request for each lease, some of them at the same time.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renew(ctx, "renew", held, false)
}

// Mark implements [backend.Marker].
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renew(ctx, "mark", held, true)
}

func (b *Backend) renew(ctx context.Context, verb string, held []backend.Held, mark bool) ([]backend.Answer, error) {
	if err := b.enter(ctx, about(verb, len(held), held[0].Election), held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(held))
	b.each(len(held), func(i int) {
		h := &held[i]
		s, written, err := b.update(ctx, h.Election, func(s *state) edit {
			if !s.own || s.Term != h.Term || s.Request.Kind == backend.Depose {
				return nil
			}
			r := *s.record
			r.Heartbeat, r.Written = lease.NewHeartbeat(), later(r.Written, time.Duration(r.Renew))
			if mark {
				r.MovedTo, r.MovedFrom = h.MovedTo, h.MovedFrom
			}
			return r.put
		})
		switch {
		case err != nil:
			answers[i].Err = wrap(about(verb, 1, h.Election), err)
		case !written:
			answers[i] = backend.Answer{Lease: s.Lease, Outcome: backend.Refused}
		case !s.own:
			answers[i].Err = wrap(about(verb, 1, h.Election), errBack) // noticed meanwhile
		default:
			answers[i] = backend.Answer{Lease: s.Lease, Outcome: backend.Granted, ValidFor: s.TTL}
		}
	})
	return answers, allFailed(answers)
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

// Release implements [backend.Backend]. It writes vacant records, over which members of client-go may
// lead at once, too.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	what := about("release", len(held), held[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	nonce := b.owner.Nonce()
	if nonce == "" {
		return nil // it has held nothing
	}
	errs := make([]error, len(held))
	b.each(len(held), func(i int) { errs[i] = b.release(ctx, &held[i], string(nonce)) })
	return wrap(what, backend.Join(errs...))
}

func (b *Backend) release(ctx context.Context, h *backend.Held, nonce string) error {
	name := b.names.election(h.Election)
	b.mu.Lock()
	pending := b.pending[name]
	b.mu.Unlock()
	_, _, err := b.update(ctx, h.Election, func(s *state) edit {
		r := s.record
		switch {
		case s.lease == nil: // what is still on its way requires the UID
			return nil
		case r != nil && r.Nonce == nonce && r.Election == h.Election && (h.Term == 0 || h.Term == r.Term) && r.wrote(&s.lease.Spec):
			return s.vacated(h.End).put
		case h.Term == 0 && pending: // what is on its way requires the version that the Lease has now, or an earlier one
			return touch
		}
		return nil
	})
	if err == nil {
		b.setPending(name, false)
	}
	return err
}

// setPending notes whether a bid for the Lease of this name may be on its way.
func (b *Backend) setPending(name string, pending bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending[name] = pending
}

// vacated returns the vacant record that follows a leadership of this process.
func (s *state) vacated(how backend.End) *record {
	old, now := s.record, time.Now().UTC()
	r := &record{Transitions: old.Transitions, Record: lease.Record{
		Election: old.Election, Epoch: old.Epoch, Term: old.Term, Heartbeat: lease.NewHeartbeat(), Request: old.Request,
		Elected: now, Written: now, MovedTo: old.MovedTo, MovedFrom: old.MovedFrom,
	}}
	r.End, r.LastID, r.History = s.endLeadership(how, r.Written)
	if s.suspect { // a later grant may be lost: nobody may lead at once
		r.Epoch = ""
	}
	return r
}

// Adopt implements [backend.Adopter].
func (b *Backend) Adopt(nonce backend.Nonce, held []backend.Held) error {
	if err := b.owner.Admit(nonce); err != nil {
		return fmt.Errorf("kubernetes: adopt: %w", err)
	}
	for _, h := range held {
		b.setPending(b.names.election(h.Election), true)
	}
	return nil
}

// Request implements [backend.Backend]. It writes the record once more, and leaves the spec alone.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	what := about("request", len(requests), requests[0].Election)
	if err := b.enter(ctx, what, ""); err != nil {
		return err
	}
	errs := make([]error, len(requests))
	for i := range requests {
		errs[i] = b.request(ctx, &requests[i])
	}
	return wrap(what, backend.Join(errs...))
}

func (b *Backend) request(ctx context.Context, q *backend.Request) error {
	s, written, err := b.update(ctx, q.Election, func(s *state) edit {
		if q.Term == 0 || s.Term != q.Term || s.record == nil {
			return nil
		}
		r := *s.record
		if r.Request = nil; q.Kind != "" {
			r.Request = &lease.Request{Kind: q.Kind, ID: q.ID, Nonce: string(q.Nonce)}
		}
		return r.putBeside
	})
	if err == nil && !written {
		return fmt.Errorf("election %q has term %d, not %d: %w", q.Election, s.Term, q.Term, backend.ErrStale)
	}
	return err
}
