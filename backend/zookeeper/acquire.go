package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// Acquire grants each lease that is free, or that was watched. A grant is one
// transaction, which makes our node, unless one stands, and compares and swaps the
// record; to take over, it also checks that the holder has not renewed since, and
// deletes its node. Behind a member of another program it leaves a node in the
// queue.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	start := time.Now()
	if err := b.enter(bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	need := time.Duration(0)
	for i, bid := range bids {
		if answers[i].Err = b.fail("acquire", b.fits(bid)); answers[i].Err == nil {
			need = max(need, length(bid.TTL, bid.Renew))
		}
	}
	if need == 0 {
		return answers, nil
	}
	s, err := b.current(ctx, need)
	if err != nil {
		return answers, b.fail("acquire", err)
	}
	id, err := b.prepare(ctx, s, bids[0].Candidate)
	if err != nil {
		return answers, b.fail("acquire", err)
	}
	g := watching()
	each(len(bids), func(i int) {
		if answers[i].Err != nil {
			return
		}
		bid := bids[i]
		if short := s.suffices(bid); short != nil {
			answers[i].Err = b.fail("acquire", errors.Join(short, b.unqueue(ctx, s, bid.Election)))
			return
		}
		a, err := b.acquire(ctx, s, id, bid, g)
		if c := backend.Class(b.fail("", err)); c == backend.ErrDenied || c == backend.ErrInvalid {
			err = errors.Join(err, b.unqueue(ctx, s, bid.Election))
		}
		if err != nil {
			err = b.fail(fmt.Sprintf("acquire %.80q", bid.Election), err)
		}
		answers[i], answers[i].Err = a, err
	})
	b.late.Go(s.cache.sweep) // what our own grants have changed nobody reads again
	var failed error
	for i := range answers {
		if answers[i].Err != nil && failed == nil {
			failed = answers[i].Err
		}
	}
	if err := b.trust(ctx, s, id, start, answers); err != nil {
		return answers, b.fail("acquire", err)
	}
	for i := range answers {
		if answers[i].Outcome != backend.Unknown || answers[i].Err != nil && backend.Class(answers[i].Err) != backend.ErrUnavailable {
			return answers, nil
		}
	}
	return answers, failed // nothing was learnt at all
}

// length is how long a session must be: a lease is renewed anew before the write
// after the next has proved that the ensemble's leader has heard of the last.
func length(ttl, renew time.Duration) time.Duration {
	return (ttl + 2*max(renew, 0) + time.Millisecond - 1).Truncate(time.Millisecond)
}

// fits reports an error if no session can be as long as a bid needs.
func (b *Backend) fits(bid backend.Bid) error {
	if n := length(bid.TTL, bid.Renew); n > b.options.MaxSession {
		return fmt.Errorf("%w: election %.80q: a TTL of %v, renewed every %v, needs a session of %v; the servers allow %v (maxSessionTimeout, max_session)",
			backend.ErrInvalid, bid.Election, bid.TTL, bid.Renew.Round(time.Millisecond), n, b.options.MaxSession)
	}
	return nil
}

// suffices reports an error if this session is not as long as a bid needs.
func (s *session) suffices(bid backend.Bid) error {
	n := length(bid.TTL, bid.Renew)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case n <= s.granted:
		return nil
	case s.asked >= n:
		return fmt.Errorf("%w: election %.80q: a TTL of %v, renewed every %v, needs a session of %v; the servers grant %v: shorten the TTL, or raise their maxSessionTimeout",
			backend.ErrDenied, bid.Election, bid.TTL, bid.Renew.Round(time.Millisecond), n, s.granted)
	}
	return fmt.Errorf("%w: election %.80q: a TTL of %v, renewed every %v, needs a session of %v; the present one, which other leases hang on, has %v",
		backend.ErrDenied, bid.Election, bid.TTL, bid.Renew.Round(time.Millisecond), n, s.granted)
}

// trust fills in how long the leases that were granted in a call that began at
// start can be trusted. If what is known of the session is too old, it is proved
// anew.
func (b *Backend) trust(ctx context.Context, s *session, id int64, start time.Time, answers []backend.Answer) error {
	for try := 0; ; try++ {
		left, touched := s.trust(id, start)
		enough := true
		for i := range answers {
			if a := &answers[i]; a.Outcome == backend.Granted {
				a.ValidFor = min(a.TTL, left)
				enough = enough && left >= a.TTL*3/4
			}
		}
		if enough {
			return nil
		}
		if now, _ := s.present(); try > 0 || now != id {
			break
		}
		if err := s.preflight(ctx, id, touched); err != nil {
			break
		}
	}
	// Less than it should be, or none at all: then nobody knows.
	for i := range answers {
		if a := &answers[i]; a.Outcome == backend.Granted && a.ValidFor <= 0 {
			*a = backend.Answer{Err: b.fail("acquire", fmt.Errorf("%w: election %.80q: the session has ended, or nothing proves that it lives", backend.ErrUnavailable, a.Election))}
		}
	}
	return nil
}

// acquire is one bid. The error leaves the outcome unknown.
func (b *Backend) acquire(ctx context.Context, s *session, id int64, bid backend.Bid, g glance) (a backend.Answer, err error) {
	election := bid.Election
	for range 8 {
		if err := b.settle(ctx, s, election); err != nil {
			return backend.Answer{}, err
		}
		o := b.mine(election)
		if o.node != "" && o.session != id {
			// The library has opened another session since this call began. What is
			// recorded must name the session of the node.
			return backend.Answer{}, errEnded
		}
		v, err := b.see(ctx, s, election, g)
		if err != nil {
			return backend.Answer{}, err
		}
		if v.bad != nil {
			return backend.Answer{}, fmt.Errorf("%w: the record at %s cannot be read (%w): delete it, when nobody leads", backend.ErrDenied, b.layout.recordOf(election), v.bad)
		}
		if v.queue.lost { // deleted by somebody's hand, perhaps before this bid
			b.note(election, func(now *own) { clearNode(now, o) })
			s.cache.forget(children, b.layout.lock(election))
			continue
		}
		leftover := v.record.held(bid.Candidate.Nonce, 0) && !v.unsure
		switch {
		case v.queue.blocked && !v.held() && b.layout.kind != Node && o.node == "":
			err = b.enqueue(ctx, s, id, bid) // there is something to wait for
		case !leftover && !v.lease.Unchanged(bid.Expected), v.lease.MovedTo != bid.Expected.MovedTo:
			return b.refuse(ctx, s, id, bid, &v)
		case leftover && v.queue.blocked && v.held():
			err = b.withdraw(ctx, s, bid, v.record.clone(), v.version) // granted too early; see verify
		case v.queue.blocked && v.held() && v.lease.ObserveFor > 0:
			err = b.evict(ctx, s, id, bid, &v) // then a member of another program leads
		case v.queue.blocked || v.lease.ObserveFor < 0:
			return b.refuse(ctx, s, id, bid, &v)
		case b.layout.kind == Node && o.node == "" && !v.queue.sealed:
			err = b.enqueue(ctx, s, id, bid)
		default:
			var done bool
			if a.Lease, done, err = b.grant(ctx, s, id, bid, &v); done {
				a.Outcome = backend.Granted
				return a, nil
			}
		}
		if err != nil {
			return backend.Answer{}, err
		}
		g = watching() // something has changed
	}
	return backend.Answer{}, fmt.Errorf("%w: the election changes too quickly", backend.ErrUnavailable)
}

// unqueue takes a node of ours out of a queue in which it waits: bids can only fail,
// and when its turn came it would hold up the members of other programs behind it.
func (b *Backend) unqueue(ctx context.Context, s *session, election string) error {
	if o := b.mine(election); o.node != "" && o.term == 0 {
		return b.drop(ctx, s, election, o)
	}
	return nil
}

var errEnded = fmt.Errorf("%w: the session has just ended", backend.ErrUnavailable)

// refuse answers with the lease as it is. A node of ours stays in the queue only
// if the store will decide when its time has come: else the manager does not know
// of it.
func (b *Backend) refuse(ctx context.Context, s *session, id int64, bid backend.Bid, v *view) (backend.Answer, error) {
	if o := b.mine(bid.Election); v.lease.ObserveFor >= 0 && o.node != "" && o.session == id {
		if err := b.drop(ctx, s, bid.Election, o); err != nil {
			return backend.Answer{}, err
		}
	}
	return backend.Answer{Lease: v.lease, Outcome: backend.Refused}, nil
}
