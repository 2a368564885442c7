//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// Renew writes a fresh heartbeat into each lock file, and then makes sure that the
// lock is ours, that the file is the one that others see, and that the record
// still names this leadership.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renewAll(ctx, "renew", held)
}

// Mark is a renewal that leaves marks in the record, and on the disk.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renewAll(ctx, "mark", held)
}

func (b *Backend) renewAll(ctx context.Context, verb string, held []backend.Held) ([]backend.Answer, error) {
	if err := b.guard.Enter(ctx, held[0].Holder.Nonce); err != nil {
		return nil, fail(verb, err)
	}
	answers := make([]backend.Answer, len(held))
	for i, l := range held {
		if ctx.Err() != nil {
			return answers, fail(fmt.Sprintf("%s %d of %d leases", verb, len(held)-i, len(held)), ctx.Err())
		}
		a, err := b.renew(ctx, l, verb == "mark")
		if a.Err == nil {
			a.Err = fail(fmt.Sprintf("%s %q", verb, l.Election), err)
		}
		answers[i] = a
	}
	return answers, nil
}

func (b *Backend) renew(ctx context.Context, l backend.Held, move bool) (a backend.Answer, err error) {
	done, err := b.turn(ctx, l.Election)
	if err != nil {
		return a, err
	}
	defer done()
	refuse := func(why error) (backend.Answer, error) {
		now, err := b.look(l.Election)
		if err != nil {
			return backend.Answer{Outcome: backend.Refused, Lease: backend.Lease{Election: l.Election}, Err: fail(fmt.Sprintf("renew %q", l.Election), errors.Join(why, err))}, nil
		}
		return backend.Answer{Outcome: backend.Refused, Lease: now, Err: fail(fmt.Sprintf("renew %q", l.Election), why)}, nil
	}
	h := b.holding(l.Election)
	if h == nil || h.term != l.Term {
		return refuse(nil)
	}
	if now, err := b.where(); err != nil || now != h.dir { // whatever else is wrong with the new one
		return refuse(errors.Join(err, fmt.Errorf("%w: somebody has moved, removed or replaced the directory %s", backend.ErrDenied, b.dir)))
	}
	if l.TTL > b.maxTTL || l.TTL < 1 {
		return a, fmt.Errorf("%w: a TTL of %v; the greatest in this directory is %v", backend.ErrInvalid, l.TTL, b.maxTTL)
	}
	if got, err := relock(h.f); err != nil || !got {
		return refuse(errors.Join(err, fmt.Errorf("%w: the lock was lost", backend.ErrDenied)))
	}
	request, err := b.readRequest(l.Election)
	if err != nil {
		return a, err
	}
	if request.Kind == backend.Depose && request.Term == h.term {
		return refuse(nil)
	}
	p := pulse{Term: h.term, Nonce: h.rec.Holder.Nonce, Heartbeat: heartbeat(), TTL: l.TTL, Renew: l.Renew, Lock: h.id, Written: time.Now().UTC()}
	if err := p.write(h.f); err != nil {
		return a, err
	}
	r, _, err := b.readRecord(l.Election)
	if err != nil {
		return a, err
	}
	if r.Term != h.term || !r.held() || r.Holder.Nonce != p.Nonce || r.Lock != h.id {
		return refuse(fmt.Errorf("%w: somebody has changed or removed %s", backend.ErrDenied, b.path(l.Election, recordSuffix)))
	}
	if move {
		r.MovedTo, r.From = l.MovedTo, l.MovedFrom
	}
	if r.TTL != l.TTL || r.Renew != l.Renew || move { // whoever must watch needs them
		r.TTL, r.Renew, r.Heartbeat, r.Written = l.TTL, l.Renew, p.Heartbeat, p.Written
		if err := b.writeRecord(r, move); err != nil {
			return a, err
		}
	}
	b.enlist(l.Election) // somebody may have deleted the register, or put back an older one; if it cannot be written, nobody else is told that this was never led
	now, err := at(b.path(l.Election, lockSuffix))
	if err != nil {
		return a, err
	}
	if now != h.id {
		return refuse(fmt.Errorf("%w: somebody has removed or replaced %s", backend.ErrDenied, b.path(l.Election, lockSuffix)))
	}
	s := state{name: l.Election, rec: r, known: true, lock: h.id, pulse: p, request: request}
	return backend.Answer{Lease: b.lease(s), Outcome: backend.Granted, ValidFor: l.TTL}, nil
}
