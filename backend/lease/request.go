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
	return b.fail(backend.Describe("request", len(requests), requests[0].Election), b.request(ctx, requests))
}

func (b *Backend) request(ctx context.Context, requests []backend.Request) error {
	var stale []error
	plan := func(
		_ *view, states []state, asked []backend.Request,
	) (changes []Change, of [][]backend.Request) {
		for n, q := range asked {
			st := &states[n]
			if q.Term == 0 || st.Term != q.Term {
				stale = append(stale, fmt.Errorf("election %q has term %d, not %d: %w",
					q.Election, st.Term, q.Term, backend.ErrStale))
				continue
			}
			replaced := func(by backend.Request) bool {
				return by.Election == q.Election && by.Term == q.Term
			}
			if slices.ContainsFunc(asked[n+1:], replaced) {
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
			of = append(of, []backend.Request{q})
		}
		return changes, of
	}
	name := func(q backend.Request) string { return q.Election }
	err := change(ctx, b, requests, nil, nil, name, plan, func(backend.Request) {})
	return backend.Join(append(stale, err)...)
}
