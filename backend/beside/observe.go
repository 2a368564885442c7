package beside

import (
	"context"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A pair is one election as it was read: the inner lease, the lock, and what both together mean.
type pair struct {
	inner backend.Lease
	state State
	lease backend.Lease // of both, for the caller
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

// combine sets what follows from lease and lock, and remembers the lease for Listen.
func (b *Backend) combine(p *pair) {
	l, s := p.inner, &p.state
	if !p.ours() && s.Err == nil {
		l.Version += " " + s.Version
		l.ObserveFor = longer(l.ObserveFor, s.Watch)

		if s.Who != "" {
			l.Holder = backend.Candidate{ID: s.Who}
			l.TTL, l.Renew, l.Age = s.TTL, s.Renew, s.Age
		}
	}
	p.lease = clean.Lease(l)

	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown[l.Election], b.versions[l.Election] = p.inner, p.lease.Version
}

// longer returns the longer of two times to observe. A negative one, which only the inner store ends, is
// the longest.
func longer(a, b time.Duration) time.Duration {
	if a < 0 {
		return a
	}
	return max(a, b)
}

// read reads elections: the locks first, then the leases. See "Readings" in the package documentation.
func (b *Backend) read(ctx context.Context, names []string) ([]pair, error) {
	pairs, err := b.readOnce(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range pairs {
		if pairs[i].state.Term != 0 && !pairs[i].ours() {
			return b.readOnce(ctx, names)
		}
	}
	return pairs, nil
}

func (b *Backend) readOnce(ctx context.Context, names []string) ([]pair, error) {
	states, err := b.lock.Read(ctx, b.self().ID, names)
	if err != nil {
		return nil, err
	}
	leases, err := b.readLeases(ctx, names)
	if err != nil {
		return nil, err
	}

	pairs := make([]pair, len(names))
	for i := range names {
		pairs[i] = pair{inner: leases[i], state: states[i]}
		b.combine(&pairs[i])
	}
	return pairs, nil
}

// readLeases reads the inner leases, in the order of names.
func (b *Backend) readLeases(ctx context.Context, names []string) ([]backend.Lease, error) {
	leases := make([]backend.Lease, len(names))
	at := make(map[string]int, len(names))
	for i, name := range names {
		leases[i].Election, at[name] = name, i
	}

	found, err := b.inner.Observe(ctx, leases)
	for _, l := range found {
		leases[at[l.Election]] = l
	}
	return leases, err
}

// Observe implements [backend.Backend]. A name that the lock cannot have is reported to who bids for it.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, err
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	pairs, err := b.read(ctx, names)
	if err != nil {
		return nil, err
	}

	for i, old := range seen {
		if now := pairs[i].lease; old.Version == "" || now.Differs(old) {
			changed = append(changed, now)
		}
	}
	return changed, nil
}

// List implements [backend.Backend]: elections that members of this module have led.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, err
	}
	list, err := b.inner.List(ctx, from, limit)
	if err != nil || len(list) == 0 {
		return list, err
	}
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = r.Election
	}
	pairs, err := b.read(ctx, names)
	if err != nil {
		return nil, err
	}

	for i := range list {
		p := &pairs[i]
		if p.state.Err != nil {
			continue
		}
		list[i].Lease = p.lease
		if !p.ours() && p.state.Who != "" {
			list[i].Elected = time.Time{} // not known
		}
	}
	return list, nil
}
