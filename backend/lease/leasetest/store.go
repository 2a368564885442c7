// Package leasetest tests drivers of package lease: [Run] has what every Driver must pass. Its
// [Store] is a driver inside this process, for tests of the protocol.
package leasetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A Store is a store inside this process, with faults that tests cause. It is safe for concurrent
// use.
type Store struct {
	// Limits may be changed before the first Driver is made.
	Limits lease.Limits

	mu      sync.Mutex
	epoch   string
	counter uint64 // of all writes
	entries map[lease.Key]entry
	changed chan struct{} // closed by the next change
	log     []lease.Item  // all changes, in order
}

// An entry is an item as the store keeps it.
type entry struct {
	text             string // the encoded value
	version, created uint64
	writes           int64
	at               time.Time
}

// NewStore returns an empty store.
func NewStore() *Store {
	return &Store{
		Limits: lease.Limits{Name: "leasetest", MinTTL: time.Millisecond, MaxTTL: 5 * time.Minute, Batch: 40, MaxValue: 1 << 20},
		epoch:  "1", entries: map[lease.Key]entry{}, changed: make(chan struct{}),
	}
}

// Driver returns a new client of the store, for one Backend.
func (s *Store) Driver() lease.Driver { return &driver{s: s} }

// Snapshot returns what the store has, for Restore.
func (s *Store) Snapshot() map[lease.Key]entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	copied := map[lease.Key]entry{}
	for k, e := range s.entries {
		copied[k] = e
	}
	return copied
}

// Restore makes the store what it was, with another epoch.
func (s *Store) Restore(snapshot map[lease.Key]entry, epoch string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries, s.epoch = map[lease.Key]entry{}, epoch
	for k, e := range snapshot {
		s.entries[k] = e
	}
	s.log = nil
	s.notify()
}

// Delete deletes an item, as an operator does.
func (s *Store) Delete(k lease.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(k, "", 0, false)
}

// Edit replaces the text of an item, as an operator does. edit gets the present text.
func (s *Store) Edit(k lease.Key, edit func(text string) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(k, edit(s.entries[k].text), s.entries[k].writes+1, true)
}

// put writes or deletes an item. The caller holds s.mu.
func (s *Store) put(k lease.Key, text string, writes int64, there bool) lease.Item {
	s.counter++
	if !there {
		delete(s.entries, k)
	} else {
		e := s.entries[k]
		if e.version == 0 {
			e.created = s.counter
		}
		s.entries[k] = entry{text, s.counter, e.created, writes, time.Now()}
	}
	it := s.item(k)
	it.Order = s.counter
	s.log = append(s.log, it)
	s.notify()
	return it
}

func (s *Store) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// item returns an item as it is. The caller holds s.mu.
func (s *Store) item(k lease.Key) lease.Item {
	it := lease.Item{Key: k}
	e, ok := s.entries[k]
	if !ok {
		return it
	}
	it.Version, it.Created, it.Order = strconv.FormatUint(e.version, 10), strconv.FormatUint(e.created, 10), e.version
	it.Value, it.Age = lease.Decode(k.Kind, []byte(e.text)), max(0, time.Since(e.at))
	if r, ok := it.Value.(*lease.Record); ok {
		it.Edited = r.Write != e.writes
	}
	return it
}

// A driver is one client.
type driver struct{ s *Store }

func (d *driver) Limits() lease.Limits { return d.s.Limits }
func (d *driver) Now() time.Time       { return time.Now() }
func (d *driver) Close() error         { return nil }

func (d *driver) Read(ctx context.Context, keys []lease.Key) (v lease.View, err error) {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return v, err
	}
	for _, k := range keys {
		v.Items = append(v.Items, s.item(k))
	}
	for k := range s.entries {
		if k.Kind == lease.Records {
			v.Records++
		}
	}
	v.Epoch, v.Position = s.epoch, s.counter
	return v, nil
}

func (d *driver) Write(ctx context.Context, epoch string, _ int, changes []lease.Change, verify []lease.Item) (w lease.Written, err error) {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return w, err
	}
	if epoch != s.epoch {
		return w, lease.ErrEpoch
	}
	for i := range changes {
		w.Results = append(w.Results, s.apply(&changes[i]))
	}
	for n, it := range verify {
		if s.item(it.Key).Version != it.Version {
			w.Stale = append(w.Stale, n)
		}
	}
	return w, nil
}

// apply makes one change if its conditions hold. The caller holds s.mu.
func (s *Store) apply(c *lease.Change) (r lease.Result) {
	if len(c.Put)+len(c.Check) > s.Limits.Batch {
		return lease.Result{Err: fmt.Errorf("%w: a change of %d puts and %d checks, at most %d are allowed", backend.ErrInvalid, len(c.Put), len(c.Check), s.Limits.Batch)}
	}
	as := func(it lease.Item) bool {
		now := s.item(it.Key)
		return now.Version == it.Version && (!it.Remembered || it.Value == nil || s.entries[it.Key].text == lease.Encode(it.Value))
	}
	if slices.ContainsFunc(c.Check, func(it lease.Item) bool { return !as(it) }) ||
		slices.ContainsFunc(c.Put, func(p lease.Put) bool { return !as(p.Over) }) {
		return lease.Result{Outcome: backend.Refused}
	}
	for _, p := range c.Put {
		if p.Value == nil {
			r.Items = append(r.Items, s.put(p.Over.Key, "", 0, false))
			continue
		}
		writes := s.entries[p.Over.Key].writes + 1
		if rec, ok := p.Value.(*lease.Record); ok {
			rec.Write = writes
		}
		r.Items = append(r.Items, s.put(p.Over.Key, lease.Encode(p.Value), writes, true))
	}
	r.Outcome = backend.Granted
	return r
}

func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (v lease.View, err error) {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.entries {
		if k.Kind == kind && k.Name >= from {
			v.Items = append(v.Items, s.item(k))
		}
	}
	slices.SortFunc(v.Items, func(a, b lease.Item) int { return strings.Compare(a.Name, b.Name) })
	v.Items = v.Items[:min(limit, len(v.Items))]
	v.Epoch, v.Position = s.epoch, s.counter
	return v, ctx.Err()
}

// Listen implements [lease.Listener].
func (d *driver) Listen(ctx context.Context, position uint64, _ []lease.Item, on func([]lease.Item, uint64) bool) error {
	for {
		s := d.s
		s.mu.Lock()
		changed, at := s.changed, s.counter
		gap := position > at || len(s.log) > 0 && s.log[0].Order > position+1
		items := slices.Clone(s.log[len(s.log)-min(len(s.log), int(at-min(at, position))):])
		s.mu.Unlock()
		if gap {
			return nil
		}
		if len(items) > 0 && !on(items, at) {
			return nil
		}
		position = at
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
