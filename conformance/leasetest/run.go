package leasetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/testrules"
)

// A Harness makes stores for Run.
type Harness struct {
	// NewStore makes an empty store and returns a function that opens another client of it. The
	// store and its clients are cleaned up with t.Cleanup.
	NewStore func(t testing.TB) (open func(testing.TB) lease.Driver)

	// GoBack remembers what the store that NewStore made last has, and returns a function that makes it that
	// again, as a restored copy does. nil: the store cannot be set back by a test, and its driver is not
	// asked whether it notices.
	GoBack func() (restore func())

	// RollBack changes an item of the store that NewStore made last in a transaction, as somebody else than
	// the driver, and rolls it back. nil: the store has no transactions that can be rolled back, or a test
	// cannot make them.
	RollBack func(k lease.Key)

	// Edit replaces the text of an item of the store that NewStore made last, as an operator does with the
	// store's own tools. "" deletes the item. nil: a test cannot do that.
	Edit func(k lease.Key, text string)
}

// Rules that only a harness with GoBack, RollBack or Edit can test.
const (
	goesBack  = "a store that went back is noticed"
	rollsBack = "a writer that rolls back changes nothing"
	edits     = "what somebody else writes is edited"
)

// all is what every driver must keep to, in the words of its contract.
var all = []testrules.Rule[*lab]{
	{Name: "what is written is read by all", Test: written},
	{Name: "a change needs what was read", Test: conditional},
	{Name: "a change is done as a whole or not at all", Test: whole},
	{Name: "each change is done by itself", Test: eachByItself},
	{Name: "names that only bytes tell apart are written together", Test: lookAlikes},
	{Name: "no version comes twice", Test: versions},
	{Name: edits, Test: editedByHand},
	{Name: "of two changes over the same items one wins, as a whole", Test: contended},
	{Name: "of two changes that check what the other puts one wins", Test: crossed},
	{Name: rollsBack, Test: besideRollBacks},
	{Name: "another epoch is refused", Test: otherEpoch},
	{Name: goesBack, Test: wentBack},
	{Name: "a remembered value is compared too", Test: remembered},
	{Name: "a list is in order of names, page by page", Test: listed},
	{Name: "an item grows older, or its age is unknown", Test: aged},
	{Name: "records are counted", Test: counted},
	{Name: "the largest change and value fit", Test: largest},
	{Name: "thousands of items are read and verified in one call", Test: thousands},
	{Name: "a call ends with its context", Test: cancelled},
	{Name: "a listener is told of every change", Test: told},
}

// Run runs what every driver must pass. It takes seconds; package conformance has the rest.
func Run(t *testing.T, h Harness) {
	for _, r := range all {
		if r.Name == goesBack && h.GoBack == nil || r.Name == rollsBack && h.RollBack == nil || r.Name == edits && h.Edit == nil {
			continue
		}
		t.Run(r.Name, func(t *testing.T) { r.Test(h.lab(t)) })
	}
}

// lab makes a new store.
func (h *Harness) lab(t testing.TB) *lab {
	open := h.NewStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &lab{TB: t, Harness: h, ctx: ctx, open: open, d: open(t)}
}

func written(l *lab) {
	if it := l.item(key("a")); it.Version != "" || it.Value != nil || it.Created != "" {
		l.Errorf("what is not there: %+v", it)
	}
	s := &lease.Session{ID: "x", Nonce: "0123", Generation: "g", Heartbeat: 7, Apart: map[string]lease.Heartbeat{"b": 1<<63 + 1}, At: time.Now().UTC().Round(0)}
	m := &lease.Meta{Layout: lease.Layout, Made: 1, MaxTTL: lease.Span(time.Minute), Epoch: "e"}
	puts := l.put(backend.Granted, "a record, a session and the meta item", lease.Change{Put: []lease.Put{
		{Over: none(key("a")), Value: record("a", 1)},
		{Over: none(session), Value: s},
		{Over: none(meta), Value: m}}})
	v := l.read(l.open(l), key("a"), meta, key("none"), session)
	for i, pair := range []struct {
		it   lease.Item
		want lease.Value
	}{{v.Items[0], record("a", 1)}, {v.Items[3], s}, {v.Items[1], m}} {
		it := pair.it
		if it.Value == nil {
			l.Fatalf("item %d is read without its value: %+v", i, it)
		}
		lease.SetWrite(it.Value, 1)
		lease.SetWrite(pair.want, 1)
		if lease.Encode(it.Value) != lease.Encode(pair.want) {
			l.Errorf("value %d is read as %v, written was %v", i, it.Value, pair.want)
		}
		if it.Version == "" || it.Version != puts[i].Version || it.Created != puts[i].Created || it.Edited || it.Old || it.Age > time.Minute {
			l.Errorf("item %d is read as %+v, its write said %+v", i, it, puts[i])
		}
	}
	if v.Items[2].Version != "" {
		l.Errorf("what is not there: %+v", v.Items[2])
	}
}

func conditional(l *lab) {
	first := l.created("a", 1)
	l.put(backend.Refused, "a second record over none", over(none(key("a")), record("a", 2)))
	second := l.put(backend.Granted, "a record over the first", over(first, record("a", 3)))[0]
	l.put(backend.Refused, "a late copy of that write", over(first, record("a", 3)))
	l.put(backend.Refused, "a deletion of the first", over(first, nil))
	l.put(backend.Refused, "a change that checks that it is not there", lease.Change{Check: []lease.Item{{Key: key("a")}},
		Put: []lease.Put{{Over: none(key("b")), Value: record("b", 1)}}})
	if term := l.term("a"); term != 3 || l.term("b") != 0 {
		l.Errorf("the record has term %d after refused writes, want 3", term)
	}
	l.put(backend.Granted, "a deletion", over(second, nil))
	l.put(backend.Refused, "a late copy of an earlier write", over(first, record("a", 3)))
	if l.item(key("a")).Version != "" {
		l.Error("the record is there after its deletion")
	}
}

func whole(l *lab) {
	a, b := l.created("a", 1), l.created("b", 1)
	l.put(backend.Granted, "a new version of b", over(b, record("b", 2)))
	l.put(backend.Refused, "two puts, one over a version that is gone", lease.Change{Put: []lease.Put{
		{Over: a, Value: record("a", 3)}, {Over: b, Value: record("b", 3)}, {Over: none(key("c")), Value: record("c", 3)}}})
	if l.term("a") != 1 || l.term("b") != 2 || l.term("c") != 0 {
		l.Errorf("terms %d, %d, %d after a refused change, want 1, 2, 0", l.term("a"), l.term("b"), l.term("c"))
	}
	l.put(backend.Refused, "a put that checks another item", lease.Change{Check: []lease.Item{b}, Put: []lease.Put{{Over: a, Value: record("a", 4)}}})
	l.put(backend.Granted, "a put that checks another item as it is", lease.Change{Check: []lease.Item{l.item(key("b"))}, Put: []lease.Put{{Over: a, Value: record("a", 5)}}})
	if l.term("a") != 5 {
		l.Errorf("term %d, want 5", l.term("a"))
	}
}

func eachByItself(l *lab) {
	var changes []lease.Change
	for i := range 100 {
		name := fmt.Sprintf("e%03d", i)
		c := over(none(key(name)), record(name, 1))
		if i%7 == 3 { // refused: it is not there
			c.Check = []lease.Item{{Key: key("none"), Version: "1"}}
		}
		changes = append(changes, c)
	}
	for i, r := range l.write(changes...).Results {
		if want := i%7 == 3; (r.Outcome == backend.Refused) != want {
			l.Fatalf("change %d: %v, refused should be %v", i, r.Outcome, want)
		}
		if (l.term(fmt.Sprintf("e%03d", i)) == 1) != (r.Outcome == backend.Granted) {
			l.Errorf("change %d was %v, and its record has term %d", i, r.Outcome, l.term(fmt.Sprintf("e%03d", i)))
		}
	}
}

func versions(l *lab) {
	seen, created := map[string]bool{}, map[string]bool{}
	it := lease.Item{Key: key("a")}
	for round := range 12 {
		if round%4 == 3 {
			l.put(backend.Granted, "a deletion", over(it, nil))
			it = lease.Item{Key: key("a")}
			continue
		}
		next := l.put(backend.Granted, "the same text again", over(it, record("a", 1)))[0]
		switch {
		case next.Version == "" || seen[next.Version]:
			l.Fatalf("version %q comes again in round %d", next.Version, round)
		case it.Version != "" && next.Created != it.Created:
			l.Fatalf("Created was %q, and %q after a change in round %d", it.Created, next.Created, round)
		case it.Version == "" && created[next.Created] && next.Created != "":
			l.Fatalf("Created %q comes again after a deletion in round %d", next.Created, round)
		case it.Order > next.Order:
			l.Fatalf("Order was %d, and %d after a change in round %d", it.Order, next.Order, round)
		}
		seen[next.Version], created[next.Created] = true, true
		it = next
	}
}

func otherEpoch(l *lab) {
	it := l.created("a", 1)
	w, err := l.d.Write(l.Context(), "other", 0, []lease.Change{over(it, record("a", 2))}, nil)
	if err == nil && len(w.Results) == 1 {
		err = w.Results[0].Err
	}
	if !errors.Is(err, lease.ErrEpoch) || !errors.Is(err, backend.ErrUnavailable) {
		l.Errorf("a write to another epoch: %v, want ErrEpoch", err)
	}
	if l.term("a") != 1 {
		l.Error("it was written all the same")
	}
}

func remembered(l *lab) {
	l.created("a", 1)
	it := l.item(key("a"))
	it.Remembered = true
	it = l.put(backend.Granted, "over a value that was remembered", over(it, record("a", 2)))[0]
	it.Value, it.Remembered = nil, true
	l.put(backend.Granted, "over a version that was remembered without its value", over(it, record("a", 3)))
}

func cancelled(l *lab) {
	it := l.created("a", 1)
	epoch := l.read(l.d, key("a")).Epoch
	ctx, cancel := context.WithCancel(l.Context())
	cancel()
	if _, err := l.d.Read(ctx, []lease.Key{key("a")}); err == nil {
		l.Error("a reading after its context has ended has no error")
	}
	w, err := l.d.Write(ctx, epoch, 0, []lease.Change{over(it, record("a", 2))}, nil)
	if err == nil && len(w.Results) == 1 && w.Results[0].Outcome != backend.Unknown {
		l.Errorf("a write after its context has ended: %v", w.Results)
	}
}

// term returns the term of an item; 0 if it is no record.
func term(it lease.Item) uint64 {
	r, _ := it.Value.(*lease.Record)
	return cmp.Or(r, &lease.Record{}).Term
}

func told(l *lab) {
	d, ok := l.open(l).(lease.Listener)
	if !ok {
		l.Skip("this store tells nobody")
	}
	it := l.created("a", 1)
	awaited := func(it lease.Item, term uint64) lease.Change {
		c := over(it, record(it.Name, term))
		c.Notify = true
		return c
	}
	v := l.read(d.(lease.Driver), key("a"), key("b"))
	l.put(backend.Granted, "a change between the reading and the call", awaited(it, 2))
	l.created("b", 1)
	last := map[string]lease.Item{}
	done := make(chan error, 1)
	heard := make(chan bool, 1000)
	on := func(items []lease.Item, position uint64) (more bool) {
		for _, it := range items {
			if it.Order < last[it.Name].Order || it.Order > position {
				l.Errorf("%+v is told after %+v, up to %d", it, last[it.Name], position)
			}
			last[it.Name] = it
		}
		heard <- true
		return len(items) > 0 && term(last["b"]) < 9
	}
	go func() {
		err := d.Listen(l.Context(), v.Position, v.Items, on)
		for err == nil && len(heard) == 0 && term(last["b"]) < 9 { // it could not tell what came after the position
			v := l.read(d.(lease.Driver), key("a"), key("b"))
			last["a"], last["b"] = v.Items[0], v.Items[1]
			err = d.Listen(l.Context(), v.Position, v.Items, on)
		}
		done <- err
	}()
	for n := uint64(2); n < 10; n++ {
		l.put(backend.Granted, "a change", awaited(l.item(key("b")), n))
	}
	if err := <-done; err != nil {
		l.Fatalf("Listen, which must tell of each change of a record: %v", err)
	}
	if len(heard) == 0 {
		l.Errorf("nothing was told after position %d; 0 means that there is none", v.Position)
	}
	if len(last) > 0 && term(last["a"]) != 2 {
		l.Error("the change before the call was not told")
	}
}
