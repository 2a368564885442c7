package lease

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-election/go-election/backend"
)

// Renew implements [backend.Backend]. One write renews all leases: if the session is as the
// previous renewal left it, it gets a fresh heartbeat, and the versions of the records are compared
// after that. A lease whose record has changed is read, and renewed once more if it is still this process's.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return (&renewing{b: b, held: held}).call(ctx, "renew")
}

// Mark implements [backend.Marker]: it writes the records with the marks.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return (&renewing{b: b, held: held, mark: true}).call(ctx, "mark")
}

// renewing is one call of Renew or Mark. It holds the session mutex.
type renewing struct {
	b       *Backend
	held    []backend.Held
	answers []backend.Answer
	mark    bool
}

func (r *renewing) call(ctx context.Context, verb string) ([]backend.Answer, error) {
	b, first := r.b, &r.held[0]
	if err := b.Enter(first.Holder.Nonce); err != nil {
		return nil, err
	}

	r.answers = make([]backend.Answer, len(r.held))
	unlock, err := b.lockSession(ctx)
	if err == nil {
		defer unlock()
		err = r.run(ctx)
	}
	err = b.fail(backend.Describe(verb, len(r.held), first.Election), err)
	setErrors(r.answers, err)
	return r.answers, err
}

// run renews leases of the present session by one heartbeat, and others by writing their records, until
// each has an answer.
func (r *renewing) run(ctx context.Context) error {
	for range rounds {
		beating, rest := r.split(r.b.currentSession())
		if len(beating)+len(rest) == 0 {
			return nil
		}
		if err := r.rewrite(ctx, rest); err != nil {
			return err
		}
		if err := r.writeHeartbeat(ctx, beating); err != nil {
			return err
		}
	}
	return errBusy
}

// split returns the leases without an answer: those that a heartbeat renews, and those whose record
// must be read.
func (r *renewing) split(s *session) (beating, rest []int) {
	for i := range r.held {
		if a := &r.answers[i]; a.Outcome != backend.Unknown || a.Err != nil {
			continue
		}
		g, ok := r.b.heldInTerm(&r.held[i])
		if ok && g.asGranted() && g.renewedBy(s) && !r.mark {
			beating = append(beating, i)
		} else {
			rest = append(rest, i)
		}
	}
	slices.SortFunc(beating, func(i, j int) int {
		return cmp.Compare(r.held[i].Election, r.held[j].Election)
	})
	return beating, rest
}

// writeHeartbeat writes one heartbeat for leases of the session, and answers those whose records are
// unchanged after it. It leaves the others for the next round; if the session has changed, all of them.
func (r *renewing) writeHeartbeat(ctx context.Context, part []int) error {
	b := r.b
	s := b.currentSession()
	if len(part) == 0 || s == nil { // rewrite may have found out that the session is lost
		return nil
	}

	names, records := r.names(part), make([]Item, len(part))
	for n, i := range part {
		g, _ := b.heldInTerm(&r.held[i])
		records[n] = g.item(names[n]) // without its value: the session's version is newer
	}
	next := s.value.Renew(names, b.othersHeld(names, s), b.limits.Now())
	if next.Apart != nil && len(Encode(&next)) > b.limits.MaxValue { // nobody would read it
		_, _, err := b.writeSession(ctx, s, s.value.successor(), nil)
		return err // the next round moves the leases to the new generation
	}

	written, stale, err := b.writeSession(ctx, s, next, records)
	if written {
		r.answerHeartbeat(part, stale)
	}
	return err
}

// answerHeartbeat answers leases for which a heartbeat has been written, unless their records are stale:
// these are indexes in part. They are read in the next round.
func (r *renewing) answerHeartbeat(part, stale []int) {
	b, s := r.b, r.b.currentSession()
	for _, n := range stale {
		b.invalidate(r.held[part[n]].Election)
	}

	for _, i := range part {
		if g, ok := b.heldInTerm(&r.held[i]); ok && g.asGranted() {
			r.answers[i] = g.answer(r.held[i].Election, r.held[i].TTL, s)
		}
	}
}

// othersHeld returns the elections besides names that this process may hold under a session, with heartbeats.
func (b *Backend) othersHeld(names []string, s *session) (others []string) {
	renewed := make(map[string]bool, len(names))
	for _, name := range names {
		renewed[name] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, g := range b.held {
		elsewhere := g != nil && !g.renewedBy(s) && g.unconfirmed == nil
		if !renewed[name] && !elsewhere {
			others = append(others, name)
		}
	}
	return others
}

// rewrite reads leases. It answers those that this process no longer holds, and writes the records of those
// that a heartbeat does not renew. It leaves the others for the next round.
func (r *renewing) rewrite(ctx context.Context, part []int) error {
	if len(part) == 0 {
		return nil
	}
	b := r.b
	v, states, err := b.read(ctx, r.names(part))
	if err != nil {
		return err
	}

	var changes []Change
	var records []*Record
	var rewritten []int
	for n, i := range part {
		st := &states[n]
		g, ours := r.stillOurs(i, st)
		if !ours {
			r.answers[i] = backend.Answer{Lease: st.Lease, Outcome: backend.Refused}
			continue
		}
		s, err := b.makeSession(ctx, r.held[i].Holder)
		if err != nil {
			return err
		}

		// What is late would arrive over this record.
		late := g.unconfirmed != nil && st.record.Heartbeat == g.record.heartbeat
		if r.inSession(st) && !late {
			b.markHeld(st.record, st.item)
			continue
		}
		next := r.rewritten(i, st, s)
		records, rewritten = append(records, next), append(rewritten, i)
		changes = append(changes, Change{Put: []Put{{st.item, next}}})
	}
	if changes == nil {
		return nil
	}

	b.markPending(records)
	w, err := b.driver.Write(ctx, v.epoch, v.wentBack, changes, nil)
	for n, i := range rewritten {
		switch res := w.result(n); {
		case res.Outcome == backend.Granted:
			g := b.markHeld(records[n], res.Items[0])
			r.answers[i] = g.answer(r.held[i].Election, r.held[i].TTL, b.currentSession())
		case res.Outcome == backend.Unknown && err == nil:
			r.answers[i].Err = b.fail(backend.Describe("renew", 1, r.held[i].Election), res.Err)
		}
	}
	return err
}

// stillOurs returns the grant of a lease, and whether the record that was read is of that grant, and nobody
// deposes its holder.
func (r *renewing) stillOurs(i int, st *state) (g grant, ours bool) {
	h := &r.held[i]
	g, ok := r.b.heldInTerm(h)
	if !ok || st.suspect || !st.heldBy(h.Holder.Nonce) || st.Term != h.Term {
		return g, false
	}
	if st.record.Heartbeat != g.record.heartbeat && !slices.Contains(g.unconfirmed, st.record.Heartbeat) {
		return g, false
	}
	return g, st.Request.Kind != backend.Depose
}

// inSession reports whether heartbeats of the present session renew the lease without its record.
func (r *renewing) inSession(st *state) bool {
	s := r.b.currentSession()
	return s != nil && st.record.Session == s.value.Generation && !r.mark
}

// rewritten returns the record that renews a lease under the session s, and has the marks if they are to be
// written.
func (r *renewing) rewritten(i int, st *state, s *session) *Record {
	next := *st.record
	next.Session, next.Heartbeat = s.value.Generation, NewHeartbeat()
	next.Written = r.b.now()
	if r.mark {
		next.MovedTo, next.MovedFrom = r.held[i].MovedTo, r.held[i].MovedFrom
	}
	return &next
}

func (r *renewing) names(part []int) []string {
	return namesOf(part, func(i int) string { return r.held[i].Election })
}
