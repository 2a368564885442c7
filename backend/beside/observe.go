package beside

import (
	"cmp"
	"context"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A pair is one election as it was read: the inner lease, and the lock.
type pair struct {
	inner backend.Lease
	state State
}

// ours reports whether no other program has the lock: a member of this module took it in the term of the
// lease, gave it back, or sealed it when the election moved away.
func (p *pair) ours() bool {
	switch {
	case p.state.Free:
		return true
	case p.state.Term == 0:
		return false
	}
	return p.state.Term == p.inner.Term || p.state.Sealed && p.inner.MovedTo != ""
}

// lease is what both together mean, for the caller.
func (p *pair) lease() backend.Lease {
	l, s := p.inner, &p.state
	if !p.ours() && s.Err == nil {
		l.Version += " " + s.Version
		l.ObserveFor = max(l.ObserveFor, s.Watch)

		if s.Who != "" {
			l.Holder = backend.Candidate{ID: s.Who}
			l.TTL, l.Renew, l.Age = s.TTL, 0, s.Age
		}
	}
	return clean.Lease(l)
}

// read reads elections: the locks first, then the leases. See "Readings" in the package documentation.
func (b *Backend) read(ctx context.Context, names []string) ([]pair, error) {
	pairs, unread := make([]pair, len(names)), make([]backend.Lease, len(names))
	for i, name := range names {
		unread[i].Election = name
	}
	for range 2 {
		states, err := b.lock.Read(ctx, names)
		if err != nil {
			return nil, err
		}
		leases, err := b.inner.Observe(ctx, unread) // it returns each of which it gets only the name
		if err != nil {
			return nil, err
		}

		again := false
		for i := range names {
			pairs[i] = pair{leases[i], states[i]}
			again = again || states[i].Term != 0 && !pairs[i].ours()
		}
		if !again {
			break
		}
	}
	return pairs, nil
}

func nameOf(l *backend.Lease) string { return l.Election }

// Observe implements [backend.Backend]. A name that the lock cannot have is reported to who bids for it.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.Enter(""); err != nil {
		return nil, err
	}
	pairs, err := b.read(ctx, elections(seen, nameOf))
	if err != nil {
		return nil, err
	}

	for i, old := range seen {
		if now := pairs[i].lease(); old.Version == "" || now.Differs(old) {
			changed = append(changed, now)
		}
	}
	return changed, nil
}

// List implements [backend.Backend]: elections that members of this module have led.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	list, err := b.inner.List(ctx, from, limit)
	if err != nil || len(list) == 0 {
		return list, err
	}
	pairs, err := b.read(ctx, elections(list, func(r *backend.Record) string { return r.Election }))
	if err != nil {
		return nil, err
	}

	for i := range list {
		p := &pairs[i]
		list[i].Lease = p.lease()
		if !p.ours() && p.state.Who != "" {
			list[i].Elected = time.Time{} // not known
		}
	}
	return list, nil
}

// Listen implements [backend.Backend]. It hears of changes by members of this module, and what the lock
// hears. When a member has released, its lock is free already: see "The order" in the package documentation.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	if err := b.Enter(""); err != nil {
		return err
	}
	names := elections(seen, nameOf)
	pairs, err := b.read(ctx, names)
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	inner := make([]backend.Lease, len(seen))
	for i := range pairs {
		if inner[i] = pairs[i].inner; !onlyRenewed(pairs[i].lease(), seen[i]) {
			return nil // a change that the caller has not seen
		}
	}

	return First(ctx, func(ctx context.Context) error { return b.inner.Listen(ctx, inner) },
		func(ctx context.Context) error { return b.lock.Listen(ctx, names) })
}

// First returns the result of the function that returns first, when all have returned. Without functions it
// waits until ctx is done.
func First(ctx context.Context, functions ...func(context.Context) error) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(functions))
	for _, f := range functions {
		go func() { results <- f(within) }()
	}
	if len(functions) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}

	err := <-results
	cancel()
	for range functions[1:] {
		<-results
	}
	return err
}

// onlyRenewed reports whether a lease is as it was, or was renewed since.
func onlyRenewed(l, was backend.Lease) bool {
	if !l.Differs(was) {
		return true
	}
	was.Version = l.Version
	return !l.Vacant() && !l.Differs(was)
}
