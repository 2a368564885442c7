package wire

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// The methods of [backend.Backend].

func (w *Wire) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	return batch(w, ctx, "Acquire", bids, ofBid, w.Inner.Acquire)
}

func (w *Wire) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return batch(w, ctx, "Renew", held, ofHeld, w.Inner.Renew)
}

// Mark implements [backend.Marker]. For a Backend that does not, it returns ErrInvalid.
func (w *Wire) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	mark := func(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
		m, ok := w.Inner.(backend.Marker)
		if !ok {
			return nil, fmt.Errorf("wire: mark: %w: the store keeps no marks", backend.ErrInvalid)
		}
		return m.Mark(ctx, held)
	}
	return batch(w, ctx, "Mark", held, ofHeld, mark)
}

func (w *Wire) Release(ctx context.Context, held []backend.Held) error {
	// The backend resolves term 0 during the call: it finds the lease that its nonce
	// holds and then releases exactly that one. Only the second step can arrive late, and it names a term.
	// The whole call, delivered later, would end a later grant.
	caller := ctx
	return batchError(w, ctx, "Release", held, ofHeld, func(ctx context.Context, held []backend.Held) error {
		zero := slices.ContainsFunc(held, func(l backend.Held) bool { return l.Term == 0 })
		if zero && caller.Err() != nil {
			return caller.Err()
		}
		return w.Inner.Release(ctx, held)
	})
}

func (w *Wire) Observe(ctx context.Context, leases []backend.Lease) ([]backend.Lease, error) {
	return batch(w, ctx, "Observe", leases, ofLease, w.Inner.Observe)
}

func (w *Wire) Listen(ctx context.Context, leases []backend.Lease) error {
	return batchError(w, ctx, "Listen", leases, ofLease, w.Inner.Listen)
}

func (w *Wire) Request(ctx context.Context, requests []backend.Request) error {
	return batchError(w, ctx, "Request", requests, ofRequest, w.Inner.Request)
}

func (w *Wire) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	return carry(w, ctx, Call{Method: "List"}, func(ctx context.Context) ([]backend.Record, error) {
		return w.Inner.List(ctx, from, limit)
	})
}

func (w *Wire) Announce(ctx context.Context, m backend.Member) error {
	return w.carryError(ctx, Call{Method: "Announce"}, func(ctx context.Context) error {
		return w.Inner.Announce(ctx, m)
	})
}

func (w *Wire) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	return carry(w, ctx, Call{Method: "Members"}, func(ctx context.Context) ([]backend.Member, error) {
		return w.Inner.Members(ctx, from, limit)
	})
}

// Preflight implements [backend.Preflighter]. Another Backend has no errors.
func (w *Wire) Preflight(ctx context.Context, bids []backend.Bid) []error {
	preflight := func(ctx context.Context, bids []backend.Bid) ([]error, error) {
		if p, ok := w.Inner.(backend.Preflighter); ok {
			return p.Preflight(ctx, bids), nil
		}
		return make([]error, len(bids)), nil
	}
	errs, err := batch(w, ctx, "Preflight", bids, ofBid, preflight)
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
	return w.carryError(ctx, Call{Method: "Prepare"}, p.Prepare)
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

// What the items of a batch are about.

func ofBid(b backend.Bid) (election string, term uint64)         { return b.Election, 0 }
func ofHeld(h backend.Held) (election string, term uint64)       { return h.Election, h.Term }
func ofLease(l backend.Lease) (election string, term uint64)     { return l.Election, l.Term }
func ofRequest(r backend.Request) (election string, term uint64) { return r.Election, r.Term }

// batch carries a call about several items. It copies them, because a request may still be in
// flight after its call has returned, when the caller may reuse the slice.
func batch[T, R any](
	w *Wire, ctx context.Context, method string, items []T,
	of func(T) (election string, term uint64), do func(context.Context, []T) (R, error),
) (R, error) {
	items = slices.Clone(items)
	c := Call{Method: method}
	for _, item := range items {
		election, term := of(item)
		c.Elections = append(c.Elections, election)
		c.Terms = append(c.Terms, term)
	}
	return carry(w, ctx, c, func(ctx context.Context) (R, error) { return do(ctx, items) })
}

// batchError is batch for a call that returns only an error.
func batchError[T any](
	w *Wire, ctx context.Context, method string, items []T,
	of func(T) (election string, term uint64), do func(context.Context, []T) error,
) error {
	call := func(ctx context.Context, items []T) (none struct{}, err error) { return none, do(ctx, items) }
	_, err := batch(w, ctx, method, items, of, call)
	return err
}

// record records the outcomes, after removing those of f.Spoil.
func (c *Call) record(f Fate, answers []backend.Answer) {
	for i := range answers {
		if i < len(c.Elections) && slices.Contains(f.Spoil, c.Elections[i]) {
			answers[i] = backend.Answer{Err: fmt.Errorf("wire: outcome removed: %w", backend.ErrUnavailable)}
		}
		c.Outcomes = append(c.Outcomes, answers[i].Outcome)
		if c.Method == "Acquire" && answers[i].Outcome == backend.Granted && i < len(c.Terms) {
			c.Terms[i] = answers[i].Term
		}
	}
}
