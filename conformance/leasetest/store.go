// Package leasetest tests drivers of package lease: [Run] has what every Driver must pass. Its
// [Store] is a driver inside this process, for tests of the protocol.
package leasetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A Store is a store inside this process, with faults that tests cause. It is safe for concurrent use.
type Store struct {
	// Limits may be changed before the first Driver is made.
	Limits lease.Limits

	mu      sync.Mutex
	epoch   string
	counter uint64 // of all writes
	entries map[lease.Key]entry
	changed chan struct{} // closed by the next change
	log     []lease.Item  // all changes after logFrom, in order
	logFrom uint64
}

// A Snapshot is what a store had.
type Snapshot struct {
	entries map[lease.Key]entry
	counter uint64
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
	limits := lease.Limits{Name: "leasetest", Batch: 40, Checks: 39, MaxValue: 1 << 20}
	limits.MinTTL, limits.MaxTTL = time.Millisecond, 5*time.Minute
	return &Store{Limits: limits, epoch: "1", entries: map[lease.Key]entry{}, changed: make(chan struct{})}
}

// Driver returns a new client of the store, for one Backend.
func (s *Store) Driver() lease.Driver { return &driver{s: s} }

// Snapshot returns what the store has, for Restore and GoBack.
func (s *Store) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{maps.Clone(s.entries), s.counter}
}

// Restore makes the store what it was, with an epoch. With the one that it has no driver notices it: a copy
// that was made then takes its place. The zero Snapshot is an empty store.
func (s *Store) Restore(was Snapshot, epoch string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restore(was, epoch)
}

// GoBack makes the store what it was, in the same epoch. It counts versions anew, as etcd does
// after its data was restored. Drivers notice it by the count.
func (s *Store) GoBack(was Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counter = was.counter
	s.restore(was, s.epoch)
}

// restore does what Restore and GoBack share. Listeners are not told what has changed.
func (s *Store) restore(was Snapshot, epoch string) {
	s.epoch, s.entries = epoch, map[lease.Key]entry{}
	maps.Copy(s.entries, was.entries)
	s.log, s.logFrom = nil, s.counter
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

// Text returns the encoded value of an item; "" if it is not there.
func (s *Store) Text(k lease.Key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[k].text
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
	it.Version, it.Created = strconv.FormatUint(e.version, 10), strconv.FormatUint(e.created, 10)
	it.Order = e.version
	it.Value, it.Age = lease.Decode(k.Kind, []byte(e.text)), max(0, time.Since(e.at))
	it.Edited = lease.Edited(it.Value, e.writes)
	return it
}

// A driver is one client.
type driver struct {
	s *Store

	newest   uint64 // the greatest count that it has seen
	wentBack int
	oldUpTo  uint64 // versions up to this one are from before the store went back
}

func (d *driver) Limits() lease.Limits { return d.s.Limits }
func (d *driver) Close() error         { return nil }

// notice notes whether the store went back, and reports whether it did. The caller holds s.mu, as in item and
// view.
func (d *driver) notice() (went bool) {
	went = d.s.counter < d.newest
	if went {
		d.wentBack++
		d.oldUpTo = d.s.counter
	}
	d.newest = d.s.counter
	return went
}

// item returns an item as this client sees it.
func (d *driver) item(k lease.Key) lease.Item {
	it := d.s.item(k)
	it.Old = it.Version != "" && d.s.entries[k].version <= d.oldUpTo
	return it
}

// view returns a View without items.
func (d *driver) view() lease.View {
	d.notice()
	return lease.View{Epoch: d.s.epoch, WentBack: d.wentBack, Position: d.s.counter}
}

func (d *driver) Read(ctx context.Context, keys []lease.Key) (v lease.View, err error) {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return v, err
	}
	v = d.view()
	for _, k := range keys {
		v.Items = append(v.Items, d.item(k))
	}
	for k := range s.entries {
		if k.Kind == lease.Records {
			v.Records++
		}
	}
	return v, nil
}

// checkSeparate returns an error if an item that one change puts is in another one: package lease promises
// never to ask for that.
func checkSeparate(changes []lease.Change) error {
	puts := make(map[lease.Key]bool)
	for i := range changes {
		for _, p := range changes[i].Put {
			if puts[p.Over.Key] {
				return fmt.Errorf("%w: two changes put %v", backend.ErrInvalid, p.Over.Key)
			}
			puts[p.Over.Key] = true
		}
	}
	for i := range changes {
		for _, it := range changes[i].Check {
			if puts[it.Key] {
				return fmt.Errorf("%w: one change puts and another one checks %v", backend.ErrInvalid, it.Key)
			}
		}
	}
	return nil
}

func (d *driver) Write(
	ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item,
) (w lease.Written, err error) {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return w, err
	}
	if epoch != s.epoch || wentBack != d.wentBack {
		return w, lease.ErrEpoch
	}
	if err := checkSeparate(changes); err != nil {
		return w, err
	}
	went := d.notice()
	for i := range changes {
		w.Results = append(w.Results, s.apply(&changes[i]))
	}
	d.newest = s.counter
	if went { // it answers too late to refuse the changes
		return lease.Written{}, lease.ErrEpoch
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
	read := slices.Clone(c.Check)
	for _, p := range c.Put {
		read = append(read, p.Over)
	}
	if n := len(read); n > s.Limits.Batch {
		err := fmt.Errorf("%w: a change of %d items, more than %d", backend.ErrInvalid, n, s.Limits.Batch)
		return lease.Result{Err: err}
	}
	for _, it := range read {
		text, remembered := s.entries[it.Key].text, it.Remembered && it.Value != nil
		if s.item(it.Key).Version != it.Version || remembered && text != lease.Encode(it.Value) {
			return lease.Result{Outcome: backend.Refused}
		}
	}
	for _, p := range c.Put {
		text, writes := "", s.entries[p.Over.Key].writes+1
		if p.Value != nil {
			lease.SetWrite(p.Value, writes)
			text = lease.Encode(p.Value)
		}
		r.Items = append(r.Items, s.put(p.Over.Key, text, writes, p.Value != nil))
	}
	r.Outcome = backend.Granted
	return r
}

func (d *driver) List(ctx context.Context, kind lease.Kind, from string, limit int) (lease.View, error) {
	s := d.s
	s.mu.Lock()
	defer s.mu.Unlock()
	v := d.view()
	for k := range s.entries {
		if k.Kind == kind && k.Name >= from {
			v.Items = append(v.Items, d.item(k))
		}
	}
	slices.SortFunc(v.Items, func(a, b lease.Item) int { return strings.Compare(a.Name, b.Name) })
	v.Items = v.Items[:min(limit, len(v.Items))]
	return v, ctx.Err()
}

func (d *driver) Listen(
	ctx context.Context, position uint64, _ []lease.Item, on func([]lease.Item, uint64) bool,
) error {
	for {
		s := d.s
		s.mu.Lock()
		changed, at := s.changed, s.counter
		gap := position > at || position < s.logFrom
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
