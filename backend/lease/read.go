package lease

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// A source is the store that has answered, and how often it went back.
type source struct {
	epoch    string
	wentBack int
}

func (v *View) source() source { return source{v.Epoch, v.WentBack} }

// A view is what one call has read.
type view struct {
	source
	position uint64
	nonce    backend.Nonce // of this process, which may be granted its own leftovers
	number   uint64        // of the reading: see cache
	items    map[Key]Item

	metaRead bool // the following are set
	meta     Item
	records  int64
}

// A state is one election as it was read.
type state struct {
	backend.Lease
	item    Item    // its record
	record  *Record // nil: missing or invalid
	session Item    // of the holder, unless the record is vacant or was edited
	missing bool    // there is no record
	valid   bool    // this package wrote the record for this election
	seen    uint64  // the term that was remembered of it: see remembered
	suspect bool    // it may not be the last grant: restored, deleted, edited or invalid
	own     bool    // this process was granted it before, and a bid would be granted
}

// heldBy reports whether the record names the nonce as the holder.
func (s *state) heldBy(nonce backend.Nonce) bool {
	return s.record != nil && s.record.Nonce == string(nonce)
}

// read reads elections that this process takes part in or observes, and remembers what it has read.
func (b *Backend) read(ctx context.Context, names []string) (*view, []state, error) {
	keys, number := b.beginReading(names)
	got, err := b.driver.Read(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	v, states, err := b.complete(ctx, &got, names)
	if err != nil {
		return nil, nil, err
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	v.number = number
	b.noteReading(v, states)
	return v, states, nil
}

// beginReading returns the number of a reading that begins, and the keys of records and, as the cache has
// them, of their holders' sessions: they will probably be needed, too.
func (b *Backend) beginReading(names []string) (keys []Key, number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cache.begun++
	asked := make(map[Key]bool, len(names))
	for _, name := range names {
		keys = addKey(keys, asked, Key{Records, name})
	}
	for _, name := range names {
		it := b.cache.items[Key{Records, name}]
		if key, ok := sessionOf(&it); ok {
			keys = addKey(keys, asked, key)
		}
	}
	return keys, b.cache.begun
}

// complete reads what is needed besides a reading or listing of records to tell whether the
// elections are free: the sessions of their holders and the meta item, unless they are among it.
// Each is read after the record that makes it necessary: "Readings" in doc.go says why.
func (b *Backend) complete(ctx context.Context, got *View, names []string) (*view, []state, error) {
	v := &view{
		source:   got.source(),
		position: got.Position,
		nonce:    b.owner.Nonce(),
		items:    make(map[Key]Item, len(got.Items)),
	}
	v.note(got)

	states, more := b.firstStates(v, names)
	if more != nil {
		rest, err := b.driver.Read(ctx, more)
		if err != nil {
			return nil, nil, err
		}
		if rest.source() != v.source {
			return nil, nil, ErrEpoch
		}
		v.note(&rest)
	}
	if err := v.checkLayout(); err != nil {
		return nil, nil, err
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if m, ok := v.meta.Value.(*Meta); ok { // it may be deleted
		b.longestTTL = max(b.longestTTL, min(time.Duration(m.MaxTTL), b.limits.MaxTTL))
	}
	for i := range states {
		b.derive(v, &states[i])
	}
	return v, states, nil
}

// firstStates returns the states of elections by their records alone, and the keys of what to read next.
func (b *Backend) firstStates(v *view, names []string) (states []state, more []Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noteEpoch(v.epoch)

	asked := make(map[Key]bool)
	need := func(k Key) {
		if _, read := v.items[k]; !read {
			more = addKey(more, asked, k)
		}
	}
	if b.cache.maxTTL == 0 || b.cache.epoch != v.epoch {
		need(Key{Metas, ""}) // what it says of TTLs counts even if it is deleted later
	}
	states = make([]state, len(names))
	for i, name := range names {
		s := &states[i]
		s.Election, s.item = name, v.items[Key{Records, name}]
		if key, ok := sessionOf(&s.item); ok {
			need(key)
		}
		b.classify(v, s)
		if s.suspect || s.missing {
			need(Key{Metas, ""})
		}
	}
	return states, more
}

// sessionOf returns the key of the session that a record names.
func sessionOf(record *Item) (k Key, ok bool) {
	r, _ := record.Value.(*Record)
	if r == nil || r.Nonce == "" || clean.Text(r.Nonce, 64, false) != r.Nonce {
		return k, false
	}
	return Key{Sessions, r.Nonce}, true
}

func addKey(keys []Key, asked map[Key]bool, k Key) []Key {
	if asked[k] {
		return keys
	}
	asked[k] = true
	return append(keys, k)
}

// note keeps what a reading has brought.
func (v *view) note(got *View) {
	for _, it := range got.Items {
		v.items[it.Key] = it
		if it.Kind == Metas {
			v.metaRead, v.meta, v.records = true, it, got.Records
		}
	}
}

// deletions returns how many records were ever deleted, and whether any of them may still be trusted.
func (v *view) deletions() (ever int64, fresh bool) {
	m, ok := v.meta.Value.(*Meta)
	if !ok {
		return 0, false
	}
	return m.Deleted + max(0, m.Made-v.records), v.records < m.Made
}

// classify sets what is there of an election's record, and whether it may not be the last grant. The caller
// holds b.mu.
func (b *Backend) classify(v *view, s *state) {
	r, _ := s.item.Value.(*Record)
	s.record = r
	s.missing = s.item.Version == ""
	s.seen = b.known[s.Election].term
	s.valid = r != nil && r.Term != 0 && !s.item.Edited && r.Election == s.Election

	s.suspect = !s.valid || s.item.Old || r.Epoch != v.epoch || r.Term < s.seen
	if s.missing {
		s.suspect = s.seen > 0 || b.mayMiss(v)
	}
	s.suspect = s.suspect || b.justReplaced(v)
}

// derive sets the lease of an election from its items: what a challenger must watch, and for how long.
// "When a lease is free" in doc.go has the rules. The caller holds b.mu.
func (b *Backend) derive(v *view, s *state) {
	b.classify(v, s) // again, now with the meta item
	r := s.record
	if r == nil {
		r = &Record{}
	}

	s.Lease = r.Lease(s.Election)
	s.Age = b.age(&s.item, r.Written)
	s.session = Item{}
	sign := renewalSign{}
	if !s.Vacant() {
		sign = b.deriveHeld(v, s)
	}
	s.Version = version(r.Heartbeat, s.item.Created, sign)
	if s.suspect {
		b.deriveSuspect(v, s)
	}
	s.Lease = clean.Lease(s.Lease)
}

// deriveSuspect sets what a challenger must watch if the last grant may be missing from the store. The caller
// holds b.mu.
func (b *Backend) deriveSuspect(v *view, s *state) {
	s.ObserveFor = max(s.ObserveFor, b.longest(v)) + b.unnoticed(v)
	source := []string{v.epoch, strconv.Itoa(v.wentBack), strconv.Itoa(b.replaced)}
	if !s.missing {
		s.Version = "?" + digest(append(source, s.item.Version, s.Version)...)
		return
	}
	s.Age = 0
	ever, _ := v.deletions() // only this shows that it was led and deleted again meanwhile
	s.Version = "?" + digest(append(source, v.meta.Created, strconv.FormatInt(ever, 10))...)
}

// noteEpoch notes which store has answered. The caller holds b.mu.
func (b *Backend) noteEpoch(epoch string) {
	if b.epoch != "" && b.epoch != epoch {
		b.replaced++
		b.replacedAt = b.limits.Now()
	}
	b.epoch = epoch
}

// justReplaced reports whether another store has answered for less than the greatest TTL. It may have
// leaders and records of its own, while those of the one before go on. Or it is the wrong one, and the next
// answer comes from the one before again. The caller holds b.mu.
func (b *Backend) justReplaced(v *view) bool {
	since := b.limits.Now().Sub(b.replacedAt)
	return b.replaced > 0 && since >= 0 && since < b.longest(v)
}

// mayMiss reports whether the store may have lost a record. The caller holds b.mu.
func (b *Backend) mayMiss(v *view) bool {
	m, ok := v.meta.Value.(*Meta)
	if !ok && (v.meta.Version != "" || v.records > 0) {
		return true // it was damaged or deleted: nobody knows what else was
	}
	_, fresh := v.deletions()
	return fresh || v.wentBack > 0 || ok && m.Epoch != v.epoch
}

// A renewalSign is what of a session shows that a lease is renewed. It is empty if nothing does.
type renewalSign struct {
	created   string    // when the session was made
	heartbeat Heartbeat // of this lease
}

// deriveHeld notes the session of the holder, sets how long a challenger must watch the lease, and returns
// what shows that it is renewed. The caller holds b.mu.
func (b *Backend) deriveHeld(v *view, s *state) (sign renewalSign) {
	s.ObserveFor = min(max(s.TTL, b.limits.MinTTL), b.limits.MaxTTL)
	if s.valid { // no session renews a record that was edited
		b.longestTTL = max(b.longestTTL, s.ObserveFor) // the record may be deleted
		sign = b.renewalBy(v, s)
	}
	if _, may := b.held[s.Election]; may && v.nonce != "" && s.heldBy(v.nonce) && !s.suspect {
		s.own, s.ObserveFor = true, 0
	}
	switch {
	case s.heldBy(v.nonce): // its deadline decides
	case s.session.Process == Lives:
		s.ObserveFor = backend.ExpiresInStore
	case s.session.Process == Ended:
		s.ObserveFor = 0
	}
	return sign
}

// renewalBy notes the session that a record names, and returns what it says of this lease. The caller holds
// b.mu.
func (b *Backend) renewalBy(v *view, s *state) (sign renewalSign) {
	if key, ok := sessionOf(&s.item); ok {
		s.session = v.items[key]
		s.session.Key = key
	}

	of, ok := s.session.Value.(*Session)
	switch {
	case s.session.Edited, !ok && s.session.Version != "": // renews nothing: each write begins the watch anew
		sign.created = "!" + s.session.Version
	case ok && of.Generation == s.record.Session:
		sign = renewalSign{s.session.Created, of.Of(s.Election)}
		if sign.heartbeat == of.Heartbeat {
			s.Age = min(s.Age, b.age(&s.session, of.At))
		}
	}
	return sign
}

// longest returns the greatest TTL that may have been granted. The caller holds b.mu.
func (b *Backend) longest(v *view) time.Duration {
	switch m, ok := v.meta.Value.(*Meta); {
	case b.limits.Loses: // the meta item may be lost as the record was
		return b.limits.MaxTTL
	case ok && m.MaxTTL > 0: // read has noted it
	case !v.metaRead, v.meta.Version != "", v.records > 0: // unknown, invalid or deleted
		return b.limits.MaxTTL
	}
	return max(b.longestTTL, b.limits.MinTTL)
}

// unnoticed returns for how long a lease may have been renewed after its record was edited or deleted.
// Where no more records were ever made than a renewal checks, each renewal checks all.
func (b *Backend) unnoticed(v *view) time.Duration {
	checks := int64(b.limits.Checks)
	m, ok := v.meta.Value.(*Meta)
	if ok && !v.meta.Edited && m.Made <= checks && m.Deleted <= checks-m.Made && v.records <= checks {
		return 0
	}
	return b.limits.EditsUnnoticed
}

// age returns how long ago an item was written, by the store's clock or by that of its writer.
func (b *Backend) age(it *Item, written time.Time) time.Duration {
	if it.Age < 0 {
		return max(0, b.limits.Now().Sub(written))
	}
	return it.Age
}

// version makes the Version of a lease. What comes before the space changes with each grant and
// release, and when record or session are made again. What comes after it changes with each renewal.
func version(record Heartbeat, recordCreated string, sign renewalSign) string {
	v := strconv.AppendUint(make([]byte, 0, 64), uint64(record), 36)
	for _, created := range []string{recordCreated, sign.created} {
		if len(created) > 40 || strings.Contains(created, " ") {
			created = digest(created)
		}
		v = append(v, '.')
		v = append(v, created...)
	}
	v = append(v, ' ')
	return string(strconv.AppendUint(v, uint64(sign.heartbeat), 36))
}

// digest returns a short text that stands for long ones.
func digest(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:16])
}
