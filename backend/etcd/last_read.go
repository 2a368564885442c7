package etcd

import (
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-election/go-election/backend"
)

// A reading is what some elections were found to be, or were heard to have become.
//
// The last reading of a few elections is remembered, so that a handover needs few
// round trips: a release and a bid are then sent without asking first. What is
// remembered may be old, and is only a guess of what the keys are. So the transaction
// compares them: their revisions, as with what was just read, and, since a store that
// was restored counts revisions anew, their values byte by byte. If they are the same
// it does not matter when they were read. If not, nothing is done, and they are read.
type readResult struct {
	snapshot  snapshot
	entries   []entry
	err       error
	at        time.Time
	fromWatch bool // a watch has told the last of it, and nobody has observed it yet
}

// byName indexes the entries.
func (r *readResult) byName() map[string]*entry {
	found := make(map[string]*entry, len(r.entries))
	for i := range r.entries {
		found[r.entries[i].Election] = &r.entries[i]
	}
	return found
}

// lately returns the revision of the last reading if by that leases are as they were
// seen, and it is no older than a TTL: listening can begin from there.
func (b *Backend) lastRevision(seen []backend.Lease) (revision int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lastRead == nil || b.lastRead.snapshot.restoredAt != b.restoredAt {
		return 0
	}
	found, age := b.lastRead.byName(), time.Since(b.lastRead.at)
	for i := range seen {
		if e := found[seen[i].Election]; e == nil || changedBeyondHeartbeat(&seen[i], &e.Lease) || age > max(e.TTL, minTTL) {
			return 0
		}
	}
	return b.lastRead.snapshot.revision
}

// hear brings the last reading up to date by an answer of a watch that has told
// everything since a revision.
func (b *Backend) updateLastRead(since int64, resp *clientv3.WatchResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.lastRead
	if r == nil {
		return
	}
	if r.snapshot.revision < since || r.snapshot.restoredAt != b.restoredAt {
		b.lastRead = nil // something is missing in between
		return
	}
	found := r.byName()
	for _, event := range resp.Events {
		if event.Kv.ModRevision > r.snapshot.revision {
			b.applyKey(&r.snapshot, found, event.Kv)
		}
	}
	r.snapshot.revision = max(r.snapshot.revision, resp.Events[len(resp.Events)-1].Kv.ModRevision)
	for i := range r.entries {
		e := &r.entries[i]
		e.hadRecord = e.hadRecord || e.recordRevision != 0
		b.hadRecord[e.Election] = e.hadRecord
		_, e.mayBeHeld = b.held[e.Election]
		r.snapshot.classify(e)
	}
	r.fromWatch = true
}

// news returns what has changed, as the watches have just told, if it is only that
// all of these leases were renewed, or have become free. Whoever then bids too late is
// refused, since the bid is pinned to what was heard: no reading is needed to know. All
// else is read.
func (b *Backend) fromWatches(seen []backend.Lease) (changed []backend.Lease, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cache.restoredAt == b.restoredAt {
		if changed, ok := b.cache.renewed(seen); ok {
			return changed, true
		}
	}
	if b.lastRead == nil || !b.lastRead.fromWatch {
		return nil, false
	}
	b.lastRead.fromWatch = false
	if b.lastRead.snapshot.restoredAt != b.restoredAt {
		return nil, false
	}
	found := b.lastRead.byName()
	for i := range seen {
		e := found[seen[i].Election]
		if e == nil || e.missing || seen[i].Heartbeat == 0 || !e.free() || !e.Differs(seen[i]) {
			return nil, false
		}
		changed = append(changed, e.Lease)
	}
	return changed, true
}

// guess returns what is remembered of the elections that a part of the bids is
// about, if by that each of them would be granted.
func (b *Backend) rememberedFor(bids []backend.Bid, part []int) *readResult {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.lastRead
	b.lastRead = nil // it is written to, and has served
	if last == nil || last.snapshot.restoredAt != b.restoredAt {
		return nil
	}
	found := last.byName()
	entries := make([]entry, len(part))
	for n, i := range part {
		e := found[bids[i].Election]
		if e == nil || e.missing || !e.free() || !e.Unchanged(bids[i].Expected) {
			return nil
		}
		entries[n] = *e
		entries[n].remembered = true
	}
	last.entries, last.snapshot.nonce = entries, b.owner.Nonce()
	return last
}

// A held lease is what was written of an election that is held here. There may be
// thousands.
type heldLease struct {
	term        uint64
	ttl, renew  time.Duration
	history     *leaseHistory // nil: nothing
	heartbeat   uint64        // of the record
	revision    int64         // revision of the record
	cluster     uint64
	session     *session // nil: in doubt
	entry       *entry   // the whole of it, as long as those are few
	unconfirmed []uint64 // heartbeats of records that were written since and not confirmed
}

// A past is what a lease says of who led before, and of migrations.
type leaseHistory struct {
	end                backend.End
	lastID, lastNonce  string
	movedTo, movedFrom string
}

// lease returns what is held as l and was renewed by a pulse.
func (h *heldLease) lease(l *backend.Held, p *renewal) backend.Lease {
	now := backend.Lease{
		Election: l.Election, Holder: l.Holder, Term: h.term, Heartbeat: combine(h.heartbeat, uint64(p.next.of(l.Election))),
		TTL: h.ttl, Renew: h.renew, Ref: recordRef(h.revision) + sessionRef(p.createRevision),
	}
	if p := h.history; p != nil {
		now.End, now.LastID, now.LastNonce, now.MovedTo, now.MovedFrom = p.end, p.lastID, p.lastNonce, p.movedTo, p.movedFrom
	}
	return now
}

// mayHold reports whether an election may be held here, as far as noted.
func (b *Backend) mayHold(election string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.held[election]
	return ok
}

// may notes that elections may be held here from now on, or with another record than
// before.
func (b *Backend) markPending(offers []change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range offers {
		h := b.held[o.entry.Election]
		if h != nil {
			h.unconfirmed = append(h.unconfirmed, o.record.Heartbeat)
		}
		b.held[o.entry.Election] = h
	}
}

// lets notes that an election is not held here: in that term, or, if that is 0, at all.
func (b *Backend) forget(election string, term uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.held[election]; term == 0 || h != nil && h.term == term {
		delete(b.held, election)
	}
}

// holds notes a grant.
func (b *Backend) markHeld(e *entry, s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &heldLease{term: e.Term, ttl: e.TTL, renew: e.Renew, heartbeat: e.record.Heartbeat, revision: e.recordRevision, cluster: e.record.Cluster, session: s}
	if p := (leaseHistory{e.End, e.LastID, e.LastNonce, e.MovedTo, e.MovedFrom}); p != (leaseHistory{}) {
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

// doubt notes that what is held must be read.
func (b *Backend) invalidate(election string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.held[election]; h != nil {
		h.session = nil
	}
}

// heldIn returns what is held of a lease if its record may be that of its term.
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

// heldAs returns what is remembered of leases that are to be released, if each was
// granted here in the term that is to be ended.
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

// noteTTL notes with what TTL is bid, here or elsewhere.
func (b *Backend) noteTTL(ttl time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.longestTTL = max(b.longestTTL, ttl)
}
