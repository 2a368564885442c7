package lease

import (
	"fmt"
	"time"

	"github.com/go-election/go-election/backend"
)

// nextTerm returns the term of a grant. It jumps if the last grant may be lost.
func (a *acquiring) nextTerm(v *view, st *state, bid *backend.Bid) (uint64, error) {
	now := a.b.limits.Now()
	last := max(st.lastTerm(now), bid.Expected.Term)
	// A missing record may have been deleted so long ago that its lease is free: its last term is not known.
	ever, _ := v.deletions()
	jump := st.suspect || st.missing && (ever > 0 || v.meta.Value == nil && v.records > 0)

	term, err := backend.NextTerm(last, jump, bid.MinTerm, now)
	if err != nil {
		return 0, fmt.Errorf("%s: acquire %q: %w", a.b.limits.Name, bid.Election, err)
	}
	return term, nil
}

// lastTerm returns the last term of the election, or one that later grants had if they were lost.
func (s *state) lastTerm(now time.Time) uint64 {
	if s.record == nil || s.suspect {
		return max(s.Term, s.seen)
	}
	return backend.GrownTerm(s.Term, s.record.Written, now)
}

// What is remembered of an election when it has been read.
type remembered struct {
	term uint64 // the greatest of its unedited records; 1: only others were read; 0: none ever was
	at   int64  // of the last reading, grant or release, in seconds
}

// noteTerm remembers that an election was read or granted in a term. The caller holds b.mu.
func (b *Backend) noteTerm(election string, term uint64) {
	b.known[election] = remembered{max(b.known[election].term, term), b.limits.Now().Unix()}
}

// unreadFor is after what time without a reading an election is forgotten, as if this process had started
// since. Whoever takes part in an election reads it at least once a TTL.
const unreadFor = int64(time.Hour / time.Second)

// noteReading remembers what was read. Elections and processes come and go: if much is remembered, those of
// the past are forgotten. The caller holds b.mu.
func (b *Backend) noteReading(v *view, states []state) {
	now := b.limits.Now()
	for i := range states {
		b.noteTerm(states[i].Election, states[i].readTerm())
	}
	b.cache.addRead(v, now)
	if len(b.known)+len(b.cache.items) < b.forgetAt {
		return
	}

	for name, last := range b.known {
		if _, held := b.held[name]; !held && now.Unix()-last.at > unreadFor {
			delete(b.known, name)
			delete(b.cache.items, Key{Records, name})
		}
	}
	b.cache.dropSessions()
	b.forgetAt = 64 + 2*(len(b.known)+len(b.cache.items))
}

// readTerm returns what a reading says of the last term: see remembered.
func (s *state) readTerm() uint64 {
	r := s.record
	switch {
	case s.missing:
		return 0
	case r == nil || s.item.Edited || r.Election != s.Election || r.Term > backend.MaxTerm:
		return 1
	}
	return max(1, r.Term)
}
