package conformance

import (
	"errors"
	"time"

	"github.com/go-election/go-election/backend"
)

// placeCases lead clients to another store for a while and back, as a pooler, a proxy or a name
// that is resolved anew may.
//
// What can be promised there? Two stores are two elections of one name. A process that has only
// ever read the other store cannot know of this one, and leads there. So a backend settles once
// which place is meant, and names it in every request. These cases are about what is left: the
// clients know this store, and all the same the other one answers.
//
// Then the other store must show another identity, and the one who sees that believes nothing that
// it shows: a lease is not renewed there, a bid on what this store showed is refused there, and what
// looks free is watched for the greatest TTL. So nobody who returns within a TTL, and reads this
// store then, has led elsewhere. Who stays for longer is a member of the other store, and nothing can
// prevent that it leads there: the promise ends where the stay is as long as the watch.
var placeCases = append(ledElsewhereCases(),
	Case{Rule: "S1", Name: "another store grants nothing by what this one showed", Run: elsewhereNothing, skip: needsElsewhere,
		Says: "A renewal of a lease of this store, and a bid on what this store showed, are not granted by another store, even by a copy of this one."},
	Case{Rule: "S1", Name: "one leader while the store hides its records", Run: throughFault(FaultHide, ""), Fault: FaultHide,
		Says: "Rights that hide the records for a while never lead to two leaders, and afterwards there is exactly one."},
	Case{Rule: "G8", Name: "what is hidden is denied", Run: generalHidden, Fault: FaultHide,
		Says: "Where rights hide the records, readings return ErrDenied and bids are not granted. A store that hides is never read as an empty one."},
)

// ledElsewhereCases lead the leader or its followers to each kind of store.
func ledElsewhereCases() (cases []Case) {
	for _, store := range []otherStore{older, empty, inUse} {
		for _, who := range []string{"followers are", "the leader is"} {
			cases = append(cases, Case{Rule: "S1", Name: who + " led to " + string(store), Run: ledElsewhere(who == "the leader is", store), skip: needsElsewhere,
				Says: "If another store answers some managers for less than a TTL, two never lead at once, and afterwards there is exactly one leader."})
		}
	}
	return cases
}

// An otherStore is what a client meets elsewhere.
type otherStore string

const (
	older otherStore = "an older store" // the election was vacant then
	empty otherStore = "an empty store"
	inUse otherStore = "a store in use" // somebody has led the election there, too
)

func needsElsewhere(f facts) string {
	if f.store.Elsewhere == nil {
		return "the harness cannot lead a client to another store (Store.Elsewhere)"
	}
	return ""
}

func ledElsewhere(leaders bool, store otherStore) func(*Trial) error {
	return func(t *Trial) error {
		first := t.client("first")
		leads := func() error {
			l, err := first.win("jobs")
			if err == nil {
				err = first.release(backend.Released, l)
			}
			return err
		}
		if store == older {
			if err := leads(); err != nil {
				return err
			}
		}
		if err := t.elsewhere(first.Backend, true); err != nil { // the other store is now as this one is
			return err
		}
		if store == inUse {
			if err := leads(); err != nil {
				return err
			}
		}
		leader, others, err := t.startWithLeader(3, "jobs", nil)
		if err != nil {
			return err
		}
		members := append(others, leader)
		stay := t.TTL * 3 / 4
		return t.harmTwice("a stay elsewhere", members, [2]time.Duration{stay, stay}, func(on bool) error {
			var errs []error
			for _, p := range members {
				if !on || p.Leading() == leaders {
					errs = append(errs, t.elsewhere(p.node.wire.inner, on))
				}
			}
			return errors.Join(errs...)
		})
	}
}

// elsewhere leads a client to the other store, or back.
func (t *Trial) elsewhere(b backend.Backend, on bool) error {
	return t.Store.Elsewhere(b, on)
}

func elsewhereNothing(t *Trial) error {
	holder, bidder := t.client("holder"), t.client("bidder")
	l, err := holder.win("vacant")
	if err != nil {
		return err
	}
	if err := holder.release(backend.Released, l); err != nil {
		return err
	}
	held, err := holder.win("held")
	if err != nil {
		return err
	}
	vacant, err := bidder.read("vacant")
	if err != nil {
		return err
	}
	for _, c := range []*client{holder, bidder} {
		if err := t.elsewhere(c.Backend, true); err != nil {
			return err
		}
	}

	ctx, cancel := t.callContext()
	defer cancel()
	renewed, _ := holder.Renew(ctx, []backend.Held{held.Held()}) // an error is as good as a refusal
	granted, _ := bidder.Acquire(ctx, []backend.Bid{bidder.bid(vacant)})
	var errs []error
	for _, a := range append(renewed, granted...) {
		errs = append(errs, expect(a.Outcome != backend.Granted, "nothing granted by another store", a))
	}
	return errors.Join(errs...)
}

func generalHidden(t *Trial) error {
	if _, err := t.client("holder").win("jobs"); err != nil {
		return err
	}
	if err := t.inject(FaultHide, true, ""); err != nil {
		return err
	}
	c := t.client("late")
	_, observed := c.read("jobs")
	_, listed := c.list("", 10)
	_, members := c.members("", 10)
	ctx, cancel := t.callContext()
	defer cancel()
	answers, acquired := c.Acquire(ctx, []backend.Bid{c.bid(backend.Lease{Election: "jobs"})})
	if err := t.inject(FaultHide, false, ""); err != nil {
		return err
	}
	_, afterwards := c.read("jobs")
	errs := []error{afterwards}
	for _, err := range []error{observed, listed, members, acquired} {
		errs = append(errs, expect(errors.Is(err, backend.ErrDenied), "ErrDenied while the records are hidden", err))
	}
	for _, a := range answers {
		errs = append(errs, expect(a.Outcome != backend.Granted, "no grant while the records are hidden", a))
	}
	return errors.Join(errs...)
}
