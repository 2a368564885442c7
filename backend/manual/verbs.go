package manual

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// look reads leases from the inner store, one for each name and in that order.
func (b *Backend) look(ctx context.Context, names []string) ([]backend.Lease, error) {
	zero := make([]backend.Lease, len(names))
	at := make(map[string]int, len(names))
	for i, name := range names {
		zero[i].Election, at[name] = name, i
	}
	found, err := b.inner.Observe(ctx, zero)
	if err != nil {
		return nil, err
	}
	for _, l := range found {
		zero[at[l.Election]] = l
	}
	return zero, nil
}

// Acquire grants the lease to who is named.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(ctx, bids[0].Candidate); err != nil {
		return nil, fail("acquire", err)
	}
	a, err := b.assignment()
	if err != nil {
		return nil, fail("acquire", err)
	}
	names := make([]string, len(bids))
	for i, bid := range bids {
		names[i] = bid.Election
	}
	inner, err := b.look(ctx, names)
	if err != nil {
		return nil, fail("acquire", err)
	}
	answers := make([]backend.Answer, len(bids))
	var pass []backend.Bid
	var places []int
	for i, bid := range bids {
		in := inner[i]
		mine := !in.Vacant() && in.Holder.Nonce == bid.Candidate.Nonce
		switch now := b.lease(in, a); {
		case b.file != "" && bid.TTL > b.maxTTL:
			answers[i].Err = fail(fmt.Sprintf("acquire %q", bid.Election), fmt.Errorf("%w: a TTL of %v; the greatest is %v", backend.ErrInvalid, bid.TTL, b.maxTTL))
		case b.isMe(a.named(bid.Election)) && (mine && in.MovedTo == bid.Expected.MovedTo || now.Unchanged(bid.Expected)):
			bid.Expected, bid.MinTerm = in, max(bid.MinTerm, a.Version) // terms exceed versions
			pass, places = append(pass, bid), append(places, i)
		case mine: // a leftover of who is not named any more
			in.Term, in.End = 0, backend.Failed
			err := b.inner.Release(ctx, []backend.Held{in.Held()})
			if err == nil {
				in, err = b.look1(ctx, bid.Election)
			}
			if answers[i].Err = fail("acquire", err); err == nil {
				answers[i] = backend.Answer{Lease: b.lease(in, a), Outcome: backend.Refused}
			}
		default:
			answers[i] = backend.Answer{Lease: now, Outcome: backend.Refused}
		}
	}
	if len(pass) == 0 {
		return answers, nil
	}
	got, err := b.inner.Acquire(ctx, pass)
	for i, answer := range got {
		if answer.Outcome == backend.Granted {
			b.mu.Lock()
			b.led[answer.Election] = a.Version
			b.mu.Unlock()
		}
		if answer.Outcome != backend.Unknown {
			answer.Lease = b.lease(answer.Lease, a)
		}
		answers[places[i]] = answer
	}
	return answers, fail("acquire", err)
}

// Prove implements [backend.Preflighter]: that the leases beside the configuration can be
// written. Who is named is another matter.
func (b *Backend) Preflight(ctx context.Context, bids []backend.Bid) []error {
	errs := make([]error, len(bids))
	err := fail("prove", b.enter(ctx, bids[0].Candidate))
	inner, ok := b.inner.(backend.Preflighter)
	if ok && err == nil {
		errs = inner.Preflight(ctx, bids)
	}
	for i := range errs {
		errs[i] = errors.Join(err, fail("prove", errs[i]))
	}
	return errs
}

func (b *Backend) look1(ctx context.Context, name string) (backend.Lease, error) {
	l, err := b.look(ctx, []string{name})
	if err != nil {
		return backend.Lease{}, err
	}
	return l[0], nil
}

// Renew extends the leases of who is still named. It reads the file anew.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renew(ctx, "renew", held, b.inner.Renew)
}

// Mark is a renewal that leaves marks, which only a directory keeps.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if !b.Guarantees().Marks {
		return nil, fail("mark", fmt.Errorf("%w: without a directory nothing is kept", backend.ErrInvalid))
	}
	return b.renew(ctx, "mark", held, b.inner.Mark)
}

func (b *Backend) renew(ctx context.Context, verb string, held []backend.Held, inner func(context.Context, []backend.Held) ([]backend.Answer, error)) ([]backend.Answer, error) {
	if err := b.enter(ctx, held[0].Holder); err != nil {
		return nil, fail(verb, err)
	}
	a, err := b.assignment()
	if err != nil {
		return nil, fail(verb, err)
	}
	answers := make([]backend.Answer, len(held))
	var pass []backend.Held
	var places []int
	for i, l := range held {
		id := a.named(l.Election)
		if b.isMe(id) {
			pass, places = append(pass, l), append(places, i)
			continue
		}
		in, err := b.look1(ctx, l.Election)
		if err != nil {
			return answers, fail(verb, err)
		}
		answers[i] = backend.Answer{Lease: b.lease(in, a), Outcome: backend.Refused,
			Err: fmt.Errorf("manual: %s %q: version %d of the configuration names %q", verb, l.Election, a.Version, id)}
	}
	if len(pass) == 0 {
		return answers, nil
	}
	got, err := inner(ctx, pass)
	for i, answer := range got {
		if answer.Outcome != backend.Unknown {
			answer.Lease = b.lease(answer.Lease, a)
		}
		answers[places[i]] = answer
	}
	return answers, fail(verb, err)
}

// Release ends leases, named or not.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return fail("release", err)
	}
	return fail("release", b.inner.Release(ctx, held))
}

// Observe reads leases and the assignment.
func (b *Backend) Observe(ctx context.Context, seen []backend.Lease) (changed []backend.Lease, err error) {
	now, err := b.observe(ctx, seen)
	if err != nil {
		return nil, fail("observe", err)
	}
	for i, l := range seen {
		if l.Heartbeat == 0 || now[i].Differs(l) {
			changed = append(changed, now[i].Lease)
		}
	}
	return changed, nil
}

// A view is a lease as this process must see it, and as the inner store has it.
type view struct {
	backend.Lease
	inner backend.Lease
}

func (b *Backend) observe(ctx context.Context, seen []backend.Lease) ([]view, error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, err
	}
	a, err := b.assignment()
	if err != nil {
		return nil, err
	}
	names := make([]string, len(seen))
	for i, l := range seen {
		names[i] = l.Election
	}
	inner, err := b.look(ctx, names)
	if err != nil {
		return nil, err
	}
	views := make([]view, len(seen))
	for i, in := range inner {
		views[i] = view{b.lease(in, a), in}
	}
	return views, nil
}

// reread is how often Listen reads the assignment.
const reread = 250 * time.Millisecond

// Listen waits for a change of a lease or of who is named.
func (b *Backend) Listen(ctx context.Context, seen []backend.Lease) error {
	now, err := b.observe(ctx, seen)
	if err != nil {
		return fail("listen", err)
	}
	inner := make([]backend.Lease, len(seen))
	for i, l := range seen {
		if now[i].Differs(l) {
			return nil
		}
		inner[i] = now[i].inner
	}
	within, cancel := context.WithCancel(ctx)
	heard := make(chan error, 1)
	go func() { heard <- b.inner.Listen(within, inner) }()
	ended := false
	defer func() {
		if cancel(); !ended {
			<-heard
		}
	}()
	tick := time.NewTicker(reread)
	defer tick.Stop()
	for {
		select {
		case err := <-heard:
			ended = true
			return fail("listen", err)
		case <-tick.C:
			a, err := b.assignment()
			if err != nil {
				return nil // let Observe say so
			}
			for i, l := range seen {
				if b.lease(inner[i], a).Differs(l) {
					return nil
				}
			}
		}
	}
}

// Ask writes requests. None changes who is named.
func (b *Backend) Request(ctx context.Context, requests []backend.Request) error {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return fail("ask", err)
	}
	return fail("ask", b.inner.Request(ctx, requests))
}

// List returns what is kept of elections that were led.
func (b *Backend) List(ctx context.Context, from string, limit int) ([]backend.Record, error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, fail("list", err)
	}
	list, err := b.inner.List(ctx, from, limit)
	return list, fail("list", err)
}

// Announce writes this process's member record: where others see it, if Dir is set.
func (b *Backend) Announce(ctx context.Context, m backend.Member) error {
	if err := b.enter(ctx, m.Candidate); err != nil {
		return fail("announce", err)
	}
	return fail("announce", b.inner.Announce(ctx, m))
}

// Members returns the members that can be seen.
func (b *Backend) Members(ctx context.Context, from string, limit int) ([]backend.Member, error) {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return nil, fail("members", err)
	}
	list, err := b.inner.Members(ctx, from, limit)
	return list, fail("members", err)
}

// Check reports what looks wrong with the configuration, as far as this process
// can see: what is wrong with the file, an election that is led by another than
// the named one, which means that configurations differ, and an id that is named
// and that no live member has, where members can be seen (Dir, Store). All are
// ErrDenied. Nil: nothing. It is for health checks and operators.
func (b *Backend) Check(ctx context.Context) error {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return fail("check", err)
	}
	a, err := b.assignment()
	if err != nil {
		return fail("check", err)
	}
	if b.apart {
		return nil
	}
	const many = 10000
	records, err := b.inner.List(ctx, "", many)
	members, err2 := b.inner.Members(ctx, "", many)
	if err := errors.Join(err, err2); err != nil {
		return fail("check", err)
	}
	var wrong []error
	for _, r := range records {
		if id := a.named(r.Election); !r.Vacant() && id != Self && r.Holder.ID != id {
			wrong = append(wrong, fmt.Errorf("%w: %q is led by %q, and the configuration here names %q: configurations differ, or it has not stepped down yet", backend.ErrDenied, r.Election, r.Holder.ID, id))
		}
	}
	live := map[string]bool{"": true, Self: true}
	for _, m := range members {
		live[m.ID] = true
	}
	ids := map[string]bool{a.Leader: true}
	for _, id := range a.Elections {
		ids[id] = true
	}
	for id := range ids {
		if !live[id] {
			wrong = append(wrong, fmt.Errorf("%w: %q is named, and no live member has that id", backend.ErrDenied, id))
		}
	}
	return fail("check", errors.Join(wrong...))
}
