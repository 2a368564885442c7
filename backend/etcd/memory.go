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
type reading struct {
	view    view
	entries []entry
	err     error
	at      time.Time
	heard   bool // a watch has told the last of it, and nobody has observed it yet
}

// byName indexes the entries.
func (r *reading) byName() map[string]*entry {
	found := make(map[string]*entry, len(r.entries))
	for i := range r.entries {
		found[r.entries[i].Election] = &r.entries[i]
	}
	return found
}

// lately returns the revision of the last reading if by that leases are as they were
// seen, and it is no older than a TTL: listening can begin from there.
func (b *Backend) lately(seen []backend.Lease) (revision int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil || b.last.view.restored != b.restored {
		return 0
	}
	found, age := b.last.byName(), time.Since(b.last.at)
	for i := range seen {
		if e := found[seen[i].Election]; e == nil || turned(&seen[i], &e.Lease) || age > max(e.TTL, minTTL) {
			return 0
		}
	}
	return b.last.view.revision
}

// hear brings the last reading up to date by an answer of a watch that has told
// everything since a revision.
func (b *Backend) hear(since int64, resp *clientv3.WatchResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.last
	if r == nil {
		return
	}
	if r.view.revision < since || r.view.restored != b.restored {
		b.last = nil // something is missing in between
		return
	}
	found := r.byName()
	for _, event := range resp.Events {
		if event.Kv.ModRevision > r.view.revision {
			b.note(&r.view, found, event.Kv)
		}
	}
	r.view.revision = max(r.view.revision, resp.Events[len(resp.Events)-1].Kv.ModRevision)
	for i := range r.entries {
		e := &r.entries[i]
		e.met = e.met || e.recordAt != 0
		b.met[e.Election] = e.met
		_, e.may = b.holding[e.Election]
		r.view.judge(e)
	}
	r.heard = true
}

// news returns what has changed, as the watches have just told, if it is only that
// all of these leases were renewed, or have become free. Whoever then bids too late is
// refused, since the bid is pinned to what was heard: no reading is needed to know. All
// else is read.
func (b *Backend) news(seen []backend.Lease) (changed []backend.Lease, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hearing.restored == b.restored {
		if changed, ok := b.hearing.renewed(seen); ok {
			return changed, true
		}
	}
	if b.last == nil || !b.last.heard {
		return nil, false
	}
	b.last.heard = false
	if b.last.view.restored != b.restored {
		return nil, false
	}
	found := b.last.byName()
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
func (b *Backend) guess(bids []backend.Bid, part []int) *reading {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := b.last
	b.last = nil // it is written to, and has served
	if last == nil || last.view.restored != b.restored {
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
		entries[n].guessed = true
	}
	last.entries, last.view.self = entries, b.guard.Nonce()
	return last
}

// A held lease is what was written of an election that is held here. There may be
// thousands.
type held struct {
	term       uint64
	ttl, renew time.Duration
	past       *past  // nil: nothing
	heartbeat  uint64 // of the record
	at         int64  // revision of the record
	cluster    uint64
	session    *session // nil: in doubt
	entry      *entry   // the whole of it, as long as those are few
	tried      []uint64 // heartbeats of records that were written since and not confirmed
}

// A past is what a lease says of who led before, and of migrations.
type past struct {
	end                backend.End
	lastID, lastNonce  string
	movedTo, movedFrom string
}

// lease returns what is held as l and was renewed by a pulse.
func (h *held) lease(l *backend.Held, p *pulse) backend.Lease {
	now := backend.Lease{
		Election: l.Election, Holder: l.Holder, Term: h.term, Heartbeat: mix(h.heartbeat, uint64(p.next.of(l.Election))),
		TTL: h.ttl, Renew: h.renew, Ref: ref(h.at) + refUnder(p.made),
	}
	if p := h.past; p != nil {
		now.End, now.LastID, now.LastNonce, now.MovedTo, now.MovedFrom = p.end, p.lastID, p.lastNonce, p.movedTo, p.movedFrom
	}
	return now
}

// mayHold reports whether an election may be held here, as far as noted.
func (b *Backend) mayHold(election string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.holding[election]
	return ok
}

// may notes that elections may be held here from now on, or with another record than
// before.
func (b *Backend) may(offers []offer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range offers {
		h := b.holding[o.entry.Election]
		if h != nil {
			h.tried = append(h.tried, o.record.Heartbeat)
		}
		b.holding[o.entry.Election] = h
	}
}

// lets notes that an election is not held here: in that term, or, if that is 0, at all.
func (b *Backend) lets(election string, term uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.holding[election]; term == 0 || h != nil && h.term == term {
		delete(b.holding, election)
	}
}

// holds notes a grant.
func (b *Backend) holds(e *entry, s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := &held{term: e.Term, ttl: e.TTL, renew: e.Renew, heartbeat: e.record.Heartbeat, at: e.recordAt, cluster: e.record.Cluster, session: s}
	if p := (past{e.End, e.LastID, e.LastNonce, e.MovedTo, e.MovedFrom}); p != (past{}) {
		h.past = &p
	}
	if len(b.holding) <= exactly {
		whole := *e
		if h.entry = &whole; whole.raw == nil {
			whole.raw = []byte(encode(e.record))
		}
	}
	b.holding[e.Election] = h
}

// doubt notes that what is held must be read.
func (b *Backend) doubt(election string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.holding[election]; h != nil {
		h.session = nil
	}
}

// heldIn returns what is held of a lease if its record may be that of its term.
func (b *Backend) heldIn(l *backend.Held) (h held, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.holding[l.Election]
	if p == nil || p.term != l.Term || l.Term == 0 {
		return h, false
	}
	h = *p
	h.tried = slices.Clone(p.tried)
	return h, true
}

// heldAs returns what is remembered of leases that are to be released, if each was
// granted here in the term that is to be ended.
func (b *Backend) heldAs(part []backend.Held) (v view, entries []entry, ok bool) {
	for i := range part {
		h, ok := b.heldIn(&part[i])
		if !ok || h.entry == nil || len(h.tried) > 0 {
			return v, nil, false
		}
		guess := *h.entry
		guess.guessed = true
		entries = append(entries, guess)
		v.cluster = h.cluster
	}
	v.self = b.guard.Nonce()
	return v, entries, true
}

// noteTTL notes with what TTL is bid, here or elsewhere.
func (b *Backend) noteTTL(ttl time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.longest = max(b.longest, ttl)
}
