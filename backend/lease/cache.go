package lease

import (
	"maps"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

// A cache has items as they were last read, or told by Listen since: "What is remembered" in doc.go.
type cache struct {
	source
	items map[Key]Item // records of elections that others hold or nobody holds, and sessions

	// All changes up to position are in items. at is when that was so; zero: never.
	position uint64
	at       time.Time

	maxTTL time.Duration // of the meta item; 0: unknown

	// Readings are numbered as they begin. One that began before the last that was added, or before
	// the cache was cleared, may be older than what is in items.
	begun, added uint64

	// Readings up to this one may lack a change of which Listen has only said that there is one.
	untold uint64
}

// maxTold is how many sessions that no record names are kept, more or less: they may lead next.
const maxTold = 500

// clear forgets everything.
func (c *cache) clear() {
	*c = cache{begun: c.begun, untold: c.untold}
	c.clearItems()
}

// clearItems forgets items, so that the next reading sets the position.
func (c *cache) clearItems() {
	c.items, c.position, c.at, c.added = map[Key]Item{}, 0, time.Time{}, c.begun
}

// addRead keeps what a reading has brought. It keeps nothing of one that began before the last that was
// added, and forgets the items that cannot be ordered: nothing that is remembered is older than what a caller
// was told.
func (c *cache) addRead(v *view, now time.Time) {
	if v.number <= c.added {
		for key, it := range v.items {
			if it.Order == 0 || it.Order > c.items[key].Order {
				delete(c.items, key)
			}
		}
		return
	}

	c.added = v.number
	if c.source != v.source {
		c.clear()
		c.source = v.source
	}
	if c.position == 0 {
		c.position, c.at = v.position, now
	}
	if m, ok := v.meta.Value.(*Meta); ok && m.Epoch == v.epoch {
		c.maxTTL = time.Duration(m.MaxTTL)
	} else if v.metaRead {
		c.maxTTL = 0
	}

	for key, it := range v.items {
		r, ok := it.Value.(*Record)
		switch {
		case key.Kind == Metas:
		case ok && v.nonce != "" && r.Nonce == string(v.nonce): // Backend.held has it
			delete(c.items, key)
		case it.Version == "": // nothing is said by it; a process that begins reads thousands
			delete(c.items, key)
		default:
			c.add(it)
		}
	}
}

// add keeps an item, unless a newer one is known. One without an Order was read later, thanks to addRead.
func (c *cache) add(it Item) {
	if old, ok := c.items[it.Key]; ok && it.Version != "" && 0 < it.Order && it.Order < old.Order {
		return
	}
	it.Remembered, it.Age = true, -1 // it gets older
	c.items[it.Key] = it
}

// dropSessions removes sessions that no record in the cache names: of processes that may lead next, or ended.
func (c *cache) dropSessions() {
	named := make(map[Key]bool)
	for _, it := range c.items {
		if key, ok := sessionOf(&it); ok {
			named[key] = true
		}
	}
	maps.DeleteFunc(c.items, func(k Key, _ Item) bool { return k.Kind == Sessions && !named[k] })
}

// cachedView begins an answer by the cache. The caller holds b.mu.
func (b *Backend) cachedView() *view {
	return &view{source: b.cache.source, nonce: b.owner.Nonce(), items: map[Key]Item{}}
}

// loadCached sets s to an election as the cache has it. ok is false if it must be read. The caller
// holds b.mu.
func (b *Backend) loadCached(v *view, election string, s *state) (ok bool) {
	*s = state{item: b.cache.items[Key{Records, election}]}
	key, held := sessionOf(&s.item)
	session := b.cache.items[key]
	if s.item.Version == "" || held && session.Version == "" {
		return false
	}

	s.Election = election
	v.items = map[Key]Item{key: session}
	b.derive(v, s)
	return !s.suspect
}

// changedByCache returns the leases as the cache has them, if all of them have changed.
func (b *Backend) changedByCache(seen []backend.Lease) (changed []backend.Lease, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cache.added <= b.cache.untold {
		return nil, false
	}
	var s state // one for all: there may be thousands
	v := b.cachedView()
	for i := range seen {
		if !b.loadCached(v, seen[i].Election, &s) {
			return nil, false
		}
		// Without an order, an old reading may have come last.
		ordered := s.item.Order > 0 && (s.session.Version == "" || s.session.Order > 0)
		if seen[i].Version == "" || !ordered || !s.Differs(seen[i]) {
			return nil, false
		}
		if changed == nil {
			changed = make([]backend.Lease, 0, len(seen))
		}
		b.noteTerm(s.Election, s.readTerm())
		changed = append(changed, s.Lease)
	}
	return changed, true
}

// changedBeyondRenewal is Differs, except that it ignores renewals.
func changedBeyondRenewal(old, now *backend.Lease) bool {
	same := *now
	was, _, _ := strings.Cut(old.Version, " ")
	if is, _, _ := strings.Cut(now.Version, " "); is == was {
		same.Version = old.Version
	}
	return same.Differs(*old)
}
