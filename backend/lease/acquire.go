package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// Acquire implements [backend.Backend]. It reads, unless the cache shows that all elections are
// free, and writes changes that require what was read. It tries again those whose lease is still
// as the bid expects it.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.Enter(bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	for i := range bids {
		b.noteTTL(bids[i].TTL)
	}
	a := acquiring{b: b, bids: bids, answers: make([]backend.Answer, len(bids)), attempts: make([]Heartbeat, len(bids)), late: make([]bool, len(bids))}
	todo := make([]int, len(bids))
	for i := range todo {
		todo[i], a.late[i] = i, b.mayComeLate(bids[i].Election)
	}
	// Sorted, so that processes that bid for the same elections conflict early.
	slices.SortFunc(todo, func(i, j int) int { return cmp.Compare(bids[i].Election, bids[j].Election) })
	var err error
	for a.round = 0; a.round < rounds && len(todo) > 0 && err == nil; a.round++ {
		todo, err = a.try(ctx, todo)
	}
	if err == nil && len(todo) > 0 {
		err = errBusy
	}
	err = b.fail(about("acquire", len(bids), bids[0].Election), err)
	setErrors(a.answers, err)
	return a.answers, err
}

// acquiring is one call of Acquire.
type acquiring struct {
	b        *Backend
	bids     []backend.Bid
	answers  []backend.Answer
	attempts []Heartbeat // of the records that were sent; 0: none
	late     []bool      // a record that an earlier call has sent may still arrive
	round    int
	narrow   int // how often a part was denied
}

// A granting is a grant that is to be written.
type granting struct {
	bid    int
	state  *state
	record *Record
}

// try makes one attempt at some of the bids, and returns those that must be tried again.
func (a *acquiring) try(ctx context.Context, todo []int) (again []int, err error) {
	b := a.b
	bids := make([]backend.Bid, len(todo))
	names := make([]string, len(todo))
	for n, i := range todo {
		bids[n], names[n] = a.bids[i], a.bids[i].Election
	}
	v, states, ok := b.freeByCache(bids)
	if !ok || a.round > 0 {
		if v, states, err = b.read(ctx, names); err != nil {
			return nil, err
		}
	}
	s, err := b.ensureSession(ctx, bids[0].Candidate, bids[0].TTL)
	if err != nil {
		return nil, err
	}
	var each, together []granting // the latter change the meta item, too
	for n, i := range todo {
		st := &states[n]
		if a.before(ctx, i, st) {
			continue
		}
		term, err := backend.NextTerm(max(st.lastTerm(b.driver.Now()), bids[n].Expected.Term), st.suspect || st.missing && v.lostTerms(), bids[n].MinTerm, b.driver.Now())
		if err != nil {
			a.answers[i] = backend.Answer{Err: fmt.Errorf("%s: acquire %q: %w", b.limits.Name, bids[n].Election, err)}
			continue
		}
		g := granting{i, st, newGrant(v, st, &bids[n], term, s.value.Generation, b.driver.Now().UTC())}
		if st.missing || b.changesMeta(v, bids[n].TTL) {
			together = append(together, g)
		} else {
			each = append(each, g)
		}
	}
	if len(together) > 0 && !v.metaRead {
		if err := b.readMeta(ctx, v); err != nil {
			return nil, err
		}
	}
	if len(each) > 0 {
		var changes []Change
		parts := slices.Collect(slices.Chunk(each, 1))
		for _, part := range parts {
			changes = append(changes, grantChange(part))
		}
		if again, err = a.write(ctx, v, s, parts, changes); err != nil {
			return nil, err
		}
	}
	more, err := a.together(ctx, v, s, together)
	return append(again, more...), err
}

// together writes grants that change the meta item, one change after the other: each needs the meta
// item as the one before has left it.
func (a *acquiring) together(ctx context.Context, v *view, s *session, rest []granting) (again []int, err error) {
	ever, some := v.deleted()
	for len(rest) > 0 {
		part := a.nextPart(&rest)
		refused, err := a.write(ctx, v, s, [][]granting{part}, []Change{a.b.grantWithMeta(v, part)})
		if err != nil {
			return nil, err
		}
		if refused == nil {
			ever, some = v.deleted()
			continue
		}
		again = append(again, refused...)
		if err := a.b.readMeta(ctx, v); err != nil { // another process makes elections, too
			return nil, err
		}
		if e, s := v.deleted(); e != ever || s != some { // the others may no longer be free
			break
		}
	}
	for _, g := range rest {
		again = append(again, g.bid)
	}
	return again, nil
}

// nextPart takes as many grants as fit into one change beside the meta item, and fewer after one was
// denied, so that rights that are missing for one election do not affect the others.
func (a *acquiring) nextPart(rest *[]granting) (part []granting) {
	room := max(2, (a.b.limits.Batch-1)>>(2*a.narrow))
	for _, g := range *rest {
		if room--; g.checksSession() {
			room--
		}
		if part != nil && (room < 0 || a.narrow == rounds-1) {
			break
		}
		part = append(part, g)
	}
	*rest = (*rest)[len(part):]
	return part
}

// before answers a bid that is not to be granted, and one that an earlier attempt of this very
// call was granted though its answer says otherwise: a copy of the request came first.
func (a *acquiring) before(ctx context.Context, i int, st *state) (answered bool) {
	b, bid := a.b, &a.bids[i]
	nonce := b.owner.Nonce()
	if h := a.attempts[i]; h != 0 && st.heldBy(nonce) && st.record.Heartbeat == h && !st.suspect {
		b.markHeld(st.record, st.item)
		a.answers[i] = backend.Answer{Lease: st.Lease, Outcome: backend.Granted, ValidFor: bid.TTL}
		return true
	}
	if (st.own || st.Unchanged(bid.Expected)) && st.MovedTo == bid.Expected.MovedTo {
		return false
	}
	a.answers[i] = backend.Answer{Lease: st.Lease, Outcome: backend.Refused}
	switch leftover := st.heldBy(nonce); {
	case leftover && st.own:
	case leftover, a.late[i]: // from before the store was rebuilt; or a bid that may still be granted
		if err := b.release(ctx, []backend.Held{{Election: bid.Election, End: backend.Failed}}); err != nil {
			a.answers[i] = backend.Answer{Err: b.fail(about("acquire", 1, bid.Election), err)}
		}
	default:
		b.forget(bid.Election, 0)
	}
	return true
}

// write writes grants, answers those that were applied, and returns the others.
func (a *acquiring) write(ctx context.Context, v *view, s *session, parts [][]granting, changes []Change) (again []int, err error) {
	b := a.b
	var pending []*Record
	for _, part := range parts {
		for _, g := range part {
			pending, a.attempts[g.bid] = append(pending, g.record), g.record.Heartbeat
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
		if r.Outcome == backend.Granted && len(part) < len(changes[n].Put) { // with the meta item
			v.noteMeta(r.Items[len(part)], changes[n].Put[len(part)].Value, part)
		}
		for k, g := range part {
			switch {
			case r.Outcome == backend.Granted:
				b.markHeld(g.record, r.Items[k])
				st := state{item: r.Items[k]}
				st.Election, st.item.Value = g.record.Election, g.record
				b.mu.Lock()
				b.classify(v, &st, map[Key]Item{b.sessionKey(): {Key: b.sessionKey(), Version: s.item.Version, Created: s.item.Created, Value: &s.value}})
				b.mu.Unlock()
				a.answers[g.bid] = backend.Answer{Lease: st.Lease, Outcome: backend.Granted, ValidFor: a.bids[g.bid].TTL}
			case r.Outcome == backend.Refused:
				again = append(again, g.bid)
			case len(part) > 1 && errors.Is(r.Err, backend.ErrDenied): // rights may be missing for some of them only
				again, a.narrow = append(again, g.bid), max(a.narrow, a.round+1)
			case err == nil:
				a.answers[g.bid].Err = b.fail(about("acquire", len(part), g.record.Election), r.Err)
			}
		}
	}
	return again, err
}

// newGrant returns the record of a grant.
func newGrant(v *view, s *state, bid *backend.Bid, term uint64, generation string, now time.Time) *Record {
	c := bid.Candidate
	r := &Record{
		Election: bid.Election, Term: term, ID: c.ID, Nonce: string(c.Nonce), Address: c.Address, Metadata: c.Metadata,
		TTL: Span(bid.TTL), Renew: Span(bid.Renew), Session: generation, Heartbeat: NewHeartbeat(), Epoch: v.epoch,
		Elected: now, Written: now, MovedTo: s.MovedTo, MovedFrom: s.MovedFrom,
	}
	r.End, r.LastID, r.History = s.endLeadership(backend.Failed, now)
	return r
}

// endLeadership returns the record's fields about the past after its present leadership, if it
// has one, has ended.
func (s *state) endLeadership(how backend.End, now time.Time) (end backend.End, id string, history []backend.Leadership) {
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
	return how, r.ID, clean.Remember(r.History, backend.Leadership{Term: r.Term, ID: r.ID, From: r.Elected}, how, now, lapsed)
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
