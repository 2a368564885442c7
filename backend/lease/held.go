package lease

import (
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A grant is what this process knows of a lease that it was granted. There may be thousands.
type grant struct {
	term        uint64
	ttl, renew  time.Duration
	past        *past       // nil: empty
	request     *Request    // pending, as far as was read
	heartbeat   Heartbeat   // of the record
	version     string      // of the record; "": it must be read
	created     string      // Item.Created of the record
	record      *Record     // only if few leases are held
	generation  string      // of the session that renews it
	unconfirmed []Heartbeat // of records that were sent since, without an answer
}

// A past has a record's fields about the last leadership and migrations.
type past struct {
	end                backend.End
	lastID             string
	movedTo, movedFrom string
}

// maxRemembered is how many leases a process may hold of which it remembers the whole records.
const maxRemembered = 40

// lease returns the lease as a renewal has left it.
func (g *grant) lease(h *backend.Held, s *session) backend.Lease {
	now := backend.Lease{
		Election: h.Election, Holder: h.Holder, Term: g.term, TTL: g.ttl, Renew: g.renew,
		Version: version(g.heartbeat, g.created, renewalSign{s.item.Created, s.value.Of(h.Election)}),
	}
	if p := g.past; p != nil {
		now.End, now.LastID, now.MovedTo, now.MovedFrom = p.end, p.lastID, p.movedTo, p.movedFrom
	}
	now.Request = g.request.of(h.Election, g.term)
	return clean.Lease(now)
}

// mayHold reports whether this process may hold an election.
func (b *Backend) mayHold(election string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.held[election]
	return ok
}

// mayComeLate reports whether a record that this process has sent for an election may still arrive.
func (b *Backend) mayComeLate(election string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, ok := b.held[election]
	return ok && (g == nil || g.unconfirmed != nil)
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
	if g := b.held[election]; term == 0 || g != nil && g.term == term {
		delete(b.held, election)
	}
}

// markHeld notes a record that makes this process the holder.
func (b *Backend) markHeld(r *Record, it Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := &grant{term: r.Term, ttl: time.Duration(r.TTL), renew: time.Duration(r.Renew), request: r.Request, heartbeat: r.Heartbeat, version: it.Version, created: it.Created, generation: r.Session}
	if p := (past{r.End, r.LastID, r.MovedTo, r.MovedFrom}); p != (past{}) {
		g.past = &p
	}
	if len(b.held) <= maxRemembered {
		g.record = r
	}
	b.held[r.Election], b.known[r.Election] = g, max(b.known[r.Election], r.Term)
	b.cache.forget(r.Election)
}

// invalidate notes that the record of a held lease must be read.
func (b *Backend) invalidate(election string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.held[election]; g != nil {
		g.version = ""
	}
}

// invalidateAll notes that the records of all held leases must be read.
func (b *Backend) invalidateAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.held {
		if g != nil {
			g.version = ""
		}
	}
}

// heldInTerm returns the grant of a lease if it has the term of h.
func (b *Backend) heldInTerm(h *backend.Held) (g grant, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.held[h.Election]
	if p == nil || p.term != h.Term || h.Term == 0 {
		return g, false
	}
	g = *p
	g.unconfirmed = slices.Clone(p.unconfirmed)
	return g, true
}

// Granted returns the record of a lease that this process holds in a term, without its value, as far
// as it knows: for drivers whose stores can make other writes depend on it.
func (b *Backend) Granted(election string, term uint64) (record Item, ok bool) {
	g, ok := b.heldInTerm(&backend.Held{Election: election, Term: term})
	return Item{Key: Key{Records, election}, Version: g.version, Created: g.created}, ok && g.version != ""
}

// noteTTL notes a TTL that this process bids with.
func (b *Backend) noteTTL(ttl time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.longestTTL = max(b.longestTTL, ttl)
}
