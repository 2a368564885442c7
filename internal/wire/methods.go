package wire

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// The methods of [backend.Backend]. They copy slices, because a request may still be in
// flight after its call has returned, when the caller may reuse the slices.

func (w *Wire) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	bids = slices.Clone(bids)
	return carry(w, ctx, callAboutBids("Acquire", bids), func(ctx context.Context) ([]backend.Answer, error) {
		return w.Inner.Acquire(ctx, bids)
	}, w.recordAnswers)
}

func (w *Wire) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	held = slices.Clone(held)
	return carry(w, ctx, callAboutHeld("Renew", held), func(ctx context.Context) ([]backend.Answer, error) {
		return w.Inner.Renew(ctx, held)
	}, w.recordAnswers)
}

// Mark implements [backend.Marker]. For a Backend that does not, it returns ErrInvalid.
func (w *Wire) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	held = slices.Clone(held)
	return carry(w, ctx, callAboutHeld("Mark", held), func(ctx context.Context) ([]backend.Answer, error) {
		m, ok := w.Inner.(backend.Marker)
		if !ok {
			return nil, fmt.Errorf("wire: mark: %w: the store keeps no marks", backend.ErrInvalid)
		}
		return m.Mark(ctx, held)
	}, w.recordAnswers)
}

func (w *Wire) Release(ctx context.Context, held []backend.Held) error {
	held = slices.Clone(held)
	// The backend resolves term 0 during the call: it finds the lease that its nonce
	// holds and then releases exactly that one. Only the second step can arrive late, and
	// it names a term. Delivering the whole call later would end a later grant, which no
	// correct backend does.
	zero := slices.ContainsFunc(held, func(l backend.Held) bool { return l.Term == 0 })
	caller := ctx
	return w.carryError(ctx, callAboutHeld("Release", held), func(ctx context.Context) error {
		if zero && caller.Err() != nil {
			return caller.Err()
		}
		return w.Inner.Release(ctx, held)
	})
}

func (w *Wire) Observe(ctx context.Context, leases []backend.Lease) ([]backend.Lease, error) {
	leases = slices.Clone(leases)
	return carry(w, ctx, callAboutLeases("Observe", leases), func(ctx context.Context) ([]backend.Lease, error) {
		return w.Inner.Observe(ctx, leases)
	}, nil)
}

func (w *Wire) Listen(ctx context.Context, leases []backend.Lease) error {
	leases = slices.Clone(leases)
	return w.carryError(ctx, callAboutLeases("Listen", leases), func(ctx context.Context) error {
		return w.Inner.Listen(ctx, leases)
	})
}

func (w *Wire) Request(ctx context.Context, requests []backend.Request) error {
	requests = slices.Clone(requests)
	c := Call{Method: "Request"}
	for _, x := range requests {
		c.Elections, c.Terms = append(c.Elections, x.Election), append(c.Terms, x.Term)
	}
	return w.carryError(ctx, c, func(ctx context.Context) error {
		return w.Inner.Request(ctx, requests)
	})
}

func (w *Wire) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	return carry(w, ctx, Call{Method: "List"}, func(ctx context.Context) ([]backend.Record, error) {
		return w.Inner.List(ctx, from, limit)
	}, nil)
}

func (w *Wire) Announce(ctx context.Context, m backend.Member) error {
	return w.carryError(ctx, Call{Method: "Announce"}, func(ctx context.Context) error {
		return w.Inner.Announce(ctx, m)
	})
}

func (w *Wire) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	return carry(w, ctx, Call{Method: "Members"}, func(ctx context.Context) ([]backend.Member, error) {
		return w.Inner.Members(ctx, from, limit)
	}, nil)
}

// Preflight implements [backend.Preflighter]. For a Backend that does not, it returns no
// errors.
func (w *Wire) Preflight(ctx context.Context, bids []backend.Bid) []error {
	bids = slices.Clone(bids)
	errs, err := carry(w, ctx, callAboutBids("Preflight", bids), func(ctx context.Context) ([]error, error) {
		if p, ok := w.Inner.(backend.Preflighter); ok {
			return p.Preflight(ctx, bids), nil
		}
		return make([]error, len(bids)), nil
	}, nil)
	if err != nil {
		errs = slices.Repeat([]error{err}, len(bids))
	}
	return errs
}

// Prepare implements [backend.Preparer]. For a Backend that does not, it does nothing.
func (w *Wire) Prepare(ctx context.Context) error {
	p, ok := w.Inner.(backend.Preparer)
	if !ok {
		return nil
	}
	return w.carryError(ctx, Call{Method: "Prepare"}, func(ctx context.Context) error {
		return p.Prepare(ctx)
	})
}

// Adopt implements [backend.Adopter], if the Backend within does.
func (w *Wire) Adopt(nonce backend.Nonce, held []backend.Held) error {
	return w.Inner.(backend.Adopter).Adopt(nonce, held)
}

// CanAdopt implements [backend.CanAdopt].
func (w *Wire) CanAdopt() error { return backend.CanAdopt(w.Inner) }

func (w *Wire) Guarantees() backend.Guarantees { return w.Inner.Guarantees() }

// Close drops all requests in flight and closes the inner backend.
func (w *Wire) Close() error {
	defer w.closing.Do(func() { close(w.Closed) })
	w.cancel()
	w.inFlight.Wait()
	return w.Inner.Close()
}

func callAboutBids(method string, bids []backend.Bid) Call {
	c := Call{Method: method}
	for _, b := range bids {
		c.Elections = append(c.Elections, b.Election)
	}
	return c
}

func callAboutHeld(method string, held []backend.Held) Call {
	c := Call{Method: method}
	for _, h := range held {
		c.Elections, c.Terms = append(c.Elections, h.Election), append(c.Terms, h.Term)
	}
	return c
}

func callAboutLeases(method string, leases []backend.Lease) Call {
	c := Call{Method: method}
	for _, l := range leases {
		c.Elections, c.Terms = append(c.Elections, l.Election), append(c.Terms, l.Term)
	}
	return c
}

// recordAnswers records the outcomes, after removing those of f.Spoil.
func (w *Wire) recordAnswers(c *Call, f Fate, answers []backend.Answer) {
	for i := range answers {
		if i < len(c.Elections) && slices.Contains(f.Spoil, c.Elections[i]) {
			answers[i] = backend.Answer{Err: fmt.Errorf("wire: outcome removed: %w", backend.ErrUnavailable)}
		}
		c.Outcomes = append(c.Outcomes, answers[i].Outcome)
		if c.Method == "Acquire" && answers[i].Outcome == backend.Granted {
			c.Granted = append(c.Granted, answers[i].Lease)
		}
	}
}
