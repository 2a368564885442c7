package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-zookeeper/zk"
)

// maxMulti bounds the bytes of one transaction; servers take up to 1 MB
// (jute.maxbuffer).
const maxMulti = 256 << 10

// Renew checks in one transaction that each lease's node and record are as they
// were granted, and writes the session's own node, never the lock nodes: writing
// those would use up the one-shot watches of Curator's members.
//
// The checks travel with the write through the ensemble's leader, so that a
// follower that has been cut off cannot answer them.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	start := time.Now()
	if err := b.enter(held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		s, err := b.current(ctx, 0)
		if err != nil {
			return nil, b.fail("renew", err)
		}
		s.cache.unread(held)
		answers, err := b.renewAll(ctx, s, start, held)
		// A session is replaced only if no lease hangs on it.
		if err == nil || s.ctx.Err() == nil || ctx.Err() != nil || try == 3 {
			return answers, err
		}
	}
}

func (b *Backend) renewAll(ctx context.Context, s *session, start time.Time, held []backend.Held) ([]backend.Answer, error) {
	id, err := b.prepare(ctx, s, held[0].Holder)
	if err != nil {
		return nil, b.fail("renew", err)
	}
	select {
	case s.renewing <- struct{}{}:
		defer func() { <-s.renewing }()
	case <-ctx.Done():
		return nil, b.fail("renew", ctx.Err())
	}
	answers, home := make([]backend.Answer, len(held)), s.homeOf(id)
	var batch []int // items that we have, as far as we know
	for i, l := range held {
		o := b.mine(l.Election)
		if o.term != 0 && o.term == l.Term && o.session == id && o.node != "" && o.home == home {
			batch = append(batch, i)
		} else {
			answers[i].Outcome = backend.Refused
		}
	}
	// In the order of their grants, so that the session's node stays small.
	slices.SortFunc(batch, func(x, y int) int { return b.mine(held[x].Election).grant - b.mine(held[y].Election).grant })
	var failed error
	for len(batch) > 0 {
		n, bytes := 0, 0
		for n < len(batch) && (n == 0 || bytes < maxMulti) {
			name := held[batch[n]].Election
			bytes += len(b.layout.lock(name)) + len(b.layout.recordOf(name)) + 100
			n++
		}
		if err := b.renew(ctx, s, id, held, batch[:n], answers); err != nil {
			failed = err
			for _, i := range batch[:n] {
				if answers[i].Outcome == backend.Unknown {
					answers[i].Err = b.fail(fmt.Sprintf("renew %.80q", held[i].Election), err)
				}
			}
		}
		batch = batch[n:]
	}
	if err := b.trust(ctx, s, id, start, answers); err != nil {
		failed = err
	}
	// What was refused is shown as it is now.
	var refused []int
	for i := range answers {
		if answers[i].Outcome == backend.Refused {
			refused = append(refused, i)
		}
	}
	g, errs := watching(), make([]error, len(refused))
	each(len(refused), func(k int) {
		i := refused[k]
		var v view
		if v, errs[k] = b.see(ctx, s, held[i].Election, g); errs[k] == nil {
			answers[i].Lease = v.lease
			return
		}
		answers[i] = backend.Answer{Err: b.fail(fmt.Sprintf("renew %.80q", held[i].Election), errs[k])}
	})
	if err := firstOf(errs); err != nil {
		failed = err
	}
	switch {
	case slices.ContainsFunc(answers, func(a backend.Answer) bool { return a.Outcome != backend.Unknown }):
		return answers, nil
	case failed == nil:
		return answers, answers[0].Err
	}
	return answers, b.fail(fmt.Sprintf("renew %d leases", len(held)), failed)
}

// renew renews the items of one transaction, in the order of their grants.
func (b *Backend) renew(ctx context.Context, s *session, id int64, held []backend.Held, batch []int, answers []backend.Answer) error {
	batch = slices.Clone(batch)
	for try := 0; len(batch) > 0; try++ {
		if try == 8 {
			return fmt.Errorf("%w: the elections change too quickly", backend.ErrUnavailable)
		}
		mine := make([]own, len(batch))
		var ops []any
		for k, i := range batch {
			l := held[i]
			mine[k] = b.mine(l.Election)
			ops = append(ops,
				&zk.CheckVersionRequest{Path: b.layout.node(l.Election, mine[k].node), Version: -1},
				&zk.CheckVersionRequest{Path: b.layout.recordOf(l.Election), Version: mine[k].version})
		}
		s.mu.Lock()
		present, version := s.heartbeats, s.version // another call may note a new session meanwhile
		s.mu.Unlock()
		next := &present
		all := b.grants(id)
		// One group for each length of lease: most often there is one.
		var lengths [][2]time.Duration
		groups := map[[2]time.Duration][]int{}
		for k, i := range batch {
			length := [2]time.Duration{held[i].TTL, held[i].Renew}
			if groups[length] == nil {
				lengths = append(lengths, length)
			}
			groups[length] = append(groups[length], mine[k].grant)
		}
		for _, length := range lengths {
			next = next.renewed(newHeartbeat(), length[0], length[1], groups[length], all)
		}
		path := b.layout.sessionOf(sessionName(id))
		ops = append(ops, &zk.SetDataRequest{Path: path, Data: next.encode(), Version: version})
		results, failed, err := s.write(ctx, ops...)
		switch {
		case err == nil:
			stat := results[len(results)-1].Stat
			if stat == nil {
				return fmt.Errorf("%w: the servers have answered a write without its outcome", backend.ErrUnavailable)
			}
			s.at(stat)
			s.mu.Lock()
			s.heartbeats, s.version = *next, stat.Version
			s.mu.Unlock()
			for k, i := range batch {
				answers[i] = renewed(mine[k], next)
			}
			if b.layout.kind == Node {
				return b.recheck(ctx, s, held, batch, mine, answers)
			}
			return nil
		case failed == len(ops)-1 && errors.Is(err, zk.ErrNoNode):
			// Somebody has deleted the session's node, by which others see renewals. It
			// is made again for later grants. These end: what others have watched and read
			// must not come back.
			s.homeless(id)
			for _, i := range batch {
				answers[i].Outcome = backend.Refused
			}
			return nil
		case failed == len(ops)-1 && errors.Is(err, zk.ErrBadVersion):
			// A renewal whose answer was lost. Nobody trusts it; but what it has written
			// was read, and what was there before must not come back.
			r, err := s.cache.plain(ctx, once, path)
			if err != nil {
				return err
			}
			s.mu.Lock()
			same := s.node == id && r.stat.Czxid == s.home
			if same {
				was := s.heartbeats
				s.heartbeats, s.version = *parseHeartbeats(r.data), r.stat.Version
				s.heartbeats.Nonce, s.heartbeats.ID = was.Nonce, was.ID // whatever somebody has written there
			}
			s.mu.Unlock()
			if !same { // it was deleted, and somebody has made another
				s.homeless(id)
				for _, i := range batch {
					answers[i].Outcome = backend.Refused
				}
				return nil
			}
		case failed >= 0 && failed < len(ops)-1 && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoAuth)):
			// Something is no longer as it was granted, or may no longer be read. Look at
			// all of them: where one has changed many may have.
			if batch, err = b.recount(ctx, s, id, held, batch, answers); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// renewed is the answer to a renewal that was made.
func renewed(o own, heartbeats *heartbeats) backend.Answer {
	now := o.record.lease()
	now.Holder, now.Ref = o.record.Holder.candidate(), o.node
	g := heartbeats.find(o.grant)
	now.Heartbeat, now.TTL, now.Renew = g.heartbeat(o.record.Heartbeat, o.home, o.record.Election), time.Duration(g.TTL), time.Duration(g.Renew)
	return backend.Answer{Lease: now, Outcome: backend.Granted}
}

// recount reads the records and nodes of a batch, answers what is lost or may not be
// read, and returns the rest.
func (b *Backend) recount(ctx context.Context, s *session, id int64, held []backend.Held, batch []int, answers []backend.Answer) ([]int, error) {
	errs := make([]error, len(batch))
	keep := make([]bool, len(batch))
	each(len(batch), func(k int) {
		l := held[batch[k]]
		o := b.mine(l.Election)
		r, err := s.cache.plain(ctx, data, b.layout.recordOf(l.Election))
		if err != nil {
			errs[k] = err
			return
		}
		node, err := s.cache.plain(ctx, once, b.layout.node(l.Election, o.node))
		if err != nil {
			errs[k] = err
			return
		}
		rec, bad := parseRecord(r.data, l.Election)
		if o.node == underSeal && node.stat.EphemeralOwner == 0 {
			node.stat.EphemeralOwner = id // it needs none
		}
		if r.missing || node.missing || bad != nil || node.stat.EphemeralOwner != id || !rec.grants(l, id, o.grant) || !b.layout.is(rec.Holder, o.node) {
			return
		}
		if w := rec.Request; w != nil && w.Kind == backend.Depose && w.Term == l.Term {
			return
		}
		keep[k] = true
		b.note(l.Election, func(now *own) {
			if now.node == o.node && now.term == l.Term {
				now.version, now.record = r.stat.Version, rec
			}
		})
	})
	var failed error
	for _, err := range errs {
		if !errors.Is(err, zk.ErrNoAuth) { // which is about one election alone
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return nil, failed
	}
	var rest []int
	for k, i := range batch {
		switch {
		case errs[k] != nil:
			answers[i].Err = b.fail(fmt.Sprintf("renew %.80q", held[i].Election), errs[k])
		case keep[k]:
			rest = append(rest, i)
		default:
			answers[i].Outcome = backend.Refused
		}
	}
	return rest, nil
}

// recheck makes sure that the nodes at fixed paths are ours, and not others' that
// have come in their place: a check by path cannot tell. And it reads whom they name.
func (b *Backend) recheck(ctx context.Context, s *session, held []backend.Held, batch []int, mine []own, answers []backend.Answer) error {
	errs := make([]error, len(batch))
	each(len(batch), func(k int) {
		a, election := &answers[batch[k]], held[batch[k]].Election
		r, ok, err := b.still(ctx, s, election, mine[k].node)
		if err == nil && ok && mine[k].edited(r.data) {
			a.Request, err = b.appoint(ctx, s, election, mine[k], r.data)
		}
		switch {
		case err != nil:
			*a, errs[k] = backend.Answer{}, err
		case !ok:
			*a = backend.Answer{Outcome: backend.Refused}
		}
	})
	return errors.Join(errs...)
}
