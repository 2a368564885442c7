package lease

import (
	"context"

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
	return b.fail(backend.Describe("release", len(held), held[0].Election), err)
}

// release ends leases, and stops bids that may still be on their way.
func (b *Backend) release(ctx context.Context, held []backend.Held) error {
	v, states := b.rememberedGrants(held)
	name := func(h backend.Held) string { return h.Election }
	done := func(h backend.Held) { b.forget(h.Election, 0) }
	return change(ctx, b, held, v, states, name, b.planRelease, done)
}

// planRelease returns the changes that end leases, and for each change the leases that it ends.
// Leases that this process does not hold are forgotten.
func (b *Backend) planRelease(
	v *view, states []state, held []backend.Held,
) (changes []Change, of [][]backend.Held) {
	end := func(put Put, by ...backend.Held) {
		changes, of = append(changes, Change{Put: []Put{put}, Notify: true}), append(of, by)
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
	return changes, of
}

// vacated returns the vacant record that follows a leadership of this process.
func (b *Backend) vacated(v *view, st *state, how backend.End) *Record {
	now := b.limits.Now().UTC()
	r := &Record{
		Election: st.Election, Term: st.Term, Heartbeat: NewHeartbeat(), Epoch: v.epoch, Written: now,
		Request: st.record.Request, MovedTo: st.MovedTo, MovedFrom: st.MovedFrom,
	}
	r.End, r.LastID, r.History = st.endLeadership(how, now)
	if st.suspect || !b.mayHold(st.Election) {
		r.Epoch = "" // it must still be watched
	}
	return r
}

// rememberedGrants returns the leases to release as they were granted, or were read before they were adopted.
// states is nil unless all of them are remembered with the terms that are to end.
func (b *Backend) rememberedGrants(held []backend.Held) (v *view, states []state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, states = b.cachedView(), make([]state, len(held))
	own := b.session
	for i, h := range held {
		st, g := &states[i], b.held[h.Election]
		switch {
		case g == nil:
			b.loadCached(v, h.Election, st)
		case g.asGranted() && g.renewedBy(own) && own.source == v.source:
			session, r := own.item, g.record.record(h.Election)
			session.Value = &own.value
			v.items[b.sessionKey()] = session

			st.Election, st.item = h.Election, g.item(h.Election)
			st.item.Value, st.item.Remembered = &r, true
			b.derive(v, st)
		}
		if h.Term == 0 || st.Term != h.Term || !st.heldBy(v.nonce) || st.suspect {
			return nil, nil // perhaps the grant is from before the store went back
		}
	}
	return v, states
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
