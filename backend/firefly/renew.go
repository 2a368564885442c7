package firefly

import (
	"context"
	"slices"

	"github.com/go-election/go-election/backend"
)

// maxAttempts is how often a call tries a write that lost a race.
const maxAttempts = 5

// Renew implements [backend.Backend]. It renews the session, and then reads, consistently, which
// sessions hold the locks.
func (f *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	what := describe("renew", len(held), held[0].Election)
	if err := f.enter(ctx, what, held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(held))
	session, err := f.renewSession(ctx)
	if err != nil {
		return answers, f.agent.Wrap(what, err)
	}
	at := 0
	for part := range slices.Chunk(held, maxRead) {
		names := make([]string, len(part))
		for i, l := range part {
			names[i] = l.Election
		}
		locks, err := f.read(ctx, names)
		if err != nil {
			return answers, f.agent.Wrap(what, err)
		}
		for i, s := range locks {
			answers[at+i] = s.answerRenewal(session, part[i])
		}
		at += len(part)
	}
	return answers, nil
}

// answerRenewal answers a renewal. session was renewed before the lock was read.
func (s *entry) answerRenewal(session string, l backend.Held) backend.Answer {
	if session == "" || !s.heldBy(session, l.Holder.Nonce, l.Term) || s.deposed() {
		return backend.Answer{Lease: s.lease, Outcome: backend.Refused}
	}
	return backend.Answer{Lease: s.lease, Outcome: backend.Granted, ValidFor: min(l.TTL, duration(s.own.TTL))}
}
