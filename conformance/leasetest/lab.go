package leasetest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/testrules"
)

// A lab is a store with a first client.
type lab struct {
	testrules.T
	*Harness
	ctx  context.Context // of all calls; its end fails the test of a driver that hangs
	open func(testing.TB) lease.Driver
	d    lease.Driver
}

func record(name string, term uint64) *lease.Record {
	r := &lease.Record{Election: name, Term: term, ID: "né <&>\n", Nonce: "0123"}
	r.Heartbeat, r.TTL = lease.Heartbeat(term), lease.Span(1500*time.Millisecond)
	return r
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
	v, err := d.Read(l.ctx, keys)
	l.Must(err == nil && len(v.Items) == len(keys) && v.Epoch != "",
		"a reading of %d keys: %d items, epoch %q, %v; want an item for each key, there or not",
		len(keys), len(v.Items), v.Epoch, err)
	for i, it := range v.Items {
		l.Must(it.Key == keys[i], "item %d is %v, want %v, in the order of keys", i, it.Key, keys[i])
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
	w, err := l.d.Write(l.ctx, l.read(l.d, key("epoch")).Epoch, 0, changes, nil)
	results := len(w.Results)
	l.Must(err == nil && results == len(changes), "%d changes, %d results: %v", len(changes), results, err)
	for i, r := range w.Results {
		puts := len(changes[i].Put)
		granted := r.Outcome == backend.Granted && len(r.Items) == puts
		l.Must(r.Err == nil && (granted || r.Outcome == backend.Refused),
			"change %d of %d puts: %+v; want it granted with an item for each, or refused", i, puts, r)
	}
	return w
}

// put makes one change and checks its outcome.
func (l *lab) put(want backend.Outcome, why string, c lease.Change) []lease.Item {
	l.Helper()
	r := l.write(c).Results[0]
	l.Must(r.Outcome == want, "%s: %v, want %v", why, r.Outcome, want)
	return r.Items
}

// created makes a record and returns it as it was written.
func (l *lab) created(name string, term uint64) lease.Item {
	l.Helper()
	it := l.put(backend.Granted, "a record that is not there", inTerm(none(key(name)), term))[0]
	it.Value = record(name, term)
	return it
}

// over is a change of one item.
func over(it lease.Item, v lease.Value) lease.Change {
	return lease.Change{Put: []lease.Put{{Over: it, Value: v}}}
}

// inTerm is a change of one record, which is then in a term.
func inTerm(it lease.Item, term uint64) lease.Change { return over(it, record(it.Name, term)) }

// together is a change of all that these change.
func together(changes ...lease.Change) (all lease.Change) {
	for _, c := range changes {
		all.Put = append(all.Put, c.Put...)
	}
	return all
}

// checking is a change that needs other items to be as they were.
func checking(c lease.Change, items ...lease.Item) lease.Change {
	c.Check = items
	return c
}

// terms fails the test unless the records of elections have these terms; 0: they are not there.
func (l *lab) terms(when string, want map[string]uint64) {
	l.Helper()
	for name, term := range want {
		got := l.term(name)
		l.Want(got == term, "the record of %s has term %d %s, want %d", name, got, when, term)
	}
}

// term returns the term of the record of an election; 0 if it is not there.
func (l *lab) term(name string) uint64 {
	l.Helper()
	return term(l.item(key(name)))
}

// term returns the term of an item; 0 if it is no record.
func term(it lease.Item) uint64 {
	r, _ := it.Value.(*lease.Record)
	return cmp.Or(r, &lease.Record{}).Term
}
