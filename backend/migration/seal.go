package migration

import (
	"context"

	"github.com/go-election/go-election/backend"
)

// seal seals the old store for attempts at stage To that hold both leases, and then writes the
// record into the new one, which allows members to lead by that alone. So the record exists
// only while the seal does.
func (b *Backend) seal(ctx context.Context, attempts []*attempt) error {
	record := b.names[older]
	if b.unsealed && !keepsMarks(b.stores[older]) {
		record = b.unsealedMark()
	}
	sealed, oldErr := b.mark(ctx, older, attempts, func(_ *attempt, h *backend.Held) { h.MovedTo = b.names[newer] })
	recorded, newErr := b.mark(ctx, newer, sealed, func(_ *attempt, h *backend.Held) { h.MovedTo, h.MovedFrom = "", record })

	var needless []backend.Held
	for _, t := range recorded {
		b.grant(t)
		l := t.got[older].Held()
		l.End = backend.Released
		needless = append(needless, l)
	}
	b.releaseBoth(ctx, [2][]backend.Held{older: needless}) // if this fails, they expire
	return backend.Join(oldErr, newErr)
}

// unseal grants leadership at stage Both to attempts that hold both leases. On the way back it first
// clears the record and seals the new store, and then removes the old seal.
func (b *Backend) unseal(ctx context.Context, attempts []*attempt) error {
	cleared, newErr := b.mark(ctx, newer, attempts, func(t *attempt, h *backend.Held) {
		// Members at To lead by a record under whatever name of the old store.
		recorded := h.MovedFrom == b.names[older] || h.MovedFrom != "" && h.MovedTo == ""
		if recorded || t.got[older].MovedTo != "" {
			h.MovedTo, h.MovedFrom = b.names[older], ""
		}
	})
	unsealed, oldErr := b.mark(ctx, older, cleared, func(_ *attempt, h *backend.Held) { h.MovedTo = "" })

	for _, t := range unsealed {
		b.grant(t)
	}
	return backend.Join(oldErr, newErr)
}

// keepsMarks reports whether a store can be marked.
func keepsMarks(store backend.Backend) bool {
	_, ok := store.(backend.Marker)
	return ok
}

// mark changes the marks of leases that one store has granted, and returns the attempts without those whose leases have
// been lost by then, which it releases and answers. It leaves alone a store without marks, and marks that are right.
func (b *Backend) mark(
	ctx context.Context, s side, attempts []*attempt, change func(*attempt, *backend.Held),
) (done []*attempt, err error) {
	marker, marks := b.stores[s].(backend.Marker)
	var wrong []*attempt
	var held []backend.Held
	for _, t := range attempts {
		was := t.got[s].Held()
		h := was
		change(t, &h)
		if !marks || h == was || t.got[s].Outcome != backend.Granted {
			done = append(done, t)
		} else {
			wrong, held = append(wrong, t), append(held, h)
		}
	}
	if wrong == nil {
		return done, nil
	}

	answers, err := marker.Mark(ctx, held)
	var not []*attempt
	for i, t := range wrong {
		was, now := &t.got[s], item(answers, i, err)
		if now.Outcome != backend.Granted { // the lease is lost, or the mark may not be there
			was.Err = now.Err
			not = append(not, t)
			continue
		}
		now.ValidFor = min(was.ValidFor, now.ValidFor)
		*was = now
		done = append(done, t)
	}
	b.releaseHalves(ctx, not)
	return done, err
}

// grant answers an attempt that holds both leases, with their marks.
func (b *Backend) grant(t *attempt) {
	*t.answer = backend.Answer{
		Lease: b.note(t), Outcome: backend.Granted,
		ValidFor: min(t.got[older].ValidFor, t.got[newer].ValidFor),
	}
}
