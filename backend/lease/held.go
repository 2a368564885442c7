package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A grant is what this process knows of a lease that it was granted.
type grant struct {
	record      packed      // as it was granted, or written or read since
	version     string      // of the record; "": it must be read
	created     string      // Item.Created of the record
	unconfirmed []Heartbeat // of records that were sent since, without an answer
}

// item returns the record as an item without its value.
func (g *grant) item(election string) Item {
	return Item{Key: Key{Records, election}, Version: g.version, Created: g.created}
}

// asGranted reports whether the store has this record, unless somebody else has changed it.
func (g *grant) asGranted() bool { return g.version != "" && g.unconfirmed == nil }

// renewedBy reports whether heartbeats of this session renew the lease.
func (g *grant) renewedBy(s *session) bool {
	return s != nil && g.record.alike.Value().session == s.value.Generation
}

// answer returns the answer to a bid or renewal with this TTL after which the lease is as granted, and
// renewed by s.
func (g *grant) answer(election string, ttl time.Duration, s *session) backend.Answer {
	r := g.record.record(election)
	l := r.Lease(election)
	l.Version = version(g.record.heartbeat, g.created, renewalSign{s.item.Created, s.value.Of(election)})
	return backend.Answer{Lease: clean.Lease(l), Outcome: backend.Granted, ValidFor: min(ttl, l.TTL)}
}

// Held returns the elections that this process may hold.
func (b *Backend) Held() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.held))
}

// mayHold reports whether this process may hold an election.
func (b *Backend) mayHold(election string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.held[election]
	return ok
}

// markPending notes that records are about to be sent: until an answer comes, this process may
// hold those elections, or hold them with another record than before.
func (b *Backend) markPending(records []*Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range records {
		g := b.held[r.Election]
		if g != nil {
			g.unconfirmed = append(g.unconfirmed, r.Heartbeat)
		}
		b.held[r.Election] = g
	}
}

// forget notes that this process does not hold an election in a term, or, if that is 0, at all.
func (b *Backend) forget(election string, term uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.held[election]; term == 0 || g != nil && g.record.term == term {
		b.noteTerm(election, 0)
		delete(b.held, election)
	}
}

// markHeld notes a record that makes this process the holder.
func (b *Backend) markHeld(r *Record, it Item) *grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := &grant{record: pack(r), version: it.Version, created: it.Created}
	b.held[r.Election] = g
	b.noteTerm(r.Election, r.Term)
	delete(b.cache.items, Key{Records, r.Election})
	return g
}

// invalidate notes that the record of a held lease must be read.
func (b *Backend) invalidate(election string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.held[election]; g != nil {
		g.version = ""
	}
}

// heldInTerm returns the grant of a lease if it has the term of h.
func (b *Backend) heldInTerm(h *backend.Held) (g grant, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.held[h.Election]
	if p == nil || p.record.term != h.Term {
		return g, false
	}
	g = *p
	g.unconfirmed = slices.Clone(p.unconfirmed)
	return g, true
}

// Granted returns the record of a lease that this process holds in a term, as far as it knows, without its
// value. Drivers whose stores can make other writes depend on it use it.
func (b *Backend) Granted(election string, term uint64) (record Item, ok bool) {
	g, ok := b.heldInTerm(&backend.Held{Election: election, Term: term})
	return g.item(election), ok && g.version != ""
}
