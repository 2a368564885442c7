package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// Acquire implements [backend.Backend]. It reads, unless the cache shows that all elections are free, and
// writes changes that require what was read. It tries again those whose lease is still as the bid expects it.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.Enter(bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}

	a := b.newAcquiring(bids)
	err := a.run(ctx)
	err = b.fail(backend.Describe("acquire", len(bids), bids[0].Election), err)
	setErrors(a.answers, err)
	return a.answers, err
}

// acquiring is one call of Acquire. Its slices have an element for each bid.
type acquiring struct {
	b       *Backend
	bids    []backend.Bid
	answers []backend.Answer
	late    []bool // a record that an earlier call has sent may still arrive

	round int
	apart bool // the store has denied a change of several grants: each is tried by itself
}

// A granting is a grant that is to be written.
type granting struct {
	bid    int // its index
	state  *state
	record *Record
}

func (b *Backend) newAcquiring(bids []backend.Bid) *acquiring {
	a := &acquiring{
		b:       b,
		bids:    bids,
		answers: make([]backend.Answer, len(bids)),
		late:    make([]bool, len(bids)),
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range bids {
		g, may := b.held[bids[i].Election]
		a.late[i] = may && (g == nil || g.unconfirmed != nil)
		b.longestTTL = max(b.longestTTL, bids[i].TTL)
	}
	return a
}

// run tries the bids until each has an answer.
func (a *acquiring) run(ctx context.Context) (err error) {
	todo := make([]int, len(a.bids))
	for i := range todo {
		todo[i] = i
	}
	// Sorted, so that processes that bid for the same elections conflict early.
	slices.SortFunc(todo, func(i, j int) int { return cmp.Compare(a.bids[i].Election, a.bids[j].Election) })

	for a.round = 0; a.round < rounds; a.round++ {
		todo, err = a.try(ctx, todo)
		if err != nil || len(todo) == 0 {
			return err
		}
	}
	return errBusy
}

// try makes one attempt at some of the bids, and returns those that must be tried again.
func (a *acquiring) try(ctx context.Context, todo []int) (again []int, err error) {
	v, states, err := a.snapshot(ctx, todo)
	if err != nil {
		return nil, err
	}
	first := &a.bids[todo[0]]
	s, err := a.b.ensureSession(ctx, first.Candidate)
	if err != nil {
		return nil, err
	}

	var alone, together []granting // the latter change the meta item, too
	for n, i := range todo {
		st := &states[n]
		if !a.mayBeGranted(i, st) {
			a.refuse(ctx, i, st)
			continue
		}

		term, err := a.nextTerm(v, st, &a.bids[i])
		if err != nil {
			a.answers[i] = backend.Answer{Err: err}
			continue
		}
		g := granting{i, st, newGrant(v, st, &a.bids[i], term, s.value.Generation, a.b.now())}
		if st.missing || a.b.changesMeta(v, a.bids[i].TTL) {
			together = append(together, g)
		} else {
			alone = append(alone, g)
		}
	}

	if len(together) > 0 && !v.metaRead {
		if err := a.b.readMeta(ctx, v); err != nil {
			return nil, err
		}
	}
	if again, err = a.write(ctx, v, s, slices.Collect(slices.Chunk(alone, 1)), grantChange); err != nil {
		return nil, err
	}
	more, err := a.grantTogether(ctx, v, s, together)
	return append(again, more...), err
}

// snapshot returns the elections of some bids as the cache has them, if it shows that all are free.
// Otherwise, and in later rounds, it reads them.
func (a *acquiring) snapshot(ctx context.Context, todo []int) (*view, []state, error) {
	if a.round == 0 {
		if v, states, ok := a.freeByCache(todo); ok {
			return v, states, nil
		}
	}
	return a.b.read(ctx, namesOf(todo, func(i int) string { return a.bids[i].Election }))
}

// freeByCache returns the elections of some bids if each would be granted by the cache.
func (a *acquiring) freeByCache(todo []int) (v *view, states []state, ok bool) {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	v, states = b.cachedView(), make([]state, len(todo))
	for n, i := range todo {
		s, expected := &states[n], a.bids[i].Expected
		read := b.loadCached(v, a.bids[i].Election, s)
		if !read || !s.Vacant() || s.ObserveFor != 0 || !s.Unchanged(expected) {
			return nil, nil, false
		}
	}
	return v, states, true
}

// mayBeGranted reports whether the lease is as the bid expects it. What is this process's own need not be.
func (a *acquiring) mayBeGranted(i int, st *state) bool {
	if st.ObserveFor == backend.ExpiresInStore {
		return false
	}
	expected := a.bids[i].Expected
	return (st.own || st.Unchanged(expected)) && st.MovedTo == expected.MovedTo
}

// refuse answers a bid that is not granted, and clears up what this process may have left in the record: a
// lease from before the store was rebuilt, or an earlier bid that may still be granted.
func (a *acquiring) refuse(ctx context.Context, i int, st *state) {
	b, election := a.b, a.bids[i].Election
	a.answers[i] = backend.Answer{Lease: st.Lease, Outcome: backend.Refused}

	switch leftover := st.heldBy(b.owner.Nonce()); {
	case leftover && st.own:
		// This process may lead by that lease.
	case leftover, a.late[i]:
		if err := b.release(ctx, []backend.Held{{Election: election, End: backend.Failed}}); err != nil {
			a.answers[i] = backend.Answer{Err: b.fail(backend.Describe("acquire", 1, election), err)}
		}
	default:
		b.forget(election, 0)
	}
}

// grantTogether writes grants that change the meta item, one change after the other: each needs the meta
// item as the one before has left it.
func (a *acquiring) grantTogether(ctx context.Context, v *view, s *session, rest []granting) ([]int, error) {
	var again []int
	ever, fresh := v.deletions()
	for len(rest) > 0 {
		part := a.nextPart(&rest)
		withMeta := func(part []granting) Change { return a.b.grantWithMeta(v, part) }
		refused, err := a.write(ctx, v, s, [][]granting{part}, withMeta)
		if err != nil {
			return nil, err
		}
		if refused == nil {
			ever, fresh = v.deletions()
			continue
		}

		again = append(again, refused...)
		if err := a.b.readMeta(ctx, v); err != nil { // another process makes elections, too
			return nil, err
		}
		if e, f := v.deletions(); e != ever || f != fresh { // the others may no longer be free
			break
		}
	}
	for _, g := range rest {
		again = append(again, g.bid)
	}
	return again, nil
}

// nextPart takes as many grants as fit into one change beside the meta item. After one was denied it takes
// one, so that rights that are missing for one election do not affect the others.
func (a *acquiring) nextPart(rest *[]granting) (part []granting) {
	room := a.b.limits.Batch - 1
	for _, g := range *rest {
		room--
		if g.checksSession() {
			room--
		}
		if part != nil && (room < 0 || a.apart) {
			break
		}
		part = append(part, g)
	}
	*rest = (*rest)[len(part):]
	return part
}

// write writes grants, a part by each change, answers those that were applied, and returns the others.
func (a *acquiring) write(
	ctx context.Context, v *view, s *session, parts [][]granting, change func([]granting) Change,
) (again []int, err error) {
	if len(parts) == 0 {
		return nil, nil
	}
	b := a.b
	var changes []Change
	var pending []*Record
	for _, part := range parts {
		changes = append(changes, change(part))
		for _, g := range part {
			pending = append(pending, g.record)
		}
	}
	b.markPending(pending)

	w, err := b.driver.Write(ctx, v.epoch, v.wentBack, changes, nil)
	if errors.Is(err, ErrEpoch) {
		b.mu.Lock()
		b.cache.clear() // the next attempt reads
		b.mu.Unlock()
	}
	for n, part := range parts {
		r := w.result(n)
		switch {
		case r.Outcome == backend.Granted:
			if len(r.Items) > len(part) { // with the meta item
				v.noteMeta(r.Items[len(part)], changes[n].Put[len(part)].Value, part)
			}
			for k, g := range part {
				held := b.markHeld(g.record, r.Items[k])
				a.answers[g.bid] = held.answer(g.record.Election, a.bids[g.bid].TTL, s)
			}
		case r.Outcome == backend.Refused, len(part) > 1 && errors.Is(r.Err, backend.ErrDenied):
			for _, g := range part {
				again = append(again, g.bid)
			}
			a.apart = a.apart || r.Err != nil // rights may be missing for some of them only
		case err == nil:
			failed := b.fail(backend.Describe("acquire", len(part), part[0].record.Election), r.Err)
			for _, g := range part {
				a.answers[g.bid].Err = failed
			}
		}
	}
	return again, err
}

// newGrant returns the record of a grant.
func newGrant(v *view, s *state, bid *backend.Bid, term uint64, generation string, now time.Time) *Record {
	c := bid.Candidate
	r := &Record{
		Election: bid.Election, Term: term, Elected: now, Written: now, Epoch: v.epoch,
		ID: c.ID, Nonce: string(c.Nonce), Address: c.Address, Metadata: c.Metadata,
		TTL: Span(bid.TTL), Renew: Span(bid.Renew), Session: generation, Heartbeat: NewHeartbeat(),
		MovedTo: s.MovedTo, MovedFrom: s.MovedFrom,
	}
	r.End, r.LastID, r.History = s.endLeadership(backend.Failed, now)
	return r
}

// endLeadership returns the record's fields about the past after its present leadership, if it
// has one, has ended.
func (s *state) endLeadership(how backend.End, now time.Time) (backend.End, string, []backend.Leadership) {
	r := s.record
	switch {
	case r == nil:
		return "", "", nil
	case s.Vacant():
		return r.End, r.LastID, clean.History(r.History)
	}
	lapsed := s.ExpiredFor()
	if s.session.Version == "" { // the session with the last renewal was deleted
		lapsed = 0
	}
	ended := backend.Leadership{Term: r.Term, ID: r.ID, From: r.Elected}
	return how, r.ID, clean.Remember(r.History, ended, how, now, lapsed)
}

// checksSession reports whether the grant requires the session of another holder.
func (g *granting) checksSession() bool { return g.state.session.Key.Name != "" && !g.state.own }

// grantChange returns the change that writes grants: the records are as they were read, and the
// leases of other holders were not renewed since.
func grantChange(part []granting) (c Change) {
	c.Notify = true // those who do not bid wait for the news
	checked := make(map[Key]bool)
	for _, g := range part {
		c.Put = append(c.Put, Put{g.state.item, g.record})
		if key := g.state.session.Key; g.checksSession() && !checked[key] {
			checked[key] = true
			c.Check = append(c.Check, g.state.session)
		}
	}
	return c
}
