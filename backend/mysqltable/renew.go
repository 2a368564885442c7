package mysqltable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Renew implements [backend.Backend]: the leases, then their rows, and then a
// reading of the rows, which alone says whether they are ours and for how long.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.serve(ctx, held[0].Holder); err != nil {
		return nil, err
	}
	answers, err := b.inner.Renew(ctx, held)
	return b.keepRows(ctx, "renew", held, answers, err)
}

// Mark implements [backend.Backend]. The seal of a row is a time that the other
// programs never see pass. It is there before the mark beside the lease says so,
// and goes after that is gone.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.serve(ctx, held[0].Holder); err != nil {
		return nil, err
	}
	for _, l := range held {
		if l.MovedTo == "" {
			continue
		}
		key, errs := b.keysOf([]string{l.Election})
		if errs[0] != nil {
			return nil, errs[0]
		}
		err := b.on(ctx, fmt.Sprintf("move %q", l.Election), func(conn *sql.Conn) error {
			holder := b.shape.holderOf(l.Holder, l.Term)
			if err := b.keep(ctx, conn, key, []string{holder}, sealed); err != nil {
				return err
			}
			rows, err := b.read(ctx, conn, key, errs)
			if err == nil && rows[0].holder == holder && rows[0].at != sealed {
				err = errUnsealed
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	answers, err := b.inner.Mark(ctx, held)
	return b.keepRows(ctx, "mark", held, answers, err)
}

var errUnsealed = fmt.Errorf("%w: the row is locked by another transaction, and not sealed", backend.ErrUnavailable)

// keepRows renews the rows of those leases that were renewed, and turns the answers
// about leases into answers about both.
func (b *Backend) keepRows(ctx context.Context, verb string, held []backend.Held, answers []backend.Answer, failed error) ([]backend.Answer, error) {
	if len(answers) != len(held) {
		return answers, failed
	}
	names := make([]string, len(held))
	for i, l := range held {
		names[i] = l.Election
	}
	keys, errs := b.keysOf(names)
	var rows []row
	err := b.on(ctx, fmt.Sprintf("%s %d leases", verb, len(held)), func(conn *sql.Conn) (err error) {
		for _, seal := range []bool{false, true} {
			var mine, holders []string
			for i, a := range answers {
				if a.Outcome == backend.Granted && errs[i] == nil && (a.MovedTo != "") == seal {
					mine, holders = append(mine, keys[i]), append(holders, b.shape.holderOf(held[i].Holder, held[i].Term))
				}
			}
			var when any
			if seal {
				when = sealed
			}
			if len(mine) > 0 {
				if err := b.keep(ctx, conn, mine, holders, when); err != nil {
					return err
				}
			}
		}
		rows, err = b.read(ctx, conn, keys, errs)
		return err
	})
	for i := range answers {
		a := &answers[i]
		switch {
		case a.Outcome == backend.Unknown:
		case err != nil || errs[i] != nil:
			*a = backend.Answer{Err: errors.Join(err, errs[i])}
		default:
			v := view{inner: a.Lease, row: rows[i], key: keys[i]}
			b.compose(&v)
			switch {
			case a.Outcome == backend.Refused:
				a.Lease = v.lease
			case v.row.holder != b.shape.holderOf(held[i].Holder, held[i].Term):
				*a = backend.Answer{Lease: v.lease, Outcome: backend.Refused, Err: b.lost(&v)}
			default:
				trust, err := b.trust(&v, a.ValidFor)
				if a.MovedTo != "" && v.row.at != sealed {
					err = fmt.Errorf("mysqltable: %s %q: %w", verb, v.inner.Election, errUnsealed)
				}
				if err != nil {
					*a = backend.Answer{Err: err}
					continue
				}
				a.Lease, a.ValidFor = v.lease, trust
			}
		}
	}
	return answers, errors.Join(failed, err)
}

// lost says to whom a row was lost.
func (b *Backend) lost(v *view) error {
	if !v.row.found {
		return fmt.Errorf("mysqltable: %q: the row %.80q was deleted from %s", v.inner.Election, v.key, b.table())
	}
	return fmt.Errorf("mysqltable: %q: the row %.80q of %s names %.128q", v.inner.Election, v.key, b.table(), v.row.holder)
}

// Release implements [backend.Backend]: the rows, which become nobody's, of long
// ago; then the leases.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.serve(ctx, backend.Candidate{}); err != nil {
		return err
	}
	return b.release(ctx, held)
}

func (b *Backend) release(ctx context.Context, held []backend.Held) error {
	me := b.self()
	if me.Nonce == "" {
		return nil // it never held anything
	}
	names := make([]string, len(held))
	for i, l := range held {
		names[i] = l.Election
	}
	leases, err := b.leases(ctx, names)
	if err != nil {
		return err
	}
	keys, errs := b.keysOf(names)
	var ends []backend.Held // each in the term in which it was found
	var mine, holders, times []string
	for i, l := range leases {
		term := held[i].Term
		if term == 0 && l.Holder.Nonce == me.Nonce {
			term = l.Term
		}
		if term == 0 || errs[i] != nil {
			continue
		}
		// The lease may be gone already, and the row there yet.
		when := vacated
		if l.MovedTo != "" {
			when = sealed
		}
		mine, holders, times = append(mine, keys[i]), append(holders, b.shape.holderOf(me, term)), append(times, when)
		end := held[i]
		end.Term = term
		ends = append(ends, end)
	}
	if ends == nil {
		return nil
	}
	err = b.on(ctx, fmt.Sprintf("release %d leases", len(ends)), func(conn *sql.Conn) error {
		for i, key := range mine {
			if _, err := conn.ExecContext(ctx, b.text(endSQL), times[i], key, holders[i]); err != nil {
				return err
			}
		}
		none := make([]error, len(mine))
		rows, err := b.read(ctx, conn, mine, none)
		if err != nil {
			return err
		}
		for i, r := range rows {
			if r.found && r.holder == holders[i] {
				return fmt.Errorf("%w: the row %.80q is still ours", backend.ErrUnavailable, mine[i])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.inner.Release(ctx, ends)
}
