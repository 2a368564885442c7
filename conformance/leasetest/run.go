package leasetest

import (
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
	cannot := map[string]bool{goesBack: h.GoBack == nil, rollsBack: h.RollBack == nil, edits: h.Edit == nil}
	for _, r := range all {
		if !cannot[r.Name] {
			t.Run(r.Name, func(t *testing.T) { r.Test(h.lab(t)) })
		}
	}
}

// lab makes a new store.
func (h *Harness) lab(t testing.TB) *lab {
	open := h.NewStore(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return &lab{T: testrules.T{TB: t}, Harness: h, ctx: ctx, open: open, d: open(t)}
}

func written(l *lab) {
	a := l.item(key("a"))
	l.Want(a.Version == "" && a.Value == nil && a.Created == "", "what is not there: %+v", a)

	s := &lease.Session{ID: "x", Nonce: "0123", Generation: "g", Heartbeat: 7, At: time.Now().UTC().Round(0)}
	s.Apart = map[string]lease.Heartbeat{"b": 1<<63 + 1}
	m := &lease.Meta{Layout: lease.Layout, Made: 1, MaxTTL: lease.Span(time.Minute), Epoch: "e"}
	values := []lease.Value{record("a", 1), s, m}
	puts := l.put(backend.Granted, "a record, a session and the meta item",
		together(inTerm(a, 1), over(none(session), s), over(none(meta), m)))

	read := l.read(l.open(l), key("a"), meta, key("none"), session).Items
	for i, it := range []lease.Item{read[0], read[3], read[1]} {
		l.Must(it.Value != nil, "item %d is read without its value: %+v", i, it)
		lease.SetWrite(it.Value, 1)
		lease.SetWrite(values[i], 1)
		l.Want(lease.Encode(it.Value) == lease.Encode(values[i]),
			"value %d is read as %v, written was %v", i, it.Value, values[i])

		same := it.Version != "" && it.Version == puts[i].Version && it.Created == puts[i].Created
		l.Want(same && !it.Edited && !it.Old && it.Age <= time.Minute,
			"item %d is read as %+v, its write said %+v", i, it, puts[i])
	}
	l.Want(read[2].Version == "", "what is not there: %+v", read[2])
}

func conditional(l *lab) {
	first := l.created("a", 1)
	l.put(backend.Refused, "a second record over none", inTerm(none(key("a")), 2))
	second := l.put(backend.Granted, "a record over the first", inTerm(first, 3))[0]
	l.put(backend.Refused, "a late copy of that write", inTerm(first, 3))
	l.put(backend.Refused, "a deletion of the first", over(first, nil))
	l.put(backend.Refused, "a change that checks that it is not there",
		checking(inTerm(none(key("b")), 1), none(key("a"))))
	l.terms("after refused writes", map[string]uint64{"a": 3, "b": 0})

	l.put(backend.Granted, "a deletion", over(second, nil))
	l.put(backend.Refused, "a late copy of an earlier write", inTerm(first, 3))
	l.Want(l.item(key("a")).Version == "", "the record is there after its deletion")
}

func whole(l *lab) {
	a, b := l.created("a", 1), l.created("b", 1)
	l.put(backend.Granted, "a new version of b", inTerm(b, 2))
	l.put(backend.Refused, "three puts, one over a version that is gone",
		together(inTerm(a, 3), inTerm(b, 3), inTerm(none(key("c")), 3)))
	l.terms("after a refused change", map[string]uint64{"a": 1, "b": 2, "c": 0})

	l.put(backend.Refused, "a put that checks another item", checking(inTerm(a, 4), b))
	l.put(backend.Granted, "a put that checks another item as it is", checking(inTerm(a, 5), l.item(b.Key)))
	l.terms("after a granted change", map[string]uint64{"a": 5})
}

func eachByItself(l *lab) {
	var changes []lease.Change
	for i := range 100 {
		c := inTerm(none(key(fmt.Sprintf("e%03d", i))), 1)
		if i%7 == 3 { // refused: it is not there
			c.Check = []lease.Item{{Key: key("none"), Version: "1"}}
		}
		changes = append(changes, c)
	}
	for i, r := range l.write(changes...).Results {
		refused := i%7 == 3
		l.Must((r.Outcome == backend.Refused) == refused, "change %d: %v, refused: %v", i, r.Outcome, refused)
		term := l.term(fmt.Sprintf("e%03d", i))
		l.Want((term == 1) != refused, "change %d was %v, and its record has term %d", i, r.Outcome, term)
	}
}

func versions(l *lab) {
	seen, created := map[string]bool{}, map[string]bool{}
	it := none(key("a"))
	for round := range 12 {
		if round%4 == 3 {
			l.put(backend.Granted, "a deletion", over(it, nil))
			it = none(it.Key)
			continue
		}
		next := l.put(backend.Granted, "the same text again", inTerm(it, 1))[0]
		l.Must(next.Version != "" && !seen[next.Version], "version %q again in round %d", next.Version, round)
		l.Must(next.Order >= it.Order, "Order was %d, and %d in round %d", it.Order, next.Order, round)
		if it.Version != "" {
			l.Must(next.Created == it.Created, "Created %q was %q before a change", next.Created, it.Created)
		} else {
			again := next.Created != "" && created[next.Created]
			l.Must(!again, "Created %q comes again after a deletion in round %d", next.Created, round)
		}
		seen[next.Version], created[next.Created] = true, true
		it = next
	}
}

func otherEpoch(l *lab) {
	it := l.created("a", 1)
	w, err := l.d.Write(l.ctx, "other", 0, []lease.Change{inTerm(it, 2)}, nil)
	if err == nil && len(w.Results) == 1 {
		err = w.Results[0].Err
	}
	l.Want(errors.Is(err, lease.ErrEpoch) && errors.Is(err, backend.ErrUnavailable),
		"a write to another epoch: %v, want ErrEpoch", err)
	l.terms("after a write to another epoch", map[string]uint64{"a": 1})
}

func remembered(l *lab) {
	l.created("a", 1)
	it := l.item(key("a"))
	it.Remembered = true
	it = l.put(backend.Granted, "over a value that was remembered", inTerm(it, 2))[0]
	it.Value, it.Remembered = nil, true
	l.put(backend.Granted, "over a version that was remembered without its value", inTerm(it, 3))
}

func cancelled(l *lab) {
	it := l.created("a", 1)
	epoch := l.read(l.d, key("a")).Epoch
	ctx, cancel := context.WithCancel(l.ctx)
	cancel()
	_, err := l.d.Read(ctx, []lease.Key{key("a")})
	l.Want(err != nil, "a reading after its context has ended has no error")

	w, err := l.d.Write(ctx, epoch, 0, []lease.Change{inTerm(it, 2)}, nil)
	l.Want(err != nil || len(w.Results) != 1 || w.Results[0].Outcome == backend.Unknown,
		"a write after its context has ended: %v", w.Results)
}

func told(l *lab) {
	d, ok := l.open(l).(lease.Listener)
	if !ok {
		l.Skip("this store tells nobody")
	}
	it := l.created("a", 1)
	awaited := func(it lease.Item, term uint64) lease.Change {
		c := inTerm(it, term)
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
			l.Want(it.Order >= last[it.Name].Order && it.Order <= position,
				"%+v is told after %+v, up to %d", it, last[it.Name], position)
			last[it.Name] = it
		}
		heard <- true
		return len(items) > 0 && term(last["b"]) < 9
	}
	go func() {
		err := d.Listen(l.ctx, v.Position, v.Items, on)
		for err == nil && len(heard) == 0 && term(last["b"]) < 9 { // it cannot tell what came after that
			v := l.read(d.(lease.Driver), key("a"), key("b"))
			last["a"], last["b"] = v.Items[0], v.Items[1]
			err = d.Listen(l.ctx, v.Position, v.Items, on)
		}
		done <- err
	}()
	for n := uint64(2); n < 10; n++ {
		l.put(backend.Granted, "a change", awaited(l.item(key("b")), n))
	}
	err := <-done
	l.Must(err == nil, "Listen, which must tell of each change of a record: %v", err)
	l.Want(len(heard) > 0, "nothing was told after position %d; 0 means that there is none", v.Position)
	l.Want(len(last) == 0 || term(last["a"]) == 2, "the change before the call was not told")
}
