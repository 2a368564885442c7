package lease

import (
	"maps"
	"strings"
	"time"
	"unique"

	"github.com/go-election/go-election/backend"
)

// A cache has items as they were last read, or as Listen has told of them since. It lets Observe
// answer that leases have changed, and Acquire bid, without a reading. It never answers that a
// lease is unchanged, and whatever is bid by it is compared by the store:
// "What is remembered" in doc.go.
type cache struct {
	epoch    string
	wentBack int
	items    map[Key]*remembered // records of elections that others hold or nobody holds, and sessions

	// All changes up to position are in items. at is when that was so; zero: never.
	position uint64
	at       time.Time

	maxTTL time.Duration // of the meta item; 0: unknown

	// Readings are counted. One that began before another that has been added already, or before
	// the cache was cleared, may be older than what is in items.
	begun, added uint64

	dropAt int // number of items at which sessions that nobody holds are dropped
	unread int // how often Observe has answered by the cache since the last reading
}

// maxUnread is how often in a row Observe answers by the cache.
const maxUnread = 16

// clear forgets everything.
func (c *cache) clear() { *c = cache{items: map[Key]*remembered{}, begun: c.begun, added: c.begun} }

func (b *Backend) clearCache() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cache.clear()
}

// clearItems forgets items, so that the next reading sets the position.
func (c *cache) clearItems() {
	c.items, c.position, c.at, c.added = map[Key]*remembered{}, 0, time.Time{}, c.begun
}

// refresh keeps what a reading has brought of items that are remembered already.
func (c *cache) refresh(v *view, items map[Key]Item, now time.Time) {
	maps.DeleteFunc(items, func(k Key, _ Item) bool { old := c.items[k]; return old == nil || old.Version == "" })
	if len(items) > 0 {
		c.addRead(v, items, now)
	}
}

// addRead keeps what a reading has brought. Of a late reading it keeps nothing, and forgets what
// may be newer or older: nothing that is remembered may be older than what a caller was told.
func (c *cache) addRead(v *view, items map[Key]Item, now time.Time) {
	if v.number <= c.added {
		for key, it := range items {
			if old := c.items[key]; old != nil && (it.Order == 0 || it.Order > old.Order) {
				delete(c.items, key)
			}
		}
		return
	}
	c.added = v.number
	if c.epoch != v.epoch || c.wentBack != v.wentBack {
		c.clear()
		c.epoch, c.wentBack = v.epoch, v.wentBack
	}
	if c.position == 0 {
		c.position, c.at = v.position, now
	}
	if m, ok := v.meta.Value.(*Meta); ok && m.Epoch == v.epoch {
		c.maxTTL = time.Duration(m.MaxTTL)
	} else if v.metaRead {
		c.maxTTL = 0
	}
	for key, it := range items {
		r, ok := it.Value.(*Record)
		switch {
		case key.Kind == Metas:
		case ok && v.nonce != "" && r.Nonce == string(v.nonce): // grant has what is known of own leases
			c.forget(key.Name)
		case it.Version == "": // nothing is said by it; a process that begins reads thousands
			delete(c.items, key)
		default:
			c.add(it, &now)
		}
	}
	if c.unread = 0; len(c.items) > c.dropAt { // processes come and go
		c.dropSessions()
		c.dropAt = 64 + 2*len(c.items)
	}
}

// add keeps an item, unless a newer one is known.
func (c *cache) add(it Item, now *time.Time) {
	if old, ok := c.items[it.Key]; ok && it.Version != "" && it.Order < old.Order {
		return
	}
	it.Remembered, it.rememberedAt = true, now
	c.items[it.Key] = remember(it)
}

// forget removes the record of an election that this process holds now, so that no more is
// remembered of it than grant has.
func (c *cache) forget(election string) { delete(c.items, Key{Records, election}) }

// dropSessions removes sessions that no record in the cache names.
func (c *cache) dropSessions() {
	named := make(map[Key]bool)
	for _, m := range c.items {
		it := m.item()
		if key, ok := sessionOf(&it); ok {
			named[key] = true
		}
	}
	maps.DeleteFunc(c.items, func(k Key, _ *remembered) bool { return k.Kind == Sessions && !named[k] })
}

// cachedView begins an answer by the cache. The caller holds b.mu.
func (b *Backend) cachedView() *view {
	return &view{epoch: b.cache.epoch, wentBack: b.cache.wentBack, nonce: b.owner.Nonce()}
}

// cached sets s to an election as the cache has it, and returns false if it must be read. The
// caller holds b.mu.
func (b *Backend) cached(v *view, election string, s *state) bool {
	*s = state{item: b.cache.items[Key{Records, election}].item()}
	key, held := sessionOf(&s.item)
	of := b.cache.items[key].item()
	if s.item.Version == "" || held && of.Version == "" {
		return false
	}
	s.Election = election
	b.derive(v, s, map[Key]Item{key: of})
	return !s.suspect
}

// changedByCache returns the leases as the cache has them, if all of them have changed.
func (b *Backend) changedByCache(seen []backend.Lease) (changed []backend.Lease, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cache.unread >= maxUnread {
		return nil, false
	}
	var s state // one for all: there may be thousands
	v := b.cachedView()
	for i := range seen {
		if !b.cached(v, seen[i].Election, &s) {
			return nil, false
		}
		ordered := s.item.Order > 0 && (s.session.Version == "" || s.session.Order > 0) // otherwise an old reading may have come last
		if seen[i].Version == "" || !ordered || !s.Differs(seen[i]) {
			return nil, false
		}
		if changed == nil {
			changed = make([]backend.Lease, 0, len(seen))
		}
		changed = append(changed, s.Lease)
	}
	b.cache.unread++
	return changed, true
}

// freeByCache returns the elections of a few bids if each would be granted by the cache.
func (b *Backend) freeByCache(bids []backend.Bid) (v *view, states []state, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, states = b.cachedView(), make([]state, len(bids))
	for i := range bids {
		s := &states[i]
		if !b.cached(v, bids[i].Election, s) || !s.free() || !s.Unchanged(bids[i].Expected) {
			return nil, nil, false
		}
	}
	return v, states, true
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

// A remembered is an item in the cache. There may be thousands of records, and those of one holder
// differ in little. So what they have in common is kept once.
type remembered struct {
	Item                                   // without its Value if the other fields have it
	common           unique.Handle[common] // zero: they do not
	write            int64
	term             uint64
	heartbeat        Heartbeat
	elected, written time.Time
	history          []backend.Leadership
	request          *Request
}

// A common has the fields of a record that many share.
type common struct {
	id, nonce, address, metadata, session, epoch, lastID, movedTo, movedFrom string
	ttl, renew                                                               Span
	end                                                                      backend.End
}

func remember(it Item) *remembered {
	r, ok := it.Value.(*Record)
	if !ok || r.Election != it.Name { // or somebody copied it
		return &remembered{Item: it}
	}
	it.Value = nil
	shared := common{r.ID, r.Nonce, r.Address, r.Metadata, r.Session, r.Epoch, r.LastID, r.MovedTo, r.MovedFrom, r.TTL, r.Renew, r.End}
	return &remembered{it, unique.Make(shared), r.Write, r.Term, r.Heartbeat, r.Elected, r.Written, r.History, r.Request}
}

// item returns the item as it was; nothing if m is nil.
func (m *remembered) item() (it Item) {
	if m == nil {
		return it
	}
	if it = m.Item; m.common != (unique.Handle[common]{}) {
		c := m.common.Value()
		it.Value = &Record{it.Name, m.write, m.term, c.id, c.nonce, c.address, c.metadata, c.ttl, c.renew, c.session, m.heartbeat, c.epoch,
			c.end, c.lastID, m.elected, m.written, m.history, m.request, c.movedTo, c.movedFrom}
	}
	return it
}
