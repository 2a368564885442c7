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

// A view is what one call has read about the store as a whole.
type view struct {
	epoch    string
	wentBack int
	position uint64
	nonce    backend.Nonce // of this process, which may be granted its own leftovers
	number   uint64        // of the reading

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
	suspect bool    // it may not be the last grant: restored, deleted, edited or invalid
	own     bool    // this process was granted it before, and a bid would be granted
}

// free reports whether a bid would be granted at once.
func (s *state) free() bool { return s.Vacant() && s.ObserveFor == 0 }

// heldBy reports whether the record names the nonce as the holder.
func (s *state) heldBy(nonce backend.Nonce) bool {
	return s.record != nil && s.record.Nonce == string(nonce)
}

// read reads elections that this process takes part in or observes, and remembers what it has read.
func (b *Backend) read(ctx context.Context, names []string) (*view, []state, error) {
	return b.readBy(ctx, b.driver.Read, names)
}

// readBy is read, by Driver.Read or readAnnouncing.
func (b *Backend) readBy(ctx context.Context, read func(context.Context, []Key) (View, error), names []string) (*view, []state, error) {
	keys, asked, number := b.keysFor(names)
	got, err := read(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	v, states, items, err := b.complete(ctx, &got, names, asked, number)
	if err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range states {
		s := &states[i]
		b.known[s.Election] = b.known[s.Election] || !s.missing
	}
	b.cache.addRead(v, items, b.driver.Now())
	return v, states, nil
}

// complete reads what is needed besides a reading or listing of records to tell whether the
// elections are free: the sessions of their holders and the meta item, unless they were asked for.
// Each is read after the record that makes it necessary. docs/design/lease.md, "Readings", says why
// that is safe.
func (b *Backend) complete(ctx context.Context, got *View, names []string, asked map[Key]bool, number uint64) (v *view, states []state, items map[Key]Item, err error) {
	v = &view{epoch: got.Epoch, wentBack: got.WentBack, position: got.Position, nonce: b.owner.Nonce(), number: number}
	states, items = make([]state, len(names)), make(map[Key]Item, len(got.Items))
	v.note(got, items)
	var more []Key
	b.mu.Lock()
	b.notePlace(v.epoch)
	if b.cache.maxTTL == 0 || b.cache.epoch != v.epoch {
		more = addKey(more, asked, Key{Metas, ""}) // what it says of TTLs counts even if it is deleted later
	}
	for i, name := range names {
		s := &states[i]
		s.Election, s.item = name, items[Key{Records, name}]
		if key, ok := sessionOf(&s.item); ok {
			more = addKey(more, asked, key)
		}
		if b.classify(v, s, nil); s.suspect || s.missing {
			more = addKey(more, asked, Key{Metas, ""})
		}
	}
	b.mu.Unlock()
	if more != nil {
		got, err := b.driver.Read(ctx, more)
		if err != nil {
			return nil, nil, nil, err
		}
		if got.Epoch != v.epoch || got.WentBack != v.wentBack {
			return nil, nil, nil, ErrEpoch
		}
		v.note(&got, items)
	}
	if err := v.checkLayout(); err != nil {
		return nil, nil, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if m, ok := v.meta.Value.(*Meta); ok { // it may be deleted
		b.longestTTL = max(b.longestTTL, min(time.Duration(m.MaxTTL), b.limits.MaxTTL))
	}
	for i := range states {
		s := &states[i]
		b.classify(v, s, items)
	}
	return v, states, items, nil
}

// keysFor begins a reading: it returns the keys of records and of what will probably be needed with
// them, and the number of the reading.
func (b *Backend) keysFor(names []string) (keys []Key, asked map[Key]bool, number uint64) {
	asked = make(map[Key]bool, len(names))
	for _, name := range names {
		keys = addKey(keys, asked, Key{Records, name})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		it := b.cache.items[Key{Records, name}].item()
		if key, ok := sessionOf(&it); ok {
			keys = addKey(keys, asked, key)
		}
	}
	b.cache.begun++
	return keys, asked, b.cache.begun
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
func (v *view) note(got *View, items map[Key]Item) {
	for _, it := range got.Items {
		if items[it.Key] = it; it.Kind == Metas {
			v.metaRead, v.meta, v.records = true, it, got.Records
		}
	}
}

// deleted returns how many records were ever deleted, and whether some of them are missing.
func (v *view) deleted() (ever int64, some bool) {
	m, ok := v.meta.Value.(*Meta)
	if !ok {
		return 0, false
	}
	return m.Deleted + max(0, m.Made-v.records), v.records < m.Made
}

// lastTerm returns the last term of the election, or one that later grants had if they were lost.
func (s *state) lastTerm(now time.Time) uint64 {
	if s.record == nil || s.suspect {
		return s.Term
	}
	return backend.GrownTerm(s.Term, s.record.Written, now)
}

// lostTerms reports whether an election without a record may have been led: its record may have been
// deleted so long ago that it is free, but its last term is not known.
func (v *view) lostTerms() bool {
	ever, _ := v.deleted()
	return ever > 0 || v.meta.Value == nil && v.records > 0
}

// classify derives the lease from the items of one election: whether it is free, what a
// challenger must watch, and for how long. docs/design/lease.md, "When a lease is free". The
// caller holds b.mu.
func (b *Backend) classify(v *view, s *state, items map[Key]Item) {
	r, _ := s.item.Value.(*Record)
	s.record, s.missing = r, s.item.Version == ""
	if r == nil {
		r = &Record{}
	}
	valid := r.Term != 0 && !s.item.Edited && r.Election == s.Election
	strange := b.strange(v)
	if s.suspect = !valid || s.item.Old || r.Epoch != v.epoch || strange; s.missing {
		s.suspect = b.known[s.Election] || b.mayMiss(v) || strange
	}
	s.Lease = backend.Lease{
		Election: s.Election, Term: r.Term, Age: b.age(&s.item, r.Written),
		End: r.End, LastID: r.LastID, MovedTo: r.MovedTo, MovedFrom: r.MovedFrom,
	}
	s.Request = r.Request.of(s.Election, r.Term)
	created, renewed := "", Heartbeat(0)
	if s.session = (Item{}); r.ID != "" || r.Nonce != "" {
		created, renewed = b.classifyHeld(v, s, r, valid, items)
	}
	s.Version = version(r.Heartbeat, s.item.Created, created, renewed)
	if s.suspect {
		s.ObserveFor = max(s.ObserveFor, b.longest(v)) + b.unnoticed(v) // the last grant may be missing from the store
		s.Version = "?" + digest(s.item.Version, v.epoch, strconv.Itoa(v.wentBack), strconv.Itoa(b.moves), s.Version)
		if s.missing {
			s.Age = 0
			ever, _ := v.deleted() // only this shows that it was led and deleted again meanwhile
			s.Version = "?" + digest(v.epoch, strconv.Itoa(v.wentBack), strconv.Itoa(b.moves), v.meta.Created, strconv.FormatInt(ever, 10))
		}
	}
	s.Lease = clean.Lease(s.Lease)
}

// notePlace notes which store has answered. The caller holds b.mu.
func (b *Backend) notePlace(epoch string) {
	if b.epoch != "" && b.epoch != epoch {
		b.moves++
		b.movedAt = b.driver.Now()
	}
	b.epoch = epoch
}

// strange reports whether another store has answered for less than the greatest TTL. It may be one with
// leaders and records of its own, while those of the one before go on; and it may be the wrong one, and the
// next answer comes from the one before again. The caller holds b.mu.
func (b *Backend) strange(v *view) bool {
	since := b.driver.Now().Sub(b.movedAt)
	return b.moves > 0 && since >= 0 && since < b.longest(v)
}

// mayMiss reports whether the store may have lost a record. The caller holds b.mu.
func (b *Backend) mayMiss(v *view) bool {
	m, ok := v.meta.Value.(*Meta)
	if !ok && (v.meta.Version != "" || v.records > 0) {
		return true // it was damaged or deleted: nobody knows what else was
	}
	_, some := v.deleted()
	return some || v.wentBack > 0 || ok && m.Epoch != v.epoch
}

// classifyHeld notes who holds a lease, and returns what of the session shows that it is renewed. The caller
// holds b.mu.
func (b *Backend) classifyHeld(v *view, s *state, r *Record, valid bool, items map[Key]Item) (created string, renewed Heartbeat) {
	s.Holder = backend.Candidate{ID: r.ID, Nonce: backend.Nonce(r.Nonce), Address: r.Address, Metadata: r.Metadata}
	s.TTL, s.Renew = time.Duration(r.TTL), time.Duration(r.Renew)
	s.ObserveFor = min(max(s.TTL, b.limits.MinTTL), b.limits.MaxTTL)
	if valid { // no session renews a record that was edited
		b.longestTTL = max(b.longestTTL, s.ObserveFor) // the record may be deleted
		if key, ok := sessionOf(&s.item); ok {
			s.session = items[key]
			s.session.Key = key
		}
		of, ok := s.session.Value.(*Session)
		switch {
		case s.session.Edited, !ok && s.session.Version != "": // it renews nothing, and each write of it begins the watch anew
			created = "!" + s.session.Version
		case ok && of.Generation == r.Session:
			created, renewed = s.session.Created, of.Of(s.Election)
			if renewed == of.Heartbeat {
				s.Age = min(s.Age, b.age(&s.session, of.At))
			}
		}
	}
	if _, may := b.held[s.Election]; may && v.nonce != "" && r.Nonce == string(v.nonce) && !s.suspect {
		s.own, s.ObserveFor = true, 0
	}
	return created, renewed
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
	checks := int64(b.limits.checks())
	if m, ok := v.meta.Value.(*Meta); ok && !v.meta.Edited && m.Made <= checks && m.Deleted <= checks-m.Made && v.records <= checks {
		return 0
	}
	return b.limits.EditsUnnoticed
}

// age returns how long ago an item was written, by the store's clock or by that of its writer.
func (b *Backend) age(it *Item, written time.Time) time.Duration {
	switch {
	case it.Age < 0:
		return max(0, b.driver.Now().Sub(written))
	case it.rememberedAt == nil:
		return it.Age
	}
	return it.Age + max(0, b.driver.Now().Sub(*it.rememberedAt))
}

// version makes the Version of a lease. What comes before the space changes with each grant and
// release, and when record or session are made again. What comes after it changes with each renewal.
func version(record Heartbeat, recordCreated, sessionCreated string, renewed Heartbeat) string {
	v := strconv.AppendUint(make([]byte, 0, 64), uint64(record), 36)
	for _, created := range []string{recordCreated, sessionCreated} {
		if len(created) > 40 || strings.Contains(created, " ") {
			created = digest(created)
		}
		v = append(append(v, '.'), created...)
	}
	return string(strconv.AppendUint(append(v, ' '), uint64(renewed), 36))
}

// digest returns a short text that stands for long ones.
func digest(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:16])
}
