package lease

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// Renew implements [backend.Backend]. One write renews all leases: if the session is as the
// previous renewal left it, it gets a fresh heartbeat, and the versions of the records are compared
// after that. A lease whose record has changed is read, and renewed if it is still this process's.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renewWith(ctx, "renew", held, false)
}

// Mark implements [backend.Marker]: it writes the records with the marks.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renewWith(ctx, "mark", held, true)
}

// renewing is one call of Renew or Mark. It holds the session mutex.
type renewing struct {
	b       *Backend
	held    []backend.Held
	answers []backend.Answer
	mark    bool
}

func (b *Backend) renewWith(ctx context.Context, verb string, held []backend.Held, mark bool) ([]backend.Answer, error) {
	if err := b.Enter(held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	r := renewing{b, held, make([]backend.Answer, len(held)), mark}
	unlock, err := b.lockSession(ctx)
	if err == nil {
		defer unlock()
		err = r.run(ctx)
	}
	err = b.fail(about(verb, len(held), held[0].Election), err)
	setErrors(r.answers, err)
	return r.answers, err
}

// run renews leases of the present session by one heartbeat, and others by writing their records.
func (r *renewing) run(ctx context.Context) error {
	for range rounds {
		known, rest := r.split(r.b.currentSession())
		if len(known)+len(rest) == 0 {
			return nil
		}
		if rest != nil {
			if err := r.rewrite(ctx, rest, false); err != nil {
				return err
			}
		}
		if known != nil {
			if err := r.renew(ctx, known); err != nil {
				return err
			}
		}
	}
	return errBusy
}

// split returns the leases without an answer: those that a heartbeat renews, and those whose record
// must be read.
func (r *renewing) split(s *session) (known, rest []int) {
	for i := range r.held {
		if a := &r.answers[i]; a.Outcome != backend.Unknown || a.Err != nil {
			continue
		}
		g, ok := r.b.heldInTerm(&r.held[i])
		if ok && s != nil && g.generation == s.value.Generation && g.version != "" && g.unconfirmed == nil && !r.mark {
			known = append(known, i)
		} else {
			rest = append(rest, i)
		}
	}
	slices.SortFunc(known, func(i, j int) int { return cmp.Compare(r.held[i].Election, r.held[j].Election) })
	return known, rest
}

// renew writes one heartbeat for leases of the session, and answers those whose records are
// unchanged after it, or changed and still this process's. If the session has changed, it leaves
// all for the next round.
func (r *renewing) renew(ctx context.Context, known []int) error {
	b := r.b
	s := b.currentSession()
	if s == nil { // rewrite has found out that it is lost
		return nil
	}
	names, items := make([]string, len(known)), make([]Item, len(known))
	for n, i := range known {
		names[n] = r.held[i].Election
		g, _ := b.heldInTerm(&r.held[i])
		items[n] = Item{Key: Key{Records, names[n]}, Version: g.version, Created: g.created} // no Value: the session's version is compared, which is newer
	}
	next := s.value.Renew(names, b.othersHeld(names, s.value.Generation), b.driver.Now())
	if next.size() > b.limits.MaxValue/2 && len(Encode(&next)) > b.limits.MaxValue { // nobody would read it
		_, _, err := b.writeSession(ctx, s, s.value.successor(), r.held[known[0]].TTL, nil)
		return err // the next round moves the leases to the new generation
	}
	stale, ok, err := b.writeSession(ctx, s, next, r.held[known[0]].TTL, items)
	if err != nil {
		return err
	}
	if !ok {
		if now := b.currentSession(); now != nil && now.item.Version == s.item.Version { // so a record has changed
			for _, name := range names {
				b.invalidate(name)
			}
		}
		return nil
	}
	s = b.currentSession()
	unsure := make(map[int]bool, len(stale))
	for _, n := range stale {
		unsure[n] = true
	}
	var changed []int
	for n, i := range known {
		g, ok := b.heldInTerm(&r.held[i])
		if !ok || unsure[n] {
			b.invalidate(r.held[i].Election)
			changed = append(changed, i)
			continue
		}
		r.answers[i] = backend.Answer{Lease: g.lease(&r.held[i], s), Outcome: backend.Granted, ValidFor: min(r.held[i].TTL, g.ttl)}
	}
	if changed == nil {
		return nil
	}
	return r.rewrite(ctx, changed, true)
}

// othersHeld returns the elections besides names that this process may hold under a generation
// of its session. They keep their heartbeats.
func (b *Backend) othersHeld(names []string, generation string) (others []string) {
	renewed := make(map[string]bool, len(names))
	for _, name := range names {
		renewed[name] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, g := range b.held {
		if elsewhere := g != nil && g.generation != generation && g.unconfirmed == nil; !renewed[name] && !elsewhere {
			others = append(others, name)
		}
	}
	return others
}

// rewrite reads leases, and renews those that a heartbeat does not renew by writing their records.
func (r *renewing) rewrite(ctx context.Context, part []int, renewed bool) error {
	b := r.b
	names := make([]string, len(part))
	for n, i := range part {
		names[n] = r.held[i].Election
	}
	v, states, err := b.read(ctx, names)
	if err != nil {
		return err
	}
	var changes []Change
	var records []*Record
	var rewritten []int
	for n, i := range part {
		next, err := r.next(ctx, i, &states[n], renewed)
		if err != nil {
			return err
		}
		if next != nil {
			records, rewritten = append(records, next), append(rewritten, i)
			changes = append(changes, Change{Put: []Put{{states[n].item, next}}})
		}
	}
	if changes == nil {
		return nil
	}
	b.markPending(records)
	w, err := b.driver.Write(ctx, v.epoch, v.wentBack, changes, nil)
	for n, i := range rewritten {
		switch res := w.result(n); {
		case res.Outcome == backend.Granted:
			b.markHeld(records[n], res.Items[0])
			g, _ := b.heldInTerm(&r.held[i])
			l := g.lease(&r.held[i], b.currentSession())
			r.answers[i] = backend.Answer{Lease: l, Outcome: backend.Granted, ValidFor: min(r.held[i].TTL, time.Duration(records[n].TTL))}
		case res.Outcome == backend.Unknown && err == nil:
			r.answers[i].Err = b.fail(about("renew", 1, r.held[i].Election), res.Err)
		}
	}
	return err
}

// next returns the record to write for a lease, or nil. A lease that this process no longer holds is refused. One of
// another generation of the session moves to the present one, and all are written if marks are to be. Others are
// renewed if a heartbeat was written for them just before, and left for the next round otherwise.
func (r *renewing) next(ctx context.Context, i int, st *state, renewed bool) (_ *Record, err error) {
	b, h := r.b, &r.held[i]
	g, ok := b.heldInTerm(h)
	ours := ok && !st.suspect && st.heldBy(h.Holder.Nonce) && st.Term == h.Term &&
		(st.record.Heartbeat == g.heartbeat || slices.Contains(g.unconfirmed, st.record.Heartbeat))
	if !ours || st.Request.Kind == backend.Depose {
		r.answers[i] = backend.Answer{Lease: st.Lease, Outcome: backend.Refused}
		return nil, nil
	}
	s := b.currentSession()
	if s == nil {
		if s, err = b.makeSession(ctx, h.Holder, h.TTL); err != nil {
			return nil, err
		}
	}
	late := g.unconfirmed != nil && st.record.Heartbeat == g.heartbeat // it would arrive over this record
	if st.record.Session == s.value.Generation && !r.mark && !late {
		b.markHeld(st.record, st.item)
		if renewed && g.heartbeat == st.record.Heartbeat {
			r.answers[i] = backend.Answer{Lease: st.Lease, Outcome: backend.Granted, ValidFor: min(h.TTL, st.TTL)}
		}
		return nil, nil
	}
	next := *st.record
	next.Session, next.Heartbeat, next.Written = s.value.Generation, NewHeartbeat(), b.driver.Now().UTC()
	if r.mark {
		next.MovedTo, next.MovedFrom = h.MovedTo, h.MovedFrom
	}
	return &next, nil
}
