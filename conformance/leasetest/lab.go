package leasetest

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// A lab is a store with a first client.
type lab struct {
	testing.TB
	*Harness
	ctx  context.Context
	open func(testing.TB) lease.Driver
	d    lease.Driver
}

// Context returns a context whose end fails the test of a driver that hangs.
func (l *lab) Context() context.Context { return l.ctx }

func record(name string, term uint64) *lease.Record {
	return &lease.Record{Election: name, Term: term, Heartbeat: lease.Heartbeat(term), ID: "né <&>\n", Nonce: "0123", TTL: lease.Span(1500 * time.Millisecond)}
}

func key(name string) lease.Key { return lease.Key{Kind: lease.Records, Name: name} }

// The keys of the session and the meta item of most tests.
var (
	session = lease.Key{Kind: lease.Sessions, Name: "0123"}
	meta    = lease.Key{Kind: lease.Metas}
)

// none is an item that is not there.
func none(k lease.Key) lease.Item { return lease.Item{Key: k} }

// read reads items with a client.
func (l *lab) read(d lease.Driver, keys ...lease.Key) lease.View {
	l.Helper()
	v, err := d.Read(l.Context(), keys)
	if err != nil || len(v.Items) != len(keys) || v.Epoch == "" {
		l.Fatalf("a reading of %d keys: %d items, epoch %q, %v; want an item for each key, there or not", len(keys), len(v.Items), v.Epoch, err)
	}
	for i, it := range v.Items {
		if it.Key != keys[i] {
			l.Fatalf("item %d is %v, want %v: items are in the order of keys", i, it.Key, keys[i])
		}
	}
	return v
}

// item reads one item.
func (l *lab) item(k lease.Key) lease.Item {
	l.Helper()
	return l.read(l.d, k).Items[0]
}

// write makes changes in the present epoch and returns their outcomes.
func (l *lab) write(changes ...lease.Change) lease.Written {
	l.Helper()
	w, err := l.d.Write(l.Context(), l.read(l.d, key("epoch")).Epoch, 0, changes, nil)
	if err != nil || len(w.Results) != len(changes) {
		l.Fatalf("%d changes have %d results: %v", len(changes), len(w.Results), err)
	}
	for i, r := range w.Results {
		if r.Outcome == backend.Unknown || r.Err != nil || r.Outcome == backend.Granted && len(r.Items) != len(changes[i].Put) {
			l.Fatalf("change %d: %v, %d items for %d puts, %v; want it granted with an item for each, or refused", i, r.Outcome, len(r.Items), len(changes[i].Put), r.Err)
		}
	}
	return w
}

// put makes one change and checks its outcome.
func (l *lab) put(want backend.Outcome, why string, c lease.Change) []lease.Item {
	l.Helper()
	r := l.write(c).Results[0]
	if r.Outcome != want {
		l.Fatalf("%s: %v, want %v", why, r.Outcome, want)
	}
	return r.Items
}

// created makes a record and returns it as it was written.
func (l *lab) created(name string, term uint64) lease.Item {
	l.Helper()
	it := l.put(backend.Granted, "a record that is not there", over(none(key(name)), record(name, term)))[0]
	it.Value = record(name, term)
	return it
}

// over is a change of one item.
func over(it lease.Item, v lease.Value) lease.Change {
	return lease.Change{Put: []lease.Put{{Over: it, Value: v}}}
}

// term returns the term of the record of an election; 0 if it is not there.
func (l *lab) term(name string) uint64 {
	l.Helper()
	r, _ := l.item(key(name)).Value.(*lease.Record)
	if r == nil {
		return 0
	}
	return r.Term
}
