package manual

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A Backend grants leases to those who are named. Methods that are not here do not depend on that.
type Backend struct {
	backend.Backend        // keeps the leaderships
	inDir           bool   // it is a directory, where the kernel allows one leader
	file            string // "": the options name the leaders
	maxTTL          time.Duration

	mu      sync.Mutex
	me      backend.Candidate // that this Backend serves, once it has bid
	current assignment        // from the options, or as last read
	led     map[string]uint64 // the version under which this process has led each election
}

// Location implements [backend.Located]: the file that names the leader, else the directory.
func (b *Backend) Location() string { return cmp.Or(b.file, clean.Where(b.Backend)) }

// Guarantees says what a configuration can promise.
func (b *Backend) Guarantees() backend.Guarantees {
	g := b.Backend.Guarantees()
	g.Name = Name
	if b.file != "" {
		g.MaxTTL, g.Poll = b.maxTTL, true
	}
	if !b.inDir {
		g.Expiry, g.Exclusive, g.DurableTerms = backend.ByOperator, false, false
	}
	return g
}

// read returns the assignment, and the leases of n elections as the inner store has them.
func (b *Backend) read(ctx context.Context, n int, of func(int) string) (assignment, []backend.Lease, error) {
	a, err := b.assignment()
	if err != nil {
		return a, nil, err
	}
	unread := make([]backend.Lease, n)
	for i := range unread {
		unread[i].Election = of(i)
	}
	inner, err := b.Backend.Observe(ctx, unread) // it returns each of which it gets only the name
	return a, inner, err
}

// lease turns an inner lease into the one that this process must go by. named: this process may lead.
func (b *Backend) lease(l backend.Lease, a assignment) (now backend.Lease, named bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id := a.named(l.Election)
	named = id == Self || id != "" && id == b.me.ID
	switch {
	case !l.Vacant() && l.Holder.Nonce == b.me.Nonce:
		// Perhaps left from a bid whose answer was lost: the next bid is granted, or releases it.
	case !named:
		if b.me.Nonce != "" { // until then its first bid tells who this process is
			l.ObserveFor = backend.ExpiresInStore // only the operator can free it
		}
		if !b.inDir && l.Vacant() && id != "" {
			// Nothing is known of the other process but that the configuration names it.
			l.Holder.ID, l.Version = id, fmt.Sprintf("assigned in version %d to %s", a.Version, id)
		}
	case b.file != "" && !b.inDir && l.Vacant() && b.led[l.Election] != a.Version:
		// Whoever an earlier version named may still lead.
		l.Version += fmt.Sprintf(" in version %d", a.Version)
		l.ObserveFor = b.maxTTL
	}
	return l, named
}

// Acquire grants leases if the candidate is named. A bid that must not win expects what there never was.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	b.mu.Lock()
	b.me = cmp.Or(b.me, bids[0].Candidate)
	b.mu.Unlock()
	a, inner, err := b.read(ctx, len(bids), func(i int) string { return bids[i].Election })
	if err != nil {
		return nil, err
	}
	bids = slices.Clone(bids)
	for i, l := range inner {
		bid := &bids[i]
		bid.MinTerm = max(bid.MinTerm, a.Version) // terms exceed versions
		now, named := b.lease(l, a)
		mine := l.Holder.Nonce == bid.Candidate.Nonce
		switch {
		case named && now.Unchanged(bid.Expected):
			bid.Expected = l
		case !named || !mine:
			bid.Expected.Version = ""
		}
		if mine && !named { // if this fails, the next bid does it
			b.Release(ctx, []backend.Held{{Election: l.Election, Holder: l.Holder, End: backend.Failed}})
		}
	}
	answers, err := b.Backend.Acquire(ctx, bids)
	b.mu.Lock()
	for _, answer := range answers {
		if answer.Outcome == backend.Granted {
			b.led[answer.Election] = a.Version // a renewal says nothing: it may come after a long pause
		}
	}
	b.mu.Unlock()
	return b.translate(answers, a), err
}

// translate turns answers of the inner store into those that this process must go by.
func (b *Backend) translate(answers []backend.Answer, a assignment) []backend.Answer {
	for i := range answers {
		if answers[i].Outcome != backend.Unknown {
			answers[i].Lease, _ = b.lease(answers[i].Lease, a)
		}
	}
	return answers
}

// Renew extends leases if their holder is still named. It reads the file again. A lease of another holder is
// renewed in a term that there never was, so the inner store refuses it.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	a, inner, err := b.read(ctx, len(held), func(i int) string { return held[i].Election })
	if err != nil {
		return nil, err
	}
	held = slices.Clone(held)
	for i, l := range inner {
		if _, named := b.lease(l, a); !named {
			held[i].Term = neverTerm
		}
	}
	answers, err := b.Backend.Renew(ctx, held)
	for i := range answers {
		if name := held[i].Election; held[i].Term == neverTerm {
			answers[i].Err = fmt.Errorf("manual: renew %q: version %d of the configuration names %q",
				name, a.Version, a.named(name))
		}
	}
	return b.translate(answers, a), err
}

const neverTerm = 1<<63 - 1

// Observe reads leases and the assignment.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	a, inner, err := b.read(ctx, len(seen), func(i int) string { return seen[i].Election })
	for i, l := range inner {
		if now, _ := b.lease(l, a); seen[i].Version == "" || now.Differs(seen[i]) {
			changed = append(changed, now)
		}
	}
	return changed, err
}

// Listen waits for a change of a lease. It hears of no change of the file.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	a, inner, err := b.read(ctx, len(seen), func(i int) string { return seen[i].Election })
	if err != nil {
		return err
	}
	for i, l := range inner {
		if now, _ := b.lease(l, a); now.Differs(seen[i]) {
			return nil
		}
	}
	return b.Backend.Listen(ctx, inner)
}

// Inspect implements [backend.Inspector]: it says who is named and where, and explains the directory.
func (b *Backend) Inspect(ctx context.Context, ttl, renew time.Duration) ([]backend.Diagnostic, error) {
	a, err := b.assignment()
	if err != nil {
		return nil, err
	}
	var list []backend.Diagnostic
	if dir, ok := b.Backend.(backend.Inspector); ok && b.inDir {
		list, err = dir.Inspect(ctx, ttl, renew)
	}
	by := cmp.Or(b.file, "the configuration of this process")
	named := clean.Diagnosticf(false, "named", "%q, by %s, version %d; with a leader of their own: %d",
		a.Leader, by, a.Version, len(a.Elections))
	return append(list, named), err
}
