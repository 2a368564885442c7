package lease

import (
	"context"
	"errors"

	"github.com/go-election/go-election/backend"
)

// Release implements [backend.Backend]. It writes vacant records over those that were granted, or
// that it reads first. The session continues.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.Enter(""); err != nil {
		return err
	}
	if b.owner.Nonce() == "" {
		return nil // it has held nothing
	}
	err := ctx.Err()
	if err == nil {
		err = b.release(ctx, held)
	}
	return b.fail(about("release", len(held), held[0].Election), err)
}

// release ends leases, and stops bids that may still be on their way.
func (b *Backend) release(ctx context.Context, held []backend.Held) error {
	v, states, remembered := b.rememberedGrants(held)
	for range rounds {
		if !remembered {
			names := make([]string, len(held))
			for n := range held {
				names[n] = held[n].Election
			}
			var err error
			if v, states, err = b.read(ctx, names); err != nil {
				return err
			}
		}
		remembered = false
		changes, todo := b.planRelease(v, states, held)
		if changes == nil {
			return nil
		}
		w, err := b.driver.Write(ctx, v.epoch, v.wentBack, changes, nil)
		var again []backend.Held
		var failed []error
		for n, ended := range todo {
			switch r := w.result(n); {
			case r.Outcome == backend.Granted:
				for _, h := range ended {
					b.forget(h.Election, 0)
				}
			case r.Outcome == backend.Refused, errors.Is(errors.Join(err, r.Err), ErrEpoch):
				again = append(again, ended...)
			case err == nil:
				failed = append(failed, r.Err)
			}
		}
		if failure := backend.Join(failed...); err != nil && !errors.Is(err, ErrEpoch) || failure != nil {
			return backend.Join(err, failure)
		}
		if held = again; len(held) == 0 {
			return nil
		}
	}
	return errBusy
}

// planRelease returns the changes that end leases, and for each change the leases that it ends.
// Leases that this process does not hold are forgotten.
func (b *Backend) planRelease(v *view, states []state, held []backend.Held) (changes []Change, todo [][]backend.Held) {
	end := func(put Put, by ...backend.Held) {
		changes, todo = append(changes, Change{Put: []Put{put}, Notify: true}), append(todo, by)
	}

	var unmade []backend.Held
	for n, h := range held {
		st := &states[n]
		switch {
		case st.heldBy(v.nonce) && (h.Term == 0 || h.Term == st.Term):
			end(Put{st.item, b.vacated(v, st, h.End)}, h)
		case h.Term != 0 || !b.mayHold(h.Election):
			b.forget(h.Election, h.Term)
		// In the other cases a bid of this process may still be on its way. It fails if an item
		// that it requires is written once more: "Late requests" in doc.go.
		case !st.missing:
			r := Record{Election: h.Election}
			if st.record != nil {
				r = *st.record
			}
			if st.suspect {
				r.Election, r.Epoch = h.Election, "" // it must still be watched
			}
			end(Put{st.item, &r}, h)
		default: // the bid would count the record
			unmade = append(unmade, h)
		}
	}
	if unmade != nil {
		m := b.presentMeta(v)
		end(Put{v.meta, &m}, unmade...)
	}
	return changes, todo
}

// vacated returns the vacant record that follows a leadership of this process.
func (b *Backend) vacated(v *view, st *state, how backend.End) *Record {
	now := b.limits.Now().UTC()
	r := &Record{Election: st.Election, Term: st.Term, Heartbeat: NewHeartbeat(), Epoch: v.epoch, Written: now, Request: st.record.Request, MovedTo: st.MovedTo, MovedFrom: st.MovedFrom}
	r.End, r.LastID, r.History = st.endLeadership(how, now)
	if st.suspect || !b.mayHold(st.Election) {
		r.Epoch = "" // it must still be watched
	}
	return r
}

// rememberedGrants returns the leases to release as they were granted, if all of them are
// remembered with the terms that are to end.
func (b *Backend) rememberedGrants(held []backend.Held) (v *view, states []state, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v = b.cachedView()
	s := b.session
	if s == nil {
		return b.adoptedGrants(v, held)
	}
	if s.place != v.place {
		return nil, nil, false // the grants may be from before the store went back
	}

	session := s.item
	session.Value = &s.value
	v.items[b.sessionKey()] = session
	states = make([]state, len(held))
	for i, h := range held {
		g := b.held[h.Election]
		if g == nil || g.record.term != h.Term || !g.asGranted() || g.record.session() != s.value.Generation {
			return nil, nil, false
		}
		st := &states[i]
		st.Election, st.item = h.Election, g.item(h.Election)
		r := g.record.record(h.Election)
		st.item.Value, st.item.Remembered = &r, true
		b.derive(v, st)
		if st.suspect {
			return nil, nil, false
		}
	}
	return v, states, true
}

// adoptedGrants is rememberedGrants of a process that has adopted them, and has read them before. The caller
// holds b.mu.
func (b *Backend) adoptedGrants(v *view, held []backend.Held) (_ *view, states []state, ok bool) {
	states = make([]state, len(held))
	for i, h := range held {
		if s := &states[i]; h.Term == 0 || !b.loadCached(v, h.Election, s) || !s.heldBy(v.nonce) || s.Term != h.Term {
			return nil, nil, false
		}
	}
	return v, states, true
}

// Adopt implements [backend.Adopter]. The leases count as granted to this process, so that releasing
// them leaves nothing to be watched.
func (b *Backend) Adopt(nonce backend.Nonce, held []backend.Held) error {
	if err := b.Enter(nonce); err != nil {
		return b.fail("adopt", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range held {
		b.held[h.Election] = nil
	}
	return nil
}
