package mysqltable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/go-election/go-election/backend"
)

// Renew implements [backend.Backend]. It renews the leases, then their rows, and then reads
// the rows. Only that read says whether they are ours and for how long.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.enter(ctx, held[0].Holder); err != nil {
		return nil, err
	}
	answers, err := b.inner.Renew(ctx, held)
	return b.renewHeldRows(ctx, "renew", held, answers, err)
}

// Mark implements [backend.Backend]. The seal of a row is a time that never expires for the
// other programs. It is written before the mark beside the lease, and removed after it.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	if err := b.enter(ctx, held[0].Holder); err != nil {
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
		err := b.call(ctx, fmt.Sprintf("mark %q", l.Election), func(conn *sql.Conn) error {
			holder := b.shape.holderOf(l.Holder.ID, l.Term)
			if err := b.renewRows(ctx, conn, key, []string{holder}, sealed); err != nil {
				return err
			}
			rows, err := b.read(ctx, conn, key, errs)
			if err == nil && rows[0].holder == holder && rows[0].time != sealed {
				err = errUnsealed
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	answers, err := b.inner.Mark(ctx, held)
	return b.renewHeldRows(ctx, "mark", held, answers, err)
}

var errUnsealed = fmt.Errorf("%w: the row is locked by another transaction, and not sealed", backend.ErrUnavailable)

// renewHeldRows renews the rows of those leases that were renewed, and turns the answers about
// leases into answers about leases and rows.
func (b *Backend) renewHeldRows(ctx context.Context, verb string, held []backend.Held, answers []backend.Answer, failed error) ([]backend.Answer, error) {
	if len(answers) != len(held) {
		return answers, failed
	}
	names := make([]string, len(held))
	for i, l := range held {
		names[i] = l.Election
	}
	keys, errs := b.keysOf(names)
	var rows []row
	err := b.call(ctx, fmt.Sprintf("%s %d leases", verb, len(held)), func(conn *sql.Conn) (err error) {
		for _, seal := range []bool{false, true} {
			var ourKeys, holders []string
			for i, a := range answers {
				if a.Outcome == backend.Granted && errs[i] == nil && (a.MovedTo != "") == seal {
					ourKeys, holders = append(ourKeys, keys[i]), append(holders, b.shape.holderOf(held[i].Holder.ID, held[i].Term))
				}
			}
			var when any
			if seal {
				when = sealed
			}
			if len(ourKeys) > 0 {
				if err := b.renewRows(ctx, conn, ourKeys, holders, when); err != nil {
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
			snap := snapshot{inner: a.Lease, row: rows[i], key: keys[i]}
			b.combine(&snap)
			switch {
			case a.Outcome == backend.Refused:
				a.Lease = snap.lease
			case snap.row.holder != b.shape.holderOf(held[i].Holder.ID, held[i].Term):
				*a = backend.Answer{Lease: snap.lease, Outcome: backend.Refused, Err: b.lostError(&snap)}
			default:
				validFor, err := b.validFor(&snap, a.ValidFor)
				if a.MovedTo != "" && snap.row.time != sealed {
					err = fmt.Errorf("mysqltable: %s %q: %w", verb, snap.inner.Election, errUnsealed)
				}
				if err != nil {
					*a = backend.Answer{Err: err}
					continue
				}
				a.Lease, a.ValidFor = snap.lease, validFor
			}
		}
	}
	return answers, errors.Join(failed, err)
}

// lostError says to whom a row was lost.
func (b *Backend) lostError(snap *snapshot) error {
	if !snap.row.found {
		return fmt.Errorf("mysqltable: %q: the row %.80q was deleted from %s", snap.inner.Election, snap.key, b.table())
	}
	return fmt.Errorf("mysqltable: %q: the row %.80q of %s names %.128q", snap.inner.Election, snap.key, b.table(), snap.row.holder)
}

// Release implements [backend.Backend]. It releases the rows first, with a blank holder and a
// time long ago, then the leases.
func (b *Backend) Release(ctx context.Context, held []backend.Held) error {
	if err := b.enter(ctx, backend.Candidate{}); err != nil {
		return err
	}
	return b.release(ctx, held)
}

func (b *Backend) release(ctx context.Context, held []backend.Held) error {
	candidate := b.self()
	if candidate.Nonce == "" {
		return nil // it never held anything
	}
	names := make([]string, len(held))
	for i, l := range held {
		names[i] = l.Election
	}
	leases, err := b.readLeases(ctx, names)
	if err != nil {
		return err
	}
	keys, errs := b.keysOf(names)
	var toRelease []backend.Held // with the terms that were read
	var ourKeys, holders, times []string
	for i, l := range leases {
		term := held[i].Term
		if term == 0 && l.Holder.Nonce == candidate.Nonce {
			term = l.Term
		}
		others := !l.Vacant() && l.Term == term && l.Holder.Nonce != candidate.Nonce
		if term == 0 || others || errs[i] != nil {
			continue
		}
		// The lease may be released already, and the row not yet.
		when := vacated
		if l.MovedTo != "" {
			when = sealed
		}
		ourKeys, holders, times = append(ourKeys, keys[i]), append(holders, b.shape.holderOf(candidate.ID, term)), append(times, when)
		end := held[i]
		end.Term = term
		toRelease = append(toRelease, end)
	}
	if toRelease == nil {
		return nil
	}
	err = b.call(ctx, fmt.Sprintf("release %d leases", len(toRelease)), func(conn *sql.Conn) error {
		for i, key := range ourKeys {
			if _, err := conn.ExecContext(ctx, b.statement(releaseSQL), times[i], key, holders[i]); err != nil {
				return err
			}
		}
		none := make([]error, len(ourKeys))
		rows, err := b.read(ctx, conn, ourKeys, none)
		if err != nil {
			return err
		}
		for i, r := range rows {
			if r.found && r.holder == holders[i] {
				return fmt.Errorf("%w: the row %.80q was not released", backend.ErrUnavailable, ourKeys[i])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.inner.Release(ctx, toRelease)
}
