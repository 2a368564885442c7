//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// Renew writes a fresh heartbeat into each lock file. Then it checks that this process
// still has the lock, that the locked file is still at its path, and that the record
// still names this leadership.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renewAll(ctx, "renew", held)
}

// Mark is a renewal that also writes the marks of a migration into the record, on the disk.
func (b *Backend) Mark(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	return b.renewAll(ctx, "mark", held)
}

func (b *Backend) renewAll(ctx context.Context, verb string, held []backend.Held) ([]backend.Answer, error) {
	if err := b.owner.Enter(ctx, held[0].Holder.Nonce); err != nil {
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

func (b *Backend) renew(ctx context.Context, l backend.Held, mark bool) (a backend.Answer, err error) {
	done, err := b.serialize(ctx, l.Election)
	if err != nil {
		return a, err
	}
	defer done()
	h := b.heldLock(l.Election)
	if h == nil || h.term != l.Term {
		return b.refuseRenewal(l.Election, nil)
	}
	if now, err := b.dirIdentity(); err != nil || now != h.dir { // before anything in a new directory is read
		return b.refuseRenewal(l.Election, errors.Join(err, fmt.Errorf("%w: the directory %s was moved, removed or replaced", backend.ErrDenied, b.dir)))
	}
	if l.TTL > b.maxTTL || l.TTL < 1 {
		return a, b.ttlError(l.TTL)
	}
	if got, err := stillLocked(h.f); err != nil || !got {
		return b.refuseRenewal(l.Election, errors.Join(err, fmt.Errorf("%w: the lock was lost", backend.ErrDenied)))
	}
	request, err := b.readRequest(l.Election)
	if err != nil {
		return a, err
	}
	if request.Kind == backend.Depose && request.Term == h.term {
		return b.refuseRenewal(l.Election, nil)
	}
	line := lockLine{Term: h.term, Nonce: h.rec.Holder.Nonce, Heartbeat: heartbeat(), TTL: l.TTL, Renew: l.Renew, Lock: h.id, Written: time.Now().UTC()}
	if err := line.write(h.f); err != nil {
		return a, err
	}
	r, _, err := b.readRecord(l.Election)
	if err != nil {
		return a, err
	}
	if r.Term != h.term || !r.held() || r.Holder.Nonce != line.Nonce || r.Lock != h.id {
		return b.refuseRenewal(l.Election, fmt.Errorf("%w: %s was changed or removed", backend.ErrDenied, b.path(l.Election, recordSuffix)))
	}
	if mark {
		r.MovedTo, r.MovedFrom = l.MovedTo, l.MovedFrom
	}
	if r.TTL != l.TTL || r.Renew != l.Renew || mark { // challengers need TTL and Renew
		r.TTL, r.Renew, r.Heartbeat, r.Written = l.TTL, l.Renew, line.Heartbeat, line.Written
		if err := b.writeRecord(r, mark); err != nil {
			return a, err
		}
	}
	// The register may have been deleted, or replaced by an older one. If it cannot be
	// written, no other process reads there that this election was never led.
	b.addElection(l.Election)
	now, err := identityAt(b.path(l.Election, lockSuffix))
	if err != nil {
		return a, err
	}
	if now != h.id {
		return b.refuseRenewal(l.Election, fmt.Errorf("%w: %s was removed or replaced", backend.ErrDenied, b.path(l.Election, lockSuffix)))
	}
	s := state{name: l.Election, rec: r, hasRecord: true, lock: h.id, line: line, request: request}
	return backend.Answer{Lease: b.lease(s), Outcome: backend.Granted, ValidFor: l.TTL}, nil
}

// refuseRenewal is the answer to a holder that has lost its lease.
func (b *Backend) refuseRenewal(name string, why error) (backend.Answer, error) {
	now, err := b.readLease(name)
	if err != nil {
		now, why = backend.Lease{Election: name, Version: "unreadable"}, errors.Join(why, err)
	}
	return backend.Answer{Outcome: backend.Refused, Lease: now, Err: fail(fmt.Sprintf("renew %q", name), why)}, nil
}

// ttlError says that a TTL is not allowed in this directory.
func (b *Backend) ttlError(ttl time.Duration) error {
	return fmt.Errorf("%w: a TTL of %v; the greatest in this directory is %v", backend.ErrInvalid, ttl, b.maxTTL)
}
