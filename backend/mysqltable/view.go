package mysqltable

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/go-election/go-election/backend"
)

// A claim is whose a row is, seen beside the lease.
type claim uint8

const (
	none    claim = iota // there is no row
	ours                 // of the lease's holder, or its last one; or nobody's, vacated by one of ours
	unnamed              // nobody's, by somebody else's hand
	named                // somebody else has written that this process shall lead
	theirs               // another program's
)

// A view is one election: the lease as this module keeps it, the row, and both
// together.
type view struct {
	inner backend.Lease
	row   row
	claim claim
	lease backend.Lease // what this Backend says
	key   string
	err   error // of this election alone
}

// compose says what a member of this module must make of lease and row.
func (b *Backend) compose(v *view) {
	l, r, me := v.inner, v.row, b.self()
	v.claim = b.claimOf(l, r, me.ID)
	switch v.claim {
	case none:
		// Who deleted it wished for a new election. A program that led by it may
		// not have looked since.
		l.Ref += " no row"
		l.ObserveFor = longer(l.ObserveFor, b.options.Period)
	case unnamed:
		l.Ref += " unnamed " + r.at
		l.ObserveFor = longer(l.ObserveFor, b.options.Period)
	case named:
		// Who led until then may not have looked since.
		l.Holder = backend.Candidate{ID: r.holder}
		l.TTL, l.Renew = b.options.Threshold, b.options.Period
		l.ObserveFor = longer(l.ObserveFor, b.options.Period)
	case theirs:
		l.Holder = backend.Candidate{ID: r.holder}
		l.TTL, l.Renew = b.watch(), b.options.Period
		l.ObserveFor = longer(l.ObserveFor, b.watch())
		if r.age < -b.options.Threshold && r.at != sealed {
			// In the future: by no clock but the server's will it be over.
			l.ObserveFor = backend.ExpiresInStore
		}
	}
	if v.claim == named || v.claim == theirs {
		l.Age = max(r.age, 0)
		h := fnv.New64a()
		fmt.Fprintf(h, "%d %q %q", l.Heartbeat, r.holder, r.at)
		l.Heartbeat = h.Sum64() | 1
	}
	v.lease = backend.CleanLease(l)
}

// longer is the longer of two watches.
func longer(a, b time.Duration) time.Duration {
	if a < 0 {
		return a
	}
	return max(a, b)
}

func (b *Backend) claimOf(l backend.Lease, r row, me string) claim {
	holder := l.Holder
	if l.Vacant() {
		holder = backend.Candidate{ID: l.LastID, Nonce: l.LastNonce}
	}
	switch {
	case !r.found:
		return none
	case holder.Nonce != "" && r.holder == b.shape.holderOf(holder, l.Term):
		return ours
	case r.holder == "" && (r.at == vacated || r.at == sealed):
		return ours
	case l.MovedTo != "" && r.at == sealed && marked.MatchString(r.holder):
		return ours // of who sealed it, or held it since
	case r.holder == "":
		return unnamed
	case b.shape.names(r.holder, me):
		return named
	}
	return theirs
}

// look reads the elections: rows first, then leases, so that what a member of ours
// changes in between (it gets the lease before the row) does not look like somebody
// else's doing. Where both have changed hands in between it looks again.
func (b *Backend) look(ctx context.Context, names []string) ([]view, error) {
	views, err := b.lookOnce(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range views {
		if views[i].claim == theirs && marked.MatchString(views[i].row.holder) {
			return b.lookOnce(ctx, names)
		}
	}
	return views, nil
}

func (b *Backend) lookOnce(ctx context.Context, names []string) ([]view, error) {
	keys, errs := b.keysOf(names)
	var rows []row
	err := b.on(ctx, "read", func(conn *sql.Conn) (err error) {
		rows, err = b.read(ctx, conn, keys, errs)
		return err
	})
	if err != nil {
		return nil, err
	}
	leases, err := b.leases(ctx, names)
	if err != nil {
		return nil, err
	}
	views := make([]view, len(names))
	for i := range names {
		views[i] = view{inner: leases[i], row: rows[i], key: keys[i], err: errs[i]}
		b.compose(&views[i])
	}
	return views, nil
}

// leases reads the leases, in the order of names.
func (b *Backend) leases(ctx context.Context, names []string) ([]backend.Lease, error) {
	list := make([]backend.Lease, len(names))
	at := make(map[string]int, len(names))
	for i, name := range names {
		list[i].Election, at[name] = name, i
	}
	found, err := b.inner.Observe(ctx, list)
	for _, l := range found {
		list[at[l.Election]] = l
	}
	return list, err
}

// Observe implements [backend.Backend].
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	if err := b.serve(ctx, backend.Candidate{}); err != nil {
		return nil, err
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	views, err := b.look(ctx, names)
	if err != nil {
		return nil, err
	}
	for i, old := range seen {
		// What is wrong with a name is said to who bids for it.
		if now := views[i].lease; old.Heartbeat == 0 || !now.Unchanged(old) || now.Holder != old.Holder || now.Request != old.Request {
			changed = append(changed, now)
		}
	}
	return changed, nil
}

// List implements [backend.Backend]: elections that members of this module have led.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.serve(ctx, backend.Candidate{}); err != nil {
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
	views, err := b.look(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range list {
		v := &views[i]
		if v.claim == theirs || v.claim == named {
			list[i].Elected = time.Time{} // nobody knows
		}
		if v.err == nil {
			list[i].Lease = v.lease
		}
	}
	return list, nil
}
