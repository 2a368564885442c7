package etcd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// Acquire implements [backend.Backend]. For each chunk it reads, or uses the last read, and
// sends one transaction that requires the state that was read.
func (b *Backend) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	if err := b.enter(bids[0].Candidate.Nonce); err != nil {
		return nil, err
	}
	answers := make([]backend.Answer, len(bids))
	all := make([]int, len(bids))
	for i := range all {
		all[i] = i
		b.noteTTL(bids[i].TTL)
	}
	// Sorted, so that managers that bid for the same elections conflict early.
	slices.SortFunc(all, func(i, j int) int { return cmp.Compare(bids[i].Election, bids[j].Election) })
	for part := range slices.Chunk(all, maxByKey) {
		r := b.rememberedFor(bids, part)
		if r == nil {
			r = b.readFor(ctx, bids, part)
		}
		err := b.fail(about("acquire", len(part), bids[part[0]].Election), b.acquire(ctx, bids, part, r, answers, 0))
		if err == nil || is(err, rpctypes.ErrPermissionDenied) && slices.ContainsFunc(part, func(i int) bool { return answers[i].Outcome != backend.Unknown }) {
			continue // rights are missing for some of them, as their answers say
		}
		setErrors(answers, all, err)
		return answers, err
	}
	return answers, nil
}

// setErrors sets err in the answers that have no outcome.
func setErrors(answers []backend.Answer, part []int, err error) {
	for _, i := range part {
		if answers[i].Outcome == backend.Unknown && answers[i].Err == nil {
			answers[i].Err = err
		}
	}
}

// readFor reads the elections of a part of the bids.
func (b *Backend) readFor(ctx context.Context, bids []backend.Bid, part []int) *readResult {
	var r readResult
	names := make([]string, len(part))
	for n, i := range part {
		names[n] = bids[i].Election
	}
	r.snapshot, r.entries, r.err = b.readElections(ctx, names)
	return &r
}

// A change is a new record for one election, in place of the entry that was read.
type change struct {
	entry  *entry
	record *record
}

// unchanged returns the conditions that the records are still as they were read.
func (b *Backend) unchanged(changes []change) (when []clientv3.Cmp) {
	for _, c := range changes {
		e, key := c.entry, b.keys.record(c.entry.Election)
		when = append(when, clientv3.Compare(clientv3.ModRevision(key), "=", e.recordRevision))
		if e.remembered && e.recordRevision != 0 {
			when = append(when, clientv3.Compare(clientv3.Value(key), "=", string(e.raw)))
		}
	}
	return when
}

// unrenewed returns the conditions that leases of other holders were not renewed since they
// were read. Their requests must be unchanged too: by writing a request, Release stops a
// late bid (docs/design/etcd.md, "Late requests").
func (b *Backend) unrenewed(changes []change) (when []clientv3.Cmp) {
	added := make(map[string]bool)
	for _, c := range changes {
		e := c.entry
		if e.Vacant() || e.ownLeftover {
			continue
		}
		when = append(when, clientv3.Compare(clientv3.ModRevision(b.keys.request(e.Election)), "=", e.requestRevision))
		if key := b.keys.heartbeat(e.record.Session); !added[key] && !e.tampered { // no heartbeat renews a record that was edited manually
			added[key] = true
			when = append(when, clientv3.Compare(clientv3.ModRevision(key), "=", e.sessionRevision))
		}
	}
	return when
}

// acquireHalves makes one attempt at each half of a part of the bids, so that a problem of
// one election does not affect the others. It returns the first error.
func (b *Backend) acquireHalves(ctx context.Context, bids []backend.Bid, part []int, answers []backend.Answer, tries int) (first error) {
	for _, half := range [][]int{part[:len(part)/2], part[len(part)/2:]} {
		err := b.acquire(ctx, bids, half, b.readFor(ctx, bids, half), answers, tries)
		setErrors(answers, half, b.fail(about("acquire", len(half), bids[half[0]].Election), err))
		if first == nil {
			first = err
		}
	}
	return first
}

// acquire makes one attempt at a part of the bids, by what was read before. If the
// transaction fails because one election has changed, or rights are missing for one, it
// tries each half.
func (b *Backend) acquire(ctx context.Context, bids []backend.Bid, part []int, r *readResult, answers []backend.Answer, tries int) error {
	if r.err != nil {
		return r.err
	}
	v := &r.snapshot
	changes, granted, err := b.planGrants(ctx, bids, part, r, answers)
	if err != nil || changes == nil {
		return err
	}
	s := b.currentSession()
	if !r.entries[0].remembered {
		s = b.removeIfDeleted(s, v)
	}
	w, err := b.grant(ctx, s, v, changes, bids[granted[0]])
	if len(part) > 1 && is(err, rpctypes.ErrPermissionDenied) {
		return b.acquireHalves(ctx, bids, part, answers, tries)
	}
	if err != nil {
		return err
	}
	if w.revision == 0 {
		fresh := b.readFor(ctx, bids, part)
		if fresh.err != nil {
			return fresh.err
		}
		if w.revision = writtenAt(changes, fresh.entries); w.revision == 0 {
			switch {
			case len(part) > 1:
				return b.acquireHalves(ctx, bids, part, answers, tries)
			case tries < 5: // the fresh read shows what has changed
				return b.acquire(ctx, bids, part, fresh, answers, tries+1)
			}
			return errBusy
		}
		w.cluster, w.sessionRecord = fresh.snapshot.cluster, fresh.snapshot.sessions[w.session.name]
		if w.sessionRecord != nil {
			b.noteSessionKey(w.session, w.sessionRecord)
		}
	}
	// A grant is trusted only if the store that was read has written it, at a later
	// revision. Otherwise the next bid finds it as a leftover.
	trusted := w.sessionRecord != nil && w.cluster == v.cluster && w.revision > v.revision
	for n, i := range granted {
		if !trusted {
			answers[i] = backend.Answer{Err: fmt.Errorf("etcd: acquire %q: %w: the grant was answered by another store than the read", bids[i].Election, backend.ErrUnavailable)}
			continue
		}
		answers[i] = backend.Answer{Lease: b.noteGrant(v, &changes[n], &w), Outcome: backend.Granted, ValidFor: bids[i].TTL}
	}
	return nil
}

// planGrants refuses the bids whose lease is not as expected, and returns the changes that
// grant the others, with their indices.
func (b *Backend) planGrants(ctx context.Context, bids []backend.Bid, part []int, r *readResult, answers []backend.Answer) (changes []change, granted []int, err error) {
	v, entries, now := &r.snapshot, r.entries, time.Now().UTC()
	for n, i := range part {
		bid, e := bids[i], &entries[n]
		if !e.ownLeftover && !e.Unchanged(bid.Expected) || e.MovedTo != bid.Expected.MovedTo {
			if !e.heldBy(v.nonce) {
				b.forget(bid.Election, 0)
			} else if err := b.release(ctx, []backend.Held{{Election: bid.Election, End: backend.Failed}}); err != nil {
				return nil, nil, err // a leftover from before the store was rebuilt
			}
			answers[i] = backend.Answer{Lease: e.Lease, Outcome: backend.Refused}
			continue
		}
		next, err := backend.NextTerm(max(e.Term, bid.Expected.Term), e.suspect, bid.MinTerm, now)
		if err != nil {
			answers[i] = backend.Answer{Err: fmt.Errorf("etcd: acquire %q: %w", bid.Election, err)}
			continue
		}
		changes = append(changes, newGrant(v, e, bid, next, now))
		granted = append(granted, i)
	}
	return changes, granted, nil
}

// grant writes changes. If there is no session it holds the session mutex while it creates one.
func (b *Backend) grant(ctx context.Context, s *session, v *snapshot, changes []change, bid backend.Bid) (w writeResult, err error) {
	if s == nil {
		unlock, err := b.lockSession(ctx)
		if err != nil {
			return w, err
		}
		defer unlock()
		s = b.currentSession() // another call may have created it
	}
	return b.writeRecords(ctx, s, v, changes, bid.Candidate, bid.TTL, b.unrenewed(changes))
}

// A writeResult is the result of a transaction that grants leases under a session.
type writeResult struct {
	session       *session
	revision      int64 // of the transaction; 0: its conditions did not hold
	cluster       uint64
	sessionRecord *sessionRecord // the session key after it
}

// writeRecords writes records under session s. If s is nil it creates a session, and the
// caller holds the session mutex.
func (b *Backend) writeRecords(ctx context.Context, s *session, v *snapshot, changes []change, holder backend.Candidate, ttl time.Duration, extra []clientv3.Cmp) (w writeResult, err error) {
	for try := 0; ; try++ {
		if w.session = s; s == nil {
			w.session = b.newSession(holder)
		}
		when, then := append(b.unchanged(changes), extra...), []clientv3.Op(nil)
		made, longest := 0, time.Duration(0)
		for _, c := range changes {
			c.record.Session = w.session.name
			c.record.Election, c.record.Write = c.entry.Election, c.entry.version+1
			then = append(then, clientv3.OpPut(b.keys.record(c.entry.Election), encode(c.record)))
			if c.record.Term != c.entry.Term || c.entry.missing { // a grant
				then = append(then, clientv3.OpDelete(b.keys.request(c.entry.Election)))
			}
			if c.entry.missing {
				made++
			}
			longest = max(longest, time.Duration(c.record.TTL))
		}
		if l := v.layout; made > 0 || time.Duration(l.MaxTTL) < longest || l.Cluster != v.cluster {
			l.Version, l.Cluster, l.MaxTTL = layoutVersion, v.cluster, max(l.MaxTTL, span(longest))
			l.countMade(changes)
			when = append(when, clientv3.Compare(clientv3.ModRevision(b.keys.layout()), "=", v.layoutRevision))
			then = append(then, clientv3.OpPut(b.keys.layout(), encode(l)))
		}
		sessionWhen, sessionThen, err := b.sessionOps(ctx, w.session, ttl)
		if err != nil {
			return w, err
		}
		b.markPending(changes)
		resp, err := b.txn(ctx, append(when, sessionWhen...), append(then, sessionThen...), true)
		switch {
		case is(err, rpctypes.ErrLeaseNotFound) && try == 0 && s == nil:
			b.mu.Lock()
			b.leaseID = 0
			b.mu.Unlock()
			continue
		case err != nil || !resp.Succeeded:
			return w, err
		}
		w.revision, w.cluster = resp.Header.GetRevision(), resp.Header.GetClusterId()
		for _, kv := range resp.Responses[len(resp.Responses)-1].GetResponseRange().GetKvs() {
			w.sessionRecord = readSessionRecord(kv)
			b.noteSessionKey(w.session, w.sessionRecord)
		}
		return w, nil
	}
}

// noteGrant notes a lease whose record was written, and returns it.
func (b *Backend) noteGrant(v *snapshot, c *change, w *writeResult) backend.Lease {
	v.sessions[w.session.name] = w.sessionRecord
	e := entry{Lease: backend.Lease{Election: c.entry.Election, Request: c.entry.Request}, record: c.record, recordRevision: w.revision, version: c.record.Write, hadRecord: true, mayBeHeld: true}
	if c.record.Term != c.entry.Term {
		e.Request = backend.Request{}
	}
	v.classify(&e)
	b.markHeld(&e, w.session)
	return e.Lease
}

// writtenAt returns the revision at which another copy of the transaction wrote the changes,
// or 0. Their heartbeats are unique to this attempt.
func writtenAt(changes []change, found []entry) (at int64) {
	for _, c := range changes {
		i := slices.IndexFunc(found, func(e entry) bool { return e.Election == c.entry.Election })
		if i < 0 || found[i].record == nil || found[i].record.Heartbeat != c.record.Heartbeat || found[i].record.Nonce != c.record.Nonce {
			return 0
		}
		at = found[i].recordRevision
	}
	return at
}

// countMade counts the records that are about to be made: Made for elections that had none
// before, as far as this process knows, and Again for others. Their sum, less the records
// that exist, is how many were ever deleted.
func (l *layout) countMade(changes []change) {
	for _, c := range changes {
		switch e := c.entry; {
		case e.recordRevision != 0:
		case e.missing && !e.hadRecord:
			l.Made++
		default:
			l.Again++
		}
	}
}

// newGrant returns the change that grants a bid.
func newGrant(v *snapshot, e *entry, bid backend.Bid, term uint64, now time.Time) change {
	c := bid.Candidate
	end, lastID, history := e.endLeadership(backend.Failed, now)
	return change{e, &record{
		Term: term, ID: c.ID, Nonce: string(c.Nonce), Address: c.Address, Metadata: c.Metadata, TTL: span(bid.TTL), Renew: span(bid.Renew),
		Heartbeat: uint64(lease.NewHeartbeat()), End: end, LastID: lastID, History: history,
		Elected: now, Written: now, Cluster: v.cluster, marks: marks{e.MovedTo, e.MovedFrom},
	}}
}

// endLeadership returns the record's fields about the past after its present leadership, if
// it has one, has ended.
func (e *entry) endLeadership(how backend.End, now time.Time) (end backend.End, id string, history []backend.Leadership) {
	r := e.record
	switch {
	case r == nil:
		return "", "", nil
	case r.Nonce == "":
		return r.End, r.LastID, clean.History(r.History)
	}
	lapsed := e.ExpiredFor()
	if e.sessionRevision == 0 { // the session key with the last renewal was deleted
		lapsed = 0
	}
	return how, r.ID, clean.Remember(r.History, backend.Leadership{Term: r.Term, ID: r.ID, From: r.Elected}, how, now, lapsed)
}
