package migration

import (
	"context"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// seal sets the marks of attempts that hold both leases to those of this stage, and answers
// them. At stage To it first seals the old store, and then writes the record into the new
// one, which allows members to lead by that alone. At stage Both, on the way back, it first
// clears the record and seals the new store, and then removes the old seal. So the record
// exists only while the seal does.
func (b *Backend) seal(ctx context.Context, attempts []*attempt, answers []backend.Answer) error {
	var wrong []*attempt
	for _, t := range attempts {
		sealed, recorded := t.old.MovedTo != "", t.new.MovedFrom == b.oldName
		if b.stage == Both && t.new.MovedTo == "" && t.new.MovedFrom != "" {
			recorded = true // under whatever name of the old store: members at To lead by it
		}
		if on := b.stage == To; sealed != on || recorded != on || on && t.new.MovedTo != "" {
			wrong = append(wrong, t)
			continue
		}
		answers[t.i] = b.granted(t)
	}
	if len(wrong) == 0 {
		return nil
	}
	markOld := func(to string) (err error) {
		var unchanged, change []*attempt
		for _, t := range wrong {
			// The mark is as it should be, or Unsealed is set for a store that keeps no marks.
			if t.old.MovedTo == to || b.unsealed && !keepsMarks(b.old) {
				unchanged = append(unchanged, t)
			} else {
				change = append(change, t)
			}
		}
		if change != nil {
			change, err = b.mark(ctx, b.old, change, answers, func(t *attempt) (*backend.Answer, string, string) { return &t.old, to, t.old.MovedFrom })
		}
		wrong = append(unchanged, change...)
		return err
	}
	markNew := func(to, from string) (err error) {
		if len(wrong) > 0 {
			wrong, err = b.mark(ctx, b.new, wrong, answers, func(t *attempt) (*backend.Answer, string, string) { return &t.new, to, from })
		}
		return err
	}
	var err error
	if b.stage == To {
		record := b.oldName
		if b.unsealed && !keepsMarks(b.old) {
			record = b.unsealedMark()
		}
		err = backend.Join(markOld(b.newName), markNew("", record))
	} else {
		err = backend.Join(markNew(b.oldName, ""), markOld(""))
	}
	var done []backend.Held
	for _, t := range wrong {
		answers[t.i] = b.granted(t)
		if b.stage == To {
			l := t.old.Held()
			l.End = backend.Released
			done = append(done, l)
		}
	}
	b.releaseAll(ctx, b.old, done) // these leases are no longer needed; if this fails, they expire
	return err
}

// keepsMarks reports whether a store can be marked.
func keepsMarks(store backend.Backend) bool {
	_, ok := store.(backend.Marker)
	return ok
}

// mark writes marks into leases of one store, and returns the attempts that have them. It
// releases and answers the others.
func (b *Backend) mark(ctx context.Context, store backend.Backend, attempts []*attempt, answers []backend.Answer, of func(*attempt) (a *backend.Answer, to, from string)) ([]*attempt, error) {
	held := make([]backend.Held, len(attempts))
	for n, t := range attempts {
		a, to, from := of(t)
		held[n] = a.Held()
		held[n].MovedTo, held[n].MovedFrom = to, from
	}
	moved, err := store.(backend.Marker).Mark(ctx, held)
	var done, not []*attempt
	for n, t := range attempts {
		a, _, _ := of(t)
		m := item(moved, n, err)
		switch {
		case m.Outcome == backend.Granted:
			m.ValidFor = min(a.ValidFor, m.ValidFor)
			*a = m
			done = append(done, t)
			continue
		case m.Outcome == backend.Refused:
			a.Err = fmt.Errorf("%w: election %q: the lease was lost before its mark was written", backend.ErrUnavailable, t.bid.Election)
		default:
			a.Err = m.Err
		}
		not = append(not, t)
	}
	b.releaseHalves(ctx, not, answers)
	return done, err
}
