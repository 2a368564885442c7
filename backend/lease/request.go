package lease

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-election/go-election/backend"
)

// Request implements [backend.Backend]. It writes each record once more with the request if it
// still has the term.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.Enter(""); err != nil {
		return err
	}
	return b.fail(about("request", len(requests), requests[0].Election), b.request(ctx, requests))
}

func (b *Backend) request(ctx context.Context, requests []backend.Request) error {
	var stale []error
	for range rounds {
		names := make([]string, len(requests))
		for n, q := range requests {
			names[n] = q.Election
		}
		v, states, err := b.read(ctx, names)
		if err != nil {
			return backend.Join(append(stale, err)...)
		}

		var changes []Change
		var todo, again []backend.Request
		for n, q := range requests {
			st := &states[n]
			sameElection := func(before backend.Request) bool { return before.Election == q.Election }
			if slices.ContainsFunc(todo, sameElection) {
				again = append(again, q)
				continue
			}
			if q.Term == 0 || st.Term != q.Term {
				stale = append(stale, fmt.Errorf("election %q has term %d, not %d: %w", q.Election, st.Term, q.Term, backend.ErrStale))
				continue
			}
			r := *st.record
			r.Request = nil
			if q.Kind != "" {
				r.Request = &Request{q.Kind, q.ID, string(q.Nonce)}
			}
			if st.suspect { // it must still be watched, and is renewed by nobody
				r.Election, r.Epoch, r.Session = q.Election, "", ""
			}
			changes = append(changes, Change{Put: []Put{{st.item, &r}}, Notify: true})
			todo = append(todo, q)
		}
		if changes == nil {
			return backend.Join(stale...)
		}

		w, err := b.driver.Write(ctx, v.epoch, v.wentBack, changes, nil)
		for n, q := range todo {
			switch r := w.result(n); {
			case r.Outcome == backend.Refused:
				again = append(again, q)
			case r.Outcome == backend.Unknown && err == nil:
				err = r.Err
			}
		}
		if err != nil {
			return backend.Join(append(stale, err)...)
		}
		if requests = again; requests == nil {
			return backend.Join(stale...)
		}
	}
	return backend.Join(append(stale, errBusy)...)
}
