package etcd

import (
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// A heldLease is what this process wrote when it was granted a lease. There may be
// thousands.
type heldLease struct {
	term        uint64
	ttl, renew  time.Duration
	history     *leaseHistory // nil: empty
	heartbeat   uint64        // of the record
	revision    int64         // of the record
	cluster     uint64
	session     *session // nil: the record must be read
	entry       *entry   // the whole record; nil if many leases are held
	unconfirmed []uint64 // heartbeats of records that were sent since, without an answer
}

// A leaseHistory has a lease's fields about the last leadership and migrations.
type leaseHistory struct {
	end                backend.End
	lastID             string
	movedTo, movedFrom string
}

// lease returns the lease as a renewal has left it.
func (h *heldLease) lease(l *backend.Held, r *renewal) backend.Lease {
	now := backend.Lease{
		Election: l.Election, Holder: l.Holder, Term: h.term, TTL: h.ttl, Renew: h.renew,
		Version: version(combine(h.heartbeat, uint64(r.next.Of(l.Election))), h.revision, r.createRevision),
	}
	if past := h.history; past != nil {
		now.End, now.LastID, now.MovedTo, now.MovedFrom = past.end, past.lastID, past.movedTo, past.movedFrom
	}
	return now
}

// mayHold reports whether this process may hold an election.
func (b *Backend) mayHold(election string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.held[election]
	return ok
}

// markPending notes that the changes are about to be sent: until an answer comes, this
// process may hold those elections, or hold them with another record than before.
func (b *Backend) markPending(changes []change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range changes {
		h := b.held[c.entry.Election]
		if h != nil {
			h.unconfirmed = append(h.unconfirmed, c.record.Heartbeat)
		}
		b.held[c.entry.Election] = h
	}
}

// forget notes that this process does not hold an election in a term, or, if that is 0, at all.
func (b *Backend) forget(election string, term uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.held[election]; term == 0 || h != nil && h.term == term {
		delete(b.held, election)
	}
}

// markHeld notes a grant.
func (b *Backend) markHeld(e *entry, s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &heldLease{term: e.Term, ttl: e.TTL, renew: e.Renew, heartbeat: e.record.Heartbeat, revision: e.recordRevision, cluster: e.record.Cluster, session: s}
	if p := (leaseHistory{e.End, e.LastID, e.MovedTo, e.MovedFrom}); p != (leaseHistory{}) {
		h.history = &p
	}
	if len(b.held) <= maxByKey {
		whole := *e
		if h.entry = &whole; whole.raw == nil {
			whole.raw = []byte(encode(e.record))
		}
	}
	b.held[e.Election] = h
}

// invalidate notes that the record of a held lease must be read.
func (b *Backend) invalidate(election string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.held[election]; h != nil {
		h.session = nil
	}
}

// heldInTerm returns the held lease if it has the term of l.
func (b *Backend) heldInTerm(l *backend.Held) (h heldLease, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.held[l.Election]
	if p == nil || p.term != l.Term || l.Term == 0 {
		return h, false
	}
	h = *p
	h.unconfirmed = slices.Clone(p.unconfirmed)
	return h, true
}

// rememberedGrants returns the leases to release as they were granted, if all of them are
// remembered with the terms that are to end.
func (b *Backend) rememberedGrants(part []backend.Held) (v snapshot, entries []entry, ok bool) {
	for i := range part {
		h, ok := b.heldInTerm(&part[i])
		if !ok || h.entry == nil || len(h.unconfirmed) > 0 {
			return v, nil, false
		}
		guess := *h.entry
		guess.remembered = true
		entries = append(entries, guess)
		v.cluster = h.cluster
	}
	v.nonce = b.owner.Nonce()
	return v, entries, true
}

// noteTTL notes a TTL that this process or another one bids with.
func (b *Backend) noteTTL(ttl time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.longestTTL = max(b.longestTTL, ttl)
}
