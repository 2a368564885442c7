package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A driver keeps the items of package lease in the document of a register. It implements [lease.Driver].
type driver struct {
	Register
	limits  Limits
	writing chan struct{} // held while changes are made, so that calls of one process do not collide

	mu       sync.Mutex
	newest   *document // that was read or written; nil: none
	wentBack int
	oldUpTo  uint64 // items up to this count are from before the store went back
}

// NewDriver returns the driver of New.
func NewDriver(r Register, limits Limits) lease.Driver {
	d := &driver{Register: r, limits: limits, writing: make(chan struct{}, 1)}
	if w, ok := r.(Waiter); ok {
		return listener{d, w}
	}
	return d
}

// Limits implements [lease.Driver]. The last eighth of the value is for renewals.
func (d *driver) Limits() lease.Limits {
	return lease.Limits{Name: d.limits.Name, MinTTL: d.limits.MinTTL, MaxTTL: d.limits.MaxTTL,
		Batch: 100, Checks: 99, MaxValue: d.limits.MaxBytes / 8}
}

// A reading is a document as this process sees it.
type reading struct {
	*document
	version  string // of the value
	wentBack int
	oldUpTo  uint64
}

// get reads the document, and makes one if there is no value. Some stores take none where one was deleted.
func (d *driver) get(ctx context.Context) (r reading, err error) {
	for range 3 {
		d.mu.Lock()
		before, wentBack := d.newest, d.wentBack
		d.mu.Unlock()

		value, version, err := d.Get(ctx)
		if err == nil && version == "" {
			first := document{Epoch: newTag(), Items: map[string]entry{}}
			_, err = d.Swap(ctx, "", []byte(lease.Encode(first.next())))
			if err == nil || errors.Is(err, ErrChanged) {
				continue // whoever has made it
			}
		}
		if err != nil {
			return r, err
		}
		doc, err := decode(value)
		if err == nil {
			r, err = d.note(doc, before, wentBack)
			r.version = version
		}
		return r, err
	}
	return r, fmt.Errorf("%w: the store says that there is no value, and takes none", backend.ErrUnavailable)
}

// note remembers a document. It compares it with what was known when its reading began: before, and wentBack.
func (d *driver) note(doc, before *document, wentBack int) (r reading, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wentBack != wentBack {
		return r, lease.ErrEpoch // the answer may be from before that
	}
	switch {
	case before == nil || before.Epoch != doc.Epoch: // there is nothing to compare
		if d.newest == before {
			d.newest, d.oldUpTo = doc, 0
		}
	case !doc.follows(before):
		d.newest, d.oldUpTo = doc, doc.Count
		d.wentBack++
	case doc.Epoch == d.newest.Epoch && doc.Count > d.newest.Count:
		d.newest = doc
	}
	return reading{document: doc, wentBack: d.wentBack, oldUpTo: d.oldUpTo}, nil
}

// view returns what Driver.Read returns of these items.
func (r *reading) view(keys []lease.Key) lease.View {
	v := lease.View{Epoch: r.Epoch, WentBack: r.wentBack, Position: r.Count}
	v.Records = int64(len(r.keys(lease.Records)))
	for _, k := range keys {
		it := r.item(k)
		if e, ok := r.Items[keyOf(k)]; ok {
			it.Value, it.Edited = lease.Decode(k.Kind, e.Value), e.Sum != e.sum(keyOf(k))
			it.Old = e.Count <= r.oldUpTo
		}
		v.Items = append(v.Items, it)
	}
	return v
}

func (d *driver) Read(ctx context.Context, keys []lease.Key) (v lease.View, err error) {
	r, err := d.get(ctx)
	if err == nil {
		v = r.view(keys)
	}
	return v, err
}

func (d *driver) List(ctx context.Context, kind lease.Kind, from string, most int) (v lease.View, err error) {
	r, err := d.get(ctx)
	if err != nil {
		return v, err
	}
	keys := slices.DeleteFunc(r.keys(kind), func(k lease.Key) bool { return k.Name < from })
	slices.SortFunc(keys, func(a, b lease.Key) int { return strings.Compare(a.Name, b.Name) })
	return r.view(keys[:min(most, len(keys))]), nil
}

// Write implements [lease.Driver]. All changes that hold are one swap.
func (d *driver) Write(
	ctx context.Context, epoch string, wentBack int, changes []lease.Change, verify []lease.Item,
) (w lease.Written, err error) {
	select {
	case d.writing <- struct{}{}:
		defer func() { <-d.writing }()
	case <-ctx.Done():
		return w, ctx.Err()
	}
	var next *document // of the attempt before
	for round := 0; ; round++ {
		began := time.Now()
		r, err := d.get(ctx)
		switch {
		case err != nil:
			return lease.Written{}, err
		case r.Epoch != epoch || r.wentBack != wentBack:
			return lease.Written{}, lease.ErrEpoch
		case next != nil && r.document.contains(next.Tag):
			return w, nil // it was made, though the answer was ErrChanged
		}
		next, w = r.next(), lease.Written{}
		granted := false
		for i := range changes {
			result := next.apply(&changes[i])
			w.Results = append(w.Results, result)
			granted = granted || result.Outcome == backend.Granted
		}
		for n, it := range verify {
			if !next.has(it) {
				w.Stale = append(w.Stale, n)
			}
		}
		if granted {
			err = d.swap(ctx, &r, next)
		}
		if err == nil {
			return w, nil
		}
		if !errors.Is(err, ErrChanged) {
			return lease.Written{}, err
		}
		select { // processes that have collided do not do so again
		case <-time.After(rand.N(max(time.Since(began), time.Millisecond) << min(round, 4))):
		case <-ctx.Done():
			return lease.Written{}, fmt.Errorf("%w, after %d swaps that met another's", ctx.Err(), round+1)
		}
	}
}

// swap replaces a document by the next one. The last eighth of the greatest size is for items that are there.
func (d *driver) swap(ctx context.Context, r *reading, next *document) error {
	value, most := []byte(lease.Encode(next)), d.limits.MaxBytes
	if len(next.Items) > len(r.Items) {
		most -= most / 8
	}
	if len(value) > most {
		return fmt.Errorf("%w: the value would have %d bytes, %d are allowed: delete elections that are"+
			" over, or move some to another place", backend.ErrDenied, len(value), most)
	}
	_, err := d.Swap(ctx, r.version, value)
	if err == nil {
		_, err = d.note(next, r.document, r.wentBack)
	}
	return err
}

// A listener is a driver whose register tells of changes. It implements [lease.Listener].
type listener struct {
	*driver
	waiter Waiter
}

// Listen implements [lease.Listener]: it says that a record has changed, and not which.
func (l listener) Listen(ctx context.Context, position uint64, known []lease.Item, on lease.Heard) error {
	for position > 0 {
		r, err := l.get(ctx)
		if err != nil || r.Count < position {
			return err
		}
		written := func(k lease.Key) bool { return r.Items[keyOf(k)].Count > position }
		gone := func(it lease.Item) bool { return it.Kind == lease.Records && !r.has(it) }
		if slices.ContainsFunc(r.keys(lease.Records), written) || slices.ContainsFunc(known, gone) {
			on(nil, r.Count)
			return nil
		}
		if err := l.waiter.Wait(ctx, r.version); err != nil {
			return err
		}
	}
	return nil
}
