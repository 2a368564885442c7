package curator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
)

// Acquire grants each lease that is free or was observed for its TTL. A grant is one
// transaction: it creates our node, unless we have one, and compares and swaps the record.
// A takeover also checks that the holder has not renewed since, and deletes its node.
// Behind a member of another program Acquire leaves a node in the queue.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	start := time.Now()
	if err := b.admit(bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	need := time.Duration(0)
	for i, bid := range bids {
		if answers[i].Err = b.wrap("acquire", b.checkLength(bid)); answers[i].Err == nil {
			need = max(need, sessionLength(bid.TTL, bid.Renew))
		}
	}
	if need == 0 {
		return answers, nil
	}
	s, err := b.currentSession(ctx, need)
	if err != nil {
		return answers, b.wrap("acquire", err)
	}
	id, err := b.prepareSession(ctx, s, bids[0].Candidate)
	if err != nil {
		return answers, b.wrap("acquire", err)
	}
	mode := watchedRead()
	ensemble.InParallel(len(bids), func(i int) {
		if answers[i].Err != nil {
			return
		}
		bid := bids[i]
		if short := s.checkLength(bid); short != nil {
			answers[i].Err = b.wrap("acquire", errors.Join(short, b.leaveQueue(ctx, s, bid.Election)))
			return
		}
		a, err := b.acquire(ctx, s, id, bid, mode)
		if c := backend.Class(b.wrap("", err)); c == backend.ErrDenied || c == backend.ErrInvalid {
			err = errors.Join(err, b.leaveQueue(ctx, s, bid.Election))
		}
		if err != nil {
			err = b.wrap(fmt.Sprintf("acquire %.80q", bid.Election), err)
		}
		answers[i], answers[i].Err = a, err
	})
	var failed error
	for i := range answers {
		if answers[i].Err != nil && failed == nil {
			failed = answers[i].Err
		}
	}
	b.fillValidFor(ctx, "acquire", s, id, start, answers)
	for i := range answers {
		if answers[i].Outcome != backend.Unknown || answers[i].Err != nil && backend.Class(answers[i].Err) != backend.ErrUnavailable {
			return answers, nil
		}
	}
	return answers, failed // there is no outcome for any bid
}

// sessionLength is the length that a session needs: only the second write after a renewal
// proves that the ensemble's leader has heard of that renewal. See
// docs/design/curator.md, "How long a session lives".
func sessionLength(ttl, renew time.Duration) time.Duration {
	return (ttl + 2*max(renew, 0) + time.Millisecond - 1).Truncate(time.Millisecond)
}

// checkLength reports an error if no session can be as long as a bid needs.
func (b *Backend) checkLength(bid backend.Bid) error {
	if n := sessionLength(bid.TTL, bid.Renew); n > b.options.MaxSession {
		return fmt.Errorf("%w: election %.80q: a TTL of %v, renewed every %v, needs a session of %v; the servers allow %v (maxSessionTimeout, max_session)",
			backend.ErrInvalid, bid.Election, bid.TTL, bid.Renew.Round(time.Millisecond), n, b.options.MaxSession)
	}
	return nil
}

// checkLength reports an error if this session is shorter than a bid needs.
func (s *session) checkLength(bid backend.Bid) error {
	n := sessionLength(bid.TTL, bid.Renew)
	granted := s.Connection().Length
	switch {
	case n <= granted:
		return nil
	case s.Length >= n:
		return fmt.Errorf("%w: election %.80q: a TTL of %v, renewed every %v, needs a session of %v; the servers grant %v: shorten the TTL, or raise their maxSessionTimeout",
			backend.ErrDenied, bid.Election, bid.TTL, bid.Renew.Round(time.Millisecond), n, granted)
	}
	return fmt.Errorf("%w: election %.80q: a TTL of %v, renewed every %v, needs a session of %v; the present one, on which other leases depend, has %v",
		backend.ErrDenied, bid.Election, bid.TTL, bid.Renew.Round(time.Millisecond), n, granted)
}

// fillValidFor fills in ValidFor of the leases granted in a call that began at start. If
// the last contact of the session is too old, it contacts the ensemble's leader.
func (b *Backend) fillValidFor(ctx context.Context, verb string, s *session, id int64, start time.Time, answers []backend.Answer) {
	for try := 0; ; try++ {
		left, lastContact := s.validFor(id, start)
		enough := true
		for i := range answers {
			if a := &answers[i]; a.Outcome == backend.Granted {
				a.ValidFor = min(a.TTL, left)
				enough = enough && left >= a.TTL*3/4
			}
		}
		if enough {
			return
		}
		if try > 0 || s.id() != id {
			break
		}
		if err := s.contactLeader(ctx, &b.layout, id, lastContact); err != nil {
			break
		}
	}
	// A shorter ValidFor stands. Without any the outcome is unknown.
	for i := range answers {
		if a := &answers[i]; a.Outcome == backend.Granted && a.ValidFor <= 0 {
			*a = backend.Answer{Err: b.wrap(verb, fmt.Errorf("%w: election %.80q: the session has ended, or is not known to be alive", backend.ErrUnavailable, a.Election))}
		}
	}
}

// acquire handles one bid. An error leaves the outcome unknown.
func (b *Backend) acquire(ctx context.Context, s *session, id int64, bid backend.Bid, mode readMode) (a backend.Answer, err error) {
	election := bid.Election
	for range 8 {
		if err := b.resolveLock(ctx, s, election); err != nil {
			return backend.Answer{}, err
		}
		own := b.lockOf(election)
		if own.node != "" && own.session != id {
			// Another session has begun since this call. The record must
			// name the session that owns the node.
			return backend.Answer{}, errSessionEnded
		}
		snap, err := b.takeSnapshot(ctx, s, election, mode)
		if err != nil {
			return backend.Answer{}, err
		}
		if snap.unreadable != nil {
			return backend.Answer{}, fmt.Errorf("%w: the record at %s cannot be read (%w): delete it when no member leads", backend.ErrDenied, b.layout.recordPath(election), snap.unreadable)
		}
		if snap.queue.oursLost { // deleted by an operator, perhaps before this bid
			b.updateLock(election, func(now *ownLock) { forgetNode(now, own) })
			s.Watches.Forget(ensemble.Children, b.layout.lockPath(election))
			continue
		}
		leftover := snap.record.heldBy(bid.Candidate.Nonce, 0) && !snap.unconfirmed
		switch {
		case snap.queue.blocked && !snap.holderPresent() && b.layout.kind != Node && own.node == "":
			err = b.makeLockNode(ctx, s, id, bid) // wait behind the other program
		case !leftover && !snap.lease.Unchanged(bid.Expected), snap.lease.MovedTo != bid.Expected.MovedTo:
			return b.refuse(ctx, s, id, bid, &snap)
		case leftover && snap.queue.blocked && snap.holderPresent():
			err = b.withdrawGrant(ctx, s, bid, snap.record.clone(), snap.version) // granted too early; see checkQueueOrder
		case snap.queue.blocked && snap.holderPresent() && snap.lease.ObserveFor > 0:
			err = b.evictHolder(ctx, s, id, bid, &snap) // then a member of another program leads
		case snap.queue.blocked || snap.lease.ObserveFor < 0:
			return b.refuse(ctx, s, id, bid, &snap)
		case b.layout.kind == Node && own.node == "" && !snap.queue.sealed:
			err = b.makeLockNode(ctx, s, id, bid)
		default:
			var done bool
			if a.Lease, done, err = b.grant(ctx, s, id, bid, &snap); done {
				a.Outcome = backend.Granted
				return a, nil
			}
		}
		if err != nil {
			return backend.Answer{}, err
		}
		mode = watchedRead() // something has changed
	}
	return backend.Answer{}, fmt.Errorf("%w: the election changes too quickly", backend.ErrUnavailable)
}

// leaveQueue deletes a node of ours that waits in a queue, because our bids can only fail.
// Once first, the node would hold up the members of other programs behind it.
func (b *Backend) leaveQueue(ctx context.Context, s *session, election string) error {
	if own := b.lockOf(election); own.node != "" && own.term == 0 {
		return b.deleteLockNode(ctx, s, election, own)
	}
	return nil
}

var errSessionEnded = fmt.Errorf("%w: the session has just ended", backend.ErrUnavailable)

// refuse answers with the lease as it is. Our node stays in the queue only if the store
// decides when we may lead; otherwise the manager does not know of it.
func (b *Backend) refuse(ctx context.Context, s *session, id int64, bid backend.Bid, snap *snapshot) (backend.Answer, error) {
	if own := b.lockOf(bid.Election); snap.lease.ObserveFor >= 0 && own.node != "" && own.session == id {
		if err := b.deleteLockNode(ctx, s, bid.Election, own); err != nil {
			return backend.Answer{}, err
		}
	}
	return backend.Answer{Lease: snap.lease, Outcome: backend.Refused}, nil
}
