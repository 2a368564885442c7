package migration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// A try is one bid on its way through both stores.
type try struct {
	i    int // in bids and answers
	bid  backend.Bid
	pair pair
	old  backend.Answer
	new  backend.Answer
}

// Acquire implements [backend.Backend]. After a look at both stores: the old
// lease, then the new one; what cannot be completed is released again. At stage To
// an election whose old lease is not sealed yet is sealed on the way.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(ctx, bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	if b.stage == From {
		return b.old.Acquire(ctx, bids)
	}
	names := make([]string, len(bids))
	for i, bid := range bids {
		names[i] = bid.Election
	}
	if err := b.read(ctx, names); err != nil {
		return nil, fmt.Errorf("migration: acquire: %w", err)
	}
	answers := make([]backend.Answer, len(bids))
	var alone, together, useless []*try
	b.mu.Lock()
	for i, bid := range bids {
		t := &try{i: i, bid: bid, pair: *b.pairs[bid.Election]}
		p, me := &t.pair, bid.Candidate.Nonce
		mine := p.view.Holder.Nonce == me
		now := time.Now()
		switch {
		case p.view.Election == "": // the old store says nothing of it
			answers[i].Err = fmt.Errorf("migration: acquire %q: %w: whether %s has been sealed is not known, and it does not answer", bid.Election, backend.ErrUnavailable, b.oldName)
		case b.elsewhere(p) != "":
			answers[i] = backend.Answer{Lease: p.view, Outcome: backend.Refused,
				Err: fmt.Errorf("migration: acquire %q: %w: it has moved to %s, and this process is on the way from %s to %s", bid.Election, backend.ErrDenied, b.elsewhere(p), b.oldName, b.newName)}
		case b.ambiguous(p):
			answers[i] = backend.Answer{
				Err: fmt.Errorf("migration: acquire %q: %w: it came to %s from another store that is called %q: give this one another name (to_name)", bid.Election, backend.ErrDenied, b.oldName, b.newName)}
		case !mine && !p.view.Unchanged(bid.Expected):
			answers[i] = backend.Answer{Lease: p.view, Outcome: backend.Refused}
		case b.alone(p):
			alone = append(alone, t)
		case p.new.left(now) != 0 || p.old.left(now) > 0, mine && p.old.Holder.Nonce != me && p.old.ObserveFor < 0:
			// First look at the new lease: without it the old one is of no use. A
			// place in the old store's queue is, and so it may be asked for.
			answers[i] = backend.Answer{Lease: p.view, Outcome: backend.Refused}
			if mine {
				useless = append(useless, t)
			}
		default:
			together = append(together, t)
		}
	}
	b.mu.Unlock()
	b.drop(ctx, useless, answers)
	err := errors.Join(b.acquireNew(ctx, alone, answers), b.acquireBoth(ctx, together, answers))
	if err != nil {
		err = fmt.Errorf("migration: acquire: %w", err)
	}
	return answers, err
}

// drop releases what is left over of one lease while the other is somebody else's.
func (b *Backend) drop(ctx context.Context, tries []*try, answers []backend.Answer) {
	for _, t := range tries {
		left := []backend.Held{{Election: t.bid.Election, Holder: t.bid.Candidate, End: backend.Released}}
		if err := b.releaseBoth(ctx, left, left); err != nil {
			answers[t.i] = backend.Answer{Err: err}
		}
	}
}

// acquireNew bids for the new lease alone. Its record of the seal is part of what
// is compared: see [backend.Lease.Unchanged]. Where an operator vouches that there is
// none to be kept out, the record is written before anybody leads: by it those who go
// back know that the new store has to be sealed.
func (b *Backend) acquireNew(ctx context.Context, tries []*try, answers []backend.Answer) error {
	err := b.bid(ctx, b.new, tries, func(t *try) (*backend.Answer, backend.Lease, uint64) { return &t.new, t.pair.new.Lease, t.bid.MinTerm })
	var vouched []*try
	for _, t := range tries {
		if t.new.Outcome == backend.Granted && t.new.MovedFrom != b.oldName && t.new.MovedFrom != b.word() && b.new.Guarantees().Marks {
			t.old.Outcome = backend.Refused // it was not asked
			vouched = append(vouched, t)
			continue
		}
		answers[t.i] = t.new
		if t.new.Outcome != backend.Unknown {
			answers[t.i].Lease = b.news(t.bid.Election, &t.old, &t.new)
		}
	}
	if len(vouched) == 0 {
		return err
	}
	vouched, failed := b.mark(ctx, b.new, vouched, answers, func(t *try) (*backend.Answer, string, string) { return &t.new, "", b.word() })
	for _, t := range vouched {
		answers[t.i] = t.new
		answers[t.i].Lease = b.news(t.bid.Election, &t.old, &t.new)
	}
	return errors.Join(err, failed)
}

// ahead is by how many microseconds a term of both stores exceeds what is known, so
// that neither store has a reason to give out a greater one: a clock of theirs that goes
// before ours, or the time that passes until the last bid of this call.
func ahead(ctx context.Context) uint64 {
	least := 2 * time.Second
	if end, ok := ctx.Deadline(); ok {
		least = max(least, time.Until(end))
	}
	return uint64(least.Microseconds())
}

func (b *Backend) acquireBoth(ctx context.Context, tries []*try, answers []backend.Answer) error {
	if len(tries) == 0 {
		return nil
	}
	now, later := uint64(time.Now().UnixMicro()), ahead(ctx)
	// There must be time left to give the old lease back if the new store hangs.
	within, cancel := before(ctx)
	defer cancel()
	tries = b.preflight(within, tries, answers)
	err := b.bid(within, b.old, tries, func(t *try) (*backend.Answer, backend.Lease, uint64) {
		return &t.old, t.pair.old.Lease, max(now, t.bid.MinTerm, t.pair.old.Term, t.pair.new.Term) + later
	})
	var next, half []*try
	for _, t := range tries {
		if t.old.Outcome == backend.Granted {
			next = append(next, t)
		} else {
			answers[t.i] = backend.Answer{Outcome: t.old.Outcome, Err: t.old.Err}
			if t.old.Outcome == backend.Refused {
				answers[t.i].Lease = b.news(t.bid.Election, &t.old, &t.new)
			}
		}
	}
	if len(next) == 0 {
		return err
	}
	err = errors.Join(err, b.bid(within, b.new, next, func(t *try) (*backend.Answer, backend.Lease, uint64) {
		return &t.new, t.pair.new.Lease, max(t.old.Term, t.pair.new.Term+1, t.bid.MinTerm+1) - 1
	}))
	err = errors.Join(err, b.agree(within, next))
	var whole []*try
	for _, t := range next {
		if t.old.Outcome == backend.Granted && t.new.Outcome == backend.Granted && b.agreed(t) {
			whole = append(whole, t)
		} else {
			half = append(half, t)
		}
	}
	b.undo(ctx, half, answers)
	return errors.Join(err, b.seal(ctx, whole, answers))
}

// before returns a context that ends when three quarters of the time are over.
func before(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)*3/4)
}

// prove returns the tries of which the new store says that nothing but the lease stands in
// their way: it is reachable, its tables or paths are there, and this process may write
// itself down and be granted leases ([backend.Preflighter]). The old store is not bid at
// for others. It is asked once for each election; if rights are taken away later, the
// first bid finds that, and the old lease is given back at once.
func (b *Backend) preflight(ctx context.Context, tries []*try, answers []backend.Answer) (able []*try) {
	var open []*try
	b.mu.Lock()
	written := b.written
	for _, t := range tries {
		if b.pairs[t.bid.Election].proven {
			able = append(able, t)
		} else {
			open = append(open, t)
		}
	}
	b.mu.Unlock()
	if open == nil {
		return able
	}
	errs := make([]error, len(open))
	if !written {
		who := open[0].bid
		err := b.new.Announce(ctx, backend.Member{Candidate: who.Candidate, TTL: who.TTL, Stage: string(b.stage)})
		if written = err == nil; !written && !errors.Is(err, backend.ErrInvalid) { // that is about this bid, which will be refused
			for i := range errs {
				errs[i] = err
			}
		}
	}
	if p, ok := b.new.(backend.Preflighter); ok && errs[0] == nil {
		bids := make([]backend.Bid, len(open))
		for i, t := range open {
			bids[i] = t.bid
		}
		errs = p.Preflight(ctx, bids)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = written
	for i, t := range open {
		if errs[i] != nil {
			answers[t.i] = backend.Answer{Err: fmt.Errorf("migration: acquire %q: %s, to which it moves, cannot be used: %w", t.bid.Election, b.newName, errs[i])}
			continue
		}
		b.pairs[t.bid.Election].proven = true
		able = append(able, t)
	}
	return able
}

// agreed reports whether a leadership has one term in both stores, so that either can
// fence it. At stage To it is the new one's. Legacy layouts have none.
func (b *Backend) agreed(t *try) bool {
	return t.new.Term == t.old.Term || t.old.Term == 0 || b.stage == To
}

// agree raises the lesser of two terms by bidding for what is ours again: a store may
// have a reason to give out a greater one than was asked for.
func (b *Backend) agree(ctx context.Context, tries []*try) (err error) {
	for range 4 {
		var olds, news []*try
		for _, t := range tries {
			switch granted := t.old.Outcome == backend.Granted && t.new.Outcome == backend.Granted; {
			case !granted || b.agreed(t):
			case t.old.Term < t.new.Term:
				olds = append(olds, t)
			default:
				news = append(news, t)
			}
		}
		if len(olds)+len(news) == 0 {
			break
		}
		err = errors.Join(err,
			b.bid(ctx, b.old, olds, func(t *try) (*backend.Answer, backend.Lease, uint64) { return &t.old, t.old.Lease, t.new.Term - 1 }),
			b.bid(ctx, b.new, news, func(t *try) (*backend.Answer, backend.Lease, uint64) { return &t.new, t.new.Lease, t.old.Term - 1 }))
	}
	return err
}

// bid makes one bid for each try in one store.
func (b *Backend) bid(ctx context.Context, store backend.Backend, tries []*try, of func(*try) (*backend.Answer, backend.Lease, uint64)) error {
	if len(tries) == 0 {
		return nil
	}
	bids := make([]backend.Bid, len(tries))
	for n, t := range tries {
		bids[n] = t.bid
		_, bids[n].Expected, bids[n].MinTerm = of(t)
	}
	answers, err := store.Acquire(ctx, bids)
	for n, t := range tries {
		a, _, _ := of(t)
		if n < len(answers) {
			*a = answers[n]
		}
		if a.Outcome == backend.Unknown && a.Err == nil {
			a.Err = err
		}
	}
	return err
}

// undo releases what has been half won. Nobody has led by it. What cannot be
// released for certain is unknown, and the manager sees to it.
func (b *Backend) undo(ctx context.Context, tries []*try, answers []backend.Answer) {
	if len(tries) == 0 {
		return
	}
	var olds, news []backend.Held
	for _, t := range tries {
		held := backend.Held{Election: t.bid.Election, Holder: t.bid.Candidate, End: backend.Released}
		if t.new.Outcome == backend.Granted {
			held.Term = t.new.Term
			news = append(news, held)
		}
		if t.old.Outcome == backend.Granted { // also if the new store does not answer: others may need it alone
			held.Term = t.old.Term
			olds = append(olds, held)
		}
	}
	err := b.releaseBoth(ctx, olds, news)
	for _, t := range tries {
		if unknown := t.old.Outcome == backend.Unknown || t.new.Outcome == backend.Unknown; unknown || err != nil {
			answers[t.i] = backend.Answer{Err: errors.Join(t.old.Err, t.new.Err, err)}
			continue
		}
		answers[t.i] = backend.Answer{Outcome: backend.Refused, Lease: b.news(t.bid.Election, &t.old, &t.new)}
	}
}

// seal makes the marks of who holds both leases what this stage wants them to be,
// and answers the tries. Going on: first the old lease is sealed, then the new one
// says so, and only then is the new one enough to lead. Going back: the other way
// round. So the record stands only while the seal does.
func (b *Backend) seal(ctx context.Context, tries []*try, answers []backend.Answer) error {
	var wrong []*try
	for _, t := range tries {
		sealed, recorded := t.old.MovedTo != "", t.new.MovedFrom == b.oldName
		if b.stage == Both && t.new.MovedTo == "" && t.new.MovedFrom != "" {
			recorded = true // whatever it calls our old store: who is there leads by it
		}
		if on := b.stage == To; sealed != on || recorded != on || on && t.new.MovedTo != "" {
			wrong = append(wrong, t)
			continue
		}
		answers[t.i] = b.won(t)
	}
	if len(wrong) == 0 {
		return nil
	}
	older := func(to string) (err error) {
		var plain, seals []*try
		for _, t := range wrong {
			// What was never sealed need not be opened; and an operator may vouch for a
			// store that keeps no seal.
			if t.old.MovedTo == to || b.unsealed && !b.old.Guarantees().Marks {
				plain = append(plain, t)
			} else {
				seals = append(seals, t)
			}
		}
		if seals != nil {
			seals, err = b.mark(ctx, b.old, seals, answers, func(t *try) (*backend.Answer, string, string) { return &t.old, to, t.old.MovedFrom })
		}
		wrong = append(plain, seals...)
		return err
	}
	newer := func(to, from string) (err error) {
		if len(wrong) > 0 {
			wrong, err = b.mark(ctx, b.new, wrong, answers, func(t *try) (*backend.Answer, string, string) { return &t.new, to, from })
		}
		return err
	}
	var err error
	if b.stage == To {
		record := b.oldName
		if b.unsealed && !b.old.Guarantees().Marks {
			record = b.word()
		}
		err = errors.Join(older(b.newName), newer("", record))
	} else {
		err = errors.Join(newer(b.oldName, ""), older(""))
	}
	var done []backend.Held
	for _, t := range wrong {
		answers[t.i] = b.won(t)
		if b.stage == To {
			l := t.old.Held()
			l.End = backend.Released
			done = append(done, l)
		}
	}
	b.releaseAll(ctx, b.old, done) // they have done their duty; if this fails they run out
	return err
}

// mark writes marks into leases of one store, and returns the tries that have them. The
// others are given up.
func (b *Backend) mark(ctx context.Context, store backend.Backend, tries []*try, answers []backend.Answer, of func(*try) (a *backend.Answer, to, from string)) ([]*try, error) {
	held := make([]backend.Held, len(tries))
	for n, t := range tries {
		a, to, from := of(t)
		held[n] = a.Held()
		held[n].MovedTo, held[n].MovedFrom = to, from
	}
	moved, err := store.Mark(ctx, held)
	var done, not []*try
	for n, t := range tries {
		a, _, _ := of(t)
		var m backend.Answer
		if n < len(moved) {
			m = moved[n]
		}
		switch {
		case m.Outcome == backend.Granted:
			m.ValidFor = min(a.ValidFor, m.ValidFor)
			*a = m
			done = append(done, t)
			continue
		case m.Outcome == backend.Refused:
			a.Err = fmt.Errorf("%w: election %q: the lease was lost before its mark was written", backend.ErrUnavailable, t.bid.Election)
		default:
			a.Err = errors.Join(m.Err, err)
		}
		not = append(not, t)
	}
	b.undo(ctx, not, answers)
	return done, err
}

// releaseBoth releases leases of both stores side by side: one that hangs must not keep
// the other's from those who need that alone.
func (b *Backend) releaseBoth(ctx context.Context, olds, news []backend.Held) error {
	var oldErr, newErr error
	atOnce(func() error { oldErr = b.releaseAll(ctx, b.old, olds); return nil },
		func() error { newErr = b.releaseAll(ctx, b.new, news); return nil })
	return errors.Join(newErr, oldErr)
}

func (b *Backend) releaseAll(ctx context.Context, store backend.Backend, held []backend.Held) error {
	if len(held) == 0 {
		return nil
	}
	return store.Release(ctx, held)
}

// won is the answer to a bid that has won all that it needs.
func (b *Backend) won(t *try) backend.Answer {
	return backend.Answer{Outcome: backend.Granted, ValidFor: min(t.old.ValidFor, t.new.ValidFor), Lease: b.news(t.bid.Election, &t.old, &t.new)}
}
