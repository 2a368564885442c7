package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"time"

	api "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-election/go-election/backend"
)

// Acquire implements [backend.Backend]. It reads, unless it remembers that all leases are as the bids
// expect them, and writes each Lease under the condition that it is as it was read. It tries again
// those that are still as the bid expects them.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(ctx, about("acquire", len(bids), bids[0].Election), bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	if b.doubt != nil {
		return nil, wrap(about("acquire", len(bids), bids[0].Election), b.doubt)
	}
	a := acquiring{b: b, bids: bids, answers: make([]backend.Answer, len(bids)), stubs: make([]*stub, len(bids))}
	todo := make([]int, len(bids))
	for i := range bids {
		todo[i] = i
		b.noteTTL(bids[i].TTL)
	}
	var err error
	for a.round = 0; a.round < rounds && len(todo) > 0 && err == nil; a.round++ {
		todo, err = a.try(ctx, todo)
	}
	if err == nil && len(todo) > 0 {
		err = errBusy
	}
	err = wrap(about("acquire", len(bids), bids[0].Election), err)
	for i := range a.answers {
		if a.answers[i].Outcome == backend.Unknown && a.answers[i].Err == nil {
			a.answers[i].Err = err
		}
	}
	return a.answers, cmp.Or(err, allFailed(a.answers))
}

// acquiring is one call of Acquire.
type acquiring struct {
	b       *Backend
	bids    []backend.Bid
	answers []backend.Answer
	stubs   []*stub
	round   int
}

// A stub is a Lease that this call has made, and that nobody was granted yet.
type stub struct {
	at      uint64 // its resourceVersion
	version string // of the lease before
}

// A granting is a bid that may be granted over what was read.
type granting struct {
	bid   int
	state state
	err   error
}

// try makes one attempt at some of the bids, and returns those that must be tried again.
func (a *acquiring) try(ctx context.Context, todo []int) (again []int, err error) {
	states, err := a.read(ctx, todo)
	if err != nil {
		return nil, err
	}
	var grants []*granting
	for n, i := range todo {
		if g := a.decide(i, &states[n]); g != nil {
			grants = append(grants, g)
		}
	}
	a.b.each(len(grants), func(n int) { a.make(ctx, grants[n]) })
	grants, again = a.split(grants, again)
	if ok, err := a.enroll(ctx, grants); err != nil {
		return nil, err
	} else if !ok {
		for _, g := range grants {
			again = append(again, g.bid)
		}
		return again, nil
	}
	a.b.each(len(grants), func(n int) { a.grant(ctx, grants[n]) })
	_, again = a.split(grants, again)
	return again, nil
}

// read returns the elections as they are remembered, if all are as the bids expect them, and otherwise
// reads them.
func (a *acquiring) read(ctx context.Context, todo []int) (states []state, err error) {
	names, ok := make([]string, len(todo)), a.round == 0
	for n, i := range todo {
		bid := &a.bids[i]
		names[n] = bid.Election
		s, known := a.b.remembered(bid.Election)
		states = append(states, s)
		ok = ok && known && !s.suspect && s.Unchanged(bid.Expected)
	}
	if ok {
		return states, nil
	}
	return a.b.read(ctx, names)
}

// decide answers a bid that is not to be granted.
func (a *acquiring) decide(i int, s *state) *granting {
	bid := &a.bids[i]
	ours := a.stubs[i] != nil && s.lease != nil && s.version == a.stubs[i].at
	if !ours && !s.own && !s.Unchanged(bid.Expected) || s.MovedTo != bid.Expected.MovedTo {
		a.answers[i] = backend.Answer{Lease: s.Lease, Outcome: backend.Refused}
		return nil
	}
	if bid.TTL < MinTTL || bid.TTL > MaxTTL {
		a.answers[i].Err = fmt.Errorf("kubernetes: acquire %q: %w: TTL is %v; it must be %v to %v", bid.Election, backend.ErrInvalid, bid.TTL, MinTTL, MaxTTL)
		return nil
	}
	return &granting{bid: i, state: *s}
}

// split returns the grants without an error, and adds to again those that a conflict has prevented. The
// others are answered.
func (a *acquiring) split(grants []*granting, again []int) ([]*granting, []int) {
	var rest []*granting
	for _, g := range grants {
		switch {
		case g.err == nil:
			rest = append(rest, g)
		case conflict(g.err):
			again = append(again, g.bid)
		default:
			a.answers[g.bid].Err = wrap(about("acquire", 1, a.bids[g.bid].Election), a.b.fail(g.err))
		}
	}
	return rest, again
}

// make makes the Lease of an election that has none. By itself it grants nothing: a record without the UID
// frees nothing either.
func (a *acquiring) make(ctx context.Context, g *granting) {
	if g.state.lease != nil {
		return
	}
	now, before := time.Now().UTC(), g.state
	made, err := a.b.write(ctx, &before, change{record: &record{Election: before.Election, Heartbeat: random(), Elected: now, Written: now}})
	if g.err = err; err == nil {
		a.stubs[g.bid] = &stub{made.version, before.Version}
		suspect := before.suspect
		g.state = made
		g.state.Lease, g.state.suspect = before.Lease, suspect
	}
}

// enroll writes the census, if it may lack one of the elections or the TTL.
func (a *acquiring) enroll(ctx context.Context, grants []*granting) (ok bool, err error) {
	var missing []enrolling
	ttl := time.Duration(0)
	for _, g := range grants {
		s, bid := &g.state, &a.bids[g.bid]
		ttl = max(ttl, bid.TTL)
		if st := a.stubs[g.bid]; st != nil && s.version == st.at {
			missing = append(missing, enrolling{bid.Election, st.version})
		} else if s.record == nil || s.record.UID != string(s.lease.UID) {
			missing = append(missing, enrolling{election: bid.Election})
		}
	}
	if len(grants) == 0 {
		return true, nil
	}
	if ok, err = a.b.enroll(ctx, missing, ttl); !ok && err == nil {
		a.dropStubs()
	}
	return ok, err
}

// dropStubs forgets those Leases whose elections were led meanwhile: their bids are refused.
func (a *acquiring) dropStubs() {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	for i, st := range a.stubs {
		s := state{name: a.b.names.election(a.bids[i].Election)}
		if s.classifyMissing(a.b, a.bids[i].Election); st != nil && s.Version != st.version {
			a.stubs[i] = nil
		}
	}
}

// grant writes a grant.
func (a *acquiring) grant(ctx context.Context, g *granting) {
	b, s, bid, now := a.b, &g.state, &a.bids[g.bid], time.Now().UTC()
	term, err := s.terms(bid, now)
	if err != nil {
		g.err = err
		return
	}
	b.mu.Lock()
	longest := b.longest
	b.pending[s.name] = s.version
	b.mu.Unlock()
	after, err := b.write(ctx, s, change{record: s.grant(bid, term, now, longest)})
	if err == nil || conflict(err) || api.IsNotFound(err) { // whatever else says nothing of an earlier copy
		b.mu.Lock()
		delete(b.pending, s.name)
		b.mu.Unlock()
	}
	switch {
	case err != nil:
		g.err = err
	case !after.own || after.Term != term:
		g.err = errBack // noticed meanwhile
	default:
		a.answers[g.bid] = backend.Answer{Lease: after.Lease, Outcome: backend.Granted, ValidFor: bid.TTL}
	}
}
