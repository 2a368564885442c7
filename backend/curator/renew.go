package curator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// maxMulti limits the bytes of one transaction. Servers accept up to 1 MB
// (jute.maxbuffer).
const maxMulti = 256 << 10

// Renew checks in one transaction that each lease's node and record are as they were
// granted, and writes the session record. It never writes lock nodes: that would use up
// the one-shot watches of Curator's members.
//
// The ensemble's leader makes the checks together with the write, so a follower that was
// cut off cannot answer them.
func (b *Backend) Renew(ctx context.Context, held []backend.Held) ([]backend.Answer, error) {
	start := time.Now()
	if err := b.admit(held[0].Holder.Nonce); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		s, err := b.currentSession(ctx, 0)
		if err != nil {
			return nil, b.wrap("renew", err)
		}
		b.forgetHeld(s, held)
		answers, err := b.renewAll(ctx, s, start, held)
		// A session is replaced only if no lease depends on it.
		if err == nil || !b.replaced(s) || ctx.Err() != nil || try == 3 {
			return answers, err
		}
	}
}

func (b *Backend) renewAll(ctx context.Context, s *session, start time.Time, held []backend.Held) ([]backend.Answer, error) {
	id, err := b.prepareSession(ctx, s, held[0].Holder)
	if err != nil {
		return nil, b.wrap("renew", err)
	}
	select {
	case s.renewing <- struct{}{}:
		defer func() { <-s.renewing }()
	case <-ctx.Done():
		return nil, b.wrap("renew", ctx.Err())
	}
	answers := make([]backend.Answer, len(held))
	failed := b.renewInBatches(ctx, s, id, held, answers)
	b.fillValidFor(ctx, "renew", s, id, start, answers)
	if err := b.readRefused(ctx, s, held, answers); err != nil {
		failed = err
	}
	switch {
	case slices.ContainsFunc(answers, func(a backend.Answer) bool { return a.Outcome != backend.Unknown }):
		return answers, nil
	case failed == nil:
		return answers, answers[0].Err
	}
	return answers, b.wrap(fmt.Sprintf("renew %d leases", len(held)), failed)
}

// renewInBatches renews the leases that we hold as far as we know, in transactions of
// limited size, and refuses the others. It returns the last error.
func (b *Backend) renewInBatches(ctx context.Context, s *session, id int64, held []backend.Held, answers []backend.Answer) (failed error) {
	czxid := s.recordCzxidOf(id)
	var batch []int // indexes into held
	for i, l := range held {
		own := b.lockOf(l.Election)
		if own.term != 0 && own.term == l.Term && own.session == id && own.node != "" && own.sessionCzxid == czxid {
			batch = append(batch, i)
		} else {
			answers[i].Outcome = backend.Refused
		}
	}
	// In the order of their grants, which keeps the session record small.
	slices.SortFunc(batch, func(x, y int) int { return b.lockOf(held[x].Election).grant - b.lockOf(held[y].Election).grant })
	for len(batch) > 0 {
		n, bytes := 0, 0
		for n < len(batch) && (n == 0 || bytes < maxMulti) {
			name := held[batch[n]].Election
			bytes += len(b.layout.lockPath(name)) + len(b.layout.recordPath(name)) + 100
			n++
		}
		if err := b.renewBatch(ctx, s, id, held, batch[:n], answers); err != nil {
			failed = err
			for _, i := range batch[:n] {
				if answers[i].Outcome == backend.Unknown {
					answers[i].Err = b.wrap(fmt.Sprintf("renew %.80q", held[i].Election), err)
				}
			}
		}
		batch = batch[n:]
	}
	return failed
}

// forgetHeld forgets what was read of elections that are held here, because nobody reads them.
func (b *Backend) forgetHeld(s *session, held []backend.Held) {
	if s.Watches.Len() == 0 {
		return
	}
	for i := range held {
		lock := b.layout.lockPath(held[i].Election)
		s.Watches.Forget(ensemble.Data, b.layout.recordPath(held[i].Election))
		s.Watches.Forget(b.layout.lockKind(), lock)
		s.Watches.Forget(ensemble.Existence, lock)
	}
}

// readRefused reads the refused leases as they are now.
func (b *Backend) readRefused(ctx context.Context, s *session, held []backend.Held, answers []backend.Answer) error {
	var refused []int
	for i := range answers {
		if answers[i].Outcome == backend.Refused {
			refused = append(refused, i)
		}
	}
	mode, errs := watchedRead(), make([]error, len(refused))
	ensemble.InParallel(len(refused), func(k int) {
		i := refused[k]
		var snap snapshot
		if snap, errs[k] = b.takeSnapshot(ctx, s, held[i].Election, mode); errs[k] == nil {
			answers[i].Lease = snap.lease
			return
		}
		answers[i] = backend.Answer{Err: b.wrap(fmt.Sprintf("renew %.80q", held[i].Election), errs[k])}
	})
	return cmp.Or(errs...)
}

// renewBatch renews the items of one transaction, in the order of their grants.
func (b *Backend) renewBatch(ctx context.Context, s *session, id int64, held []backend.Held, batch []int, answers []backend.Answer) error {
	batch = slices.Clone(batch)
	refuse := func() {
		for _, i := range batch {
			answers[i].Outcome = backend.Refused
		}
	}
	for try := 0; len(batch) > 0; try++ {
		if try == 8 {
			return fmt.Errorf("%w: the elections change too quickly", backend.ErrUnavailable)
		}
		own, next, ops := b.renewalOps(s, id, held, batch)
		results, failed, err := s.write(ctx, ops...)
		last := failed == len(ops)-1 // the write of the session record
		switch {
		case err == nil:
			stat := results[len(results)-1].Stat
			if stat == nil {
				return fmt.Errorf("%w: the servers have answered a write without its outcome", backend.ErrUnavailable)
			}
			s.learnClock(stat)
			s.mu.Lock()
			s.record, s.recordVersion = *next, stat.Version
			s.mu.Unlock()
			for k, i := range batch {
				answers[i] = renewedAnswer(own[k], next)
			}
			if b.layout.kind == Node {
				return b.checkFixedNodes(ctx, s, held, batch, own, answers)
			}
			return nil
		case last && errors.Is(err, zk.ErrNoNode):
			// An operator has deleted the session record, in which others see renewals. It is
			// created again for later grants. The present leaderships end: heartbeats that
			// others have read must not come back.
			s.noteRecordLost(id)
			refuse()
			return nil
		case last && errors.Is(err, zk.ErrBadVersion):
			same, err := b.reloadSessionRecord(ctx, s, id)
			if err != nil {
				return err
			}
			if !same {
				s.noteRecordLost(id)
				refuse()
				return nil
			}
		case failed >= 0 && !last && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoAuth)):
			// Something has changed since the grant, or may no longer be read. Check the whole
			// batch: where one has changed, many may have.
			if batch, err = b.recheckBatch(ctx, s, id, held, batch, answers); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// renewalOps returns the transaction that renews a batch: a check of each lock node and
// record as last known, which are in own, and the write of the session record next.
func (b *Backend) renewalOps(s *session, id int64, held []backend.Held, batch []int) (own []ownLock, next *sessionRecord, ops []any) {
	own = make([]ownLock, len(batch))
	for k, i := range batch {
		l := held[i]
		own[k] = b.lockOf(l.Election)
		ops = append(ops,
			&zk.CheckVersionRequest{Path: b.layout.nodePath(l.Election, own[k].node), Version: -1},
			&zk.CheckVersionRequest{Path: b.layout.recordPath(l.Election), Version: own[k].recordVersion})
	}
	s.mu.Lock()
	present, version := s.record, s.recordVersion // another call may note a new session meanwhile
	s.mu.Unlock()
	next = &present
	all := b.grantsOf(id)
	// One group for each pair of TTL and renewal interval; usually there is one.
	var lengths [][2]time.Duration
	groups := map[[2]time.Duration][]int{}
	for k, i := range batch {
		length := [2]time.Duration{held[i].TTL, held[i].Renew}
		if groups[length] == nil {
			lengths = append(lengths, length)
		}
		groups[length] = append(groups[length], own[k].grant)
	}
	for _, length := range lengths {
		next = next.withRenewal(newHeartbeat(), length[0], length[1], groups[length], all)
	}
	return own, next, append(ops, &zk.SetDataRequest{Path: b.layout.sessionPath(sessionName(id)), Data: next.encode(), Version: version})
}

// reloadSessionRecord reads the session record after a renewal whose answer was lost. The
// holder does not trust that renewal, but others may have read it, so the content before it
// must not come back. same is false if the record was deleted and another one created.
func (b *Backend) reloadSessionRecord(ctx context.Context, s *session, id int64) (same bool, err error) {
	r, err := s.ReadNode(ctx, ensemble.Unique, b.layout.sessionPath(sessionName(id)))
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recordOwner != id || r.Stat.Czxid != s.recordCzxid {
		return false, nil
	}
	was := s.record
	s.record, s.recordVersion = *parseSessionRecord(r.Data), r.Stat.Version
	s.record.Nonce, s.record.ID = was.Nonce, was.ID // whatever an operator has written there
	return true, nil
}

// renewedAnswer returns the answer to a successful renewal.
func renewedAnswer(own ownLock, renewed *sessionRecord) backend.Answer {
	now := own.record.lease()
	g := renewed.groupOf(own.grant)
	now.Holder, now.TTL, now.Renew = own.record.Holder.candidate(), time.Duration(g.TTL), time.Duration(g.Renew)
	now.Version = version(g.leaseHeartbeat(own.record.Heartbeat, own.sessionCzxid, own.record.Election), own.node)
	return backend.Answer{Lease: now, Outcome: backend.Granted}
}

// recheckBatch reads the records and nodes of a batch, answers for leases that are lost or
// may not be read, and returns the rest.
func (b *Backend) recheckBatch(ctx context.Context, s *session, id int64, held []backend.Held, batch []int, answers []backend.Answer) ([]int, error) {
	errs := make([]error, len(batch))
	keep := make([]bool, len(batch))
	ensemble.InParallel(len(batch), func(k int) {
		l := held[batch[k]]
		own := b.lockOf(l.Election)
		r, err := s.ReadNode(ctx, ensemble.Data, b.layout.recordPath(l.Election))
		if err != nil {
			errs[k] = err
			return
		}
		node, err := s.ReadNode(ctx, ensemble.Unique, b.layout.nodePath(l.Election, own.node))
		if err != nil {
			errs[k] = err
			return
		}
		rec, bad := parseRecord(r.Data, l.Election)
		if own.node == sealedNode && node.Stat.EphemeralOwner == 0 {
			node.Stat.EphemeralOwner = id // it needs none
		}
		if r.Missing || node.Missing || bad != nil || node.Stat.EphemeralOwner != id || !rec.namesGrant(l, id, own.grant) || !b.layout.isHoldersNode(rec.Holder, own.node) {
			return
		}
		if w := rec.Request; w != nil && w.Kind == backend.Depose && w.Term == l.Term {
			return
		}
		keep[k] = true
		b.updateLock(l.Election, func(now *ownLock) {
			if now.node == own.node && now.term == l.Term {
				now.recordVersion, now.record = r.Stat.Version, rec
			}
		})
	})
	var failed []error
	for _, err := range errs {
		if err != nil && !errors.Is(err, zk.ErrNoAuth) { // that concerns one election alone
			failed = append(failed, err)
		}
	}
	if failed != nil {
		return nil, backend.Join(failed...)
	}
	var rest []int
	for k, i := range batch {
		switch {
		case errs[k] != nil:
			answers[i].Err = b.wrap(fmt.Sprintf("renew %.80q", held[i].Election), errs[k])
		case keep[k]:
			rest = append(rest, i)
		default:
			answers[i].Outcome = backend.Refused
		}
	}
	return rest, nil
}

// checkFixedNodes makes sure that the nodes at fixed paths are still ours, which a check by
// path cannot tell, and handles nodes that an operator has edited.
func (b *Backend) checkFixedNodes(ctx context.Context, s *session, held []backend.Held, batch []int, own []ownLock, answers []backend.Answer) error {
	errs := make([]error, len(batch))
	ensemble.InParallel(len(batch), func(k int) {
		a, election := &answers[batch[k]], held[batch[k]].Election
		r, ok, err := b.checkFixedNode(ctx, s, election, own[k].node)
		if err == nil && ok && own[k].nodeEdited(r.Data) {
			a.Request, err = b.nominateFromEdit(ctx, s, election, own[k], r.Data)
		}
		switch {
		case err != nil:
			*a, errs[k] = backend.Answer{}, err
		case !ok:
			*a = backend.Answer{Outcome: backend.Refused}
		}
	})
	return backend.Join(errs...)
}
