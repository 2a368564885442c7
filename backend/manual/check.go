package manual

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Check reports what looks wrong with the configuration, for health checks and operators:
// a file that cannot be used, and, where this process can see other members (Dir, Store),
// a leader that is not the named one, which means that configurations differ, and a named
// id that no live member has. All errors are ErrDenied, unless the store cannot be read.
func (b *Backend) Check(ctx context.Context) error {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return fail("check", err)
	}
	a, err := b.assignment()
	if err != nil {
		return fail("check", err)
	}
	if b.private {
		return nil
	}
	const limit = 10000
	records, err := b.inner.List(ctx, "", limit)
	members, err2 := b.inner.Members(ctx, "", limit)
	if err := errors.Join(err, err2); err != nil {
		return fail("check", err)
	}
	var wrong []error
	for _, r := range records {
		if id := a.named(r.Election); !r.Vacant() && id != Self && r.Holder.ID != id {
			wrong = append(wrong, fmt.Errorf("%w: %q is led by %q, and the configuration here names %q: configurations differ, or the leader has not stepped down yet", backend.ErrDenied, r.Election, r.Holder.ID, id))
		}
	}
	live := map[string]bool{"": true, Self: true}
	for _, m := range members {
		live[m.ID] = true
	}
	named := map[string]bool{a.Leader: true}
	for _, id := range a.Elections {
		named[id] = true
	}
	for id := range named {
		if !live[id] {
			wrong = append(wrong, fmt.Errorf("%w: %q is named, and no live member has that id", backend.ErrDenied, id))
		}
	}
	return fail("check", errors.Join(wrong...))
}
