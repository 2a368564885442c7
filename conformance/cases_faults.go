package conformance

import (
	"errors"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

// faultCases harm the store itself while managers use it, if the harness has functions
// for that. The checker looks for two leaders and for terms that decrease.
var faultCases = []Case{
	{Rule: "S1", Name: "one leader through a restart", run: throughFault, Fault: FaultRestart,
		Says: "A restart of the store never leads to two leaders, and afterwards there is exactly one."},
	{Rule: "S1", Name: "one leader through a pause", run: throughFault, Fault: FaultPause,
		Says: "A store that hangs never leads to two leaders, and afterwards there is exactly one."},
	{Rule: "S1", Name: "one leader through a cut", run: throughFault, Fault: FaultCut,
		Says: "A store that is cut off never leads to two leaders, and afterwards there is exactly one."},
	{Rule: "S1", Name: "one leader through a cut of answers", run: throughFault, Fault: FaultCutReplies,
		Says: "A store whose answers are lost never leads to two leaders. Afterwards there is exactly one."},
	{Rule: "S1", Name: "one leader through a failover", run: throughFault, Fault: FaultFailover,
		needs: []need{durableTerms},
		Says: "A failover, even one that loses the last writes, never leads to two leaders or to the same " +
			"term twice. Afterwards there is exactly one leader."},
	{Rule: "S1", Name: "one leader through a deleted record", run: throughFault, Fault: FaultDeleteRecord,
		Says: "Deleting the record during a leadership never leads to two leaders or to the same term " +
			"twice. Afterwards there is exactly one leader."},
}

func throughFault(t *Trial) {
	leader, others := t.startWithLeader(3, "jobs", nil)
	lasts := slices.Contains([]string{FaultPause, FaultCut, FaultCutReplies, FaultHide}, t.c.Fault)
	t.harmTwice(append(others, leader), [2]time.Duration{t.TTL / 2, 2 * t.TTL}, func(on bool) {
		if on || lasts {
			t.inject(t.c.Fault, on, "jobs")
		}
	})
}

// harmTwice begins harm and ends it after each of these times, and expects one leader afterwards.
func (t *Trial) harmTwice(members []*participant, lengths [2]time.Duration, harm func(on bool)) {
	reader := t.client("reader")
	for _, length := range lengths {
		t.sleep(t.TTL)
		harm(true)
		t.sleep(length)
		harm(false)

		// After a change of server or the loss of a record, a store may require
		// challengers to observe for longer than a TTL. ObserveFor says so.
		var observeFor time.Duration
		t.waitUntil(2*t.takeoverBound(), "an answer from the store", func() bool {
			l, err := reader.readQuickly("jobs")
			observeFor = max(l.ObserveFor, 0)
			return err == nil
		})
		t.waitForLeader(observeFor+2*t.takeoverBound(), members...)
		t.sleep(t.takeoverBound())
		t.waitForOneLeader(members...)
	}
}

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
	Case{Rule: "S1", Name: "another store grants nothing by what this one showed", run: elsewhereNothing,
		needs: []need{elsewhere},
		Says: "A renewal of a lease of this store, and a bid on what this store showed, are not granted " +
			"by another store, even by a copy of this one."},
	Case{Rule: "S1", Name: "one leader while the store hides its records", run: throughFault,
		Fault: FaultHide,
		Says:  "Rights that hide records never lead to two leaders, and afterwards there is exactly one."},
	Case{Rule: "G8", Name: "what is hidden is denied", run: generalHidden, Fault: FaultHide,
		Says: "Where rights hide the records, readings return ErrDenied and bids are not granted. A store " +
			"that hides is never read as an empty one."},
)

// ledElsewhereCases lead the leader or its followers to each kind of store.
func ledElsewhereCases() (cases []Case) {
	for _, store := range []otherStore{older, empty, inUse} {
		for _, who := range []string{"followers are", "the leader is"} {
			cases = append(cases, Case{
				Rule: "S1", Name: who + " led to " + string(store), needs: []need{elsewhere},
				run: ledElsewhere(who == "the leader is", store),
				Says: "If another store answers some managers for less than a TTL, two never lead at once, " +
					"and afterwards there is exactly one leader.",
			})
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

func ledElsewhere(leaders bool, store otherStore) func(*Trial) {
	return func(t *Trial) {
		first := t.client("first")
		leads := func() { first.release(backend.Released, first.win("jobs")) }
		if store == older {
			leads()
		}
		require(t.Store.Elsewhere(first.Backend, true)) // the other store is now as this one is
		if store == inUse {
			leads()
		}

		leader, others := t.startWithLeader(3, "jobs", nil)
		members := append(others, leader)

		stay := t.TTL * 3 / 4
		t.harmTwice(members, [2]time.Duration{stay, stay}, func(on bool) {
			for _, p := range members {
				if !on || p.Leading() == leaders {
					require(t.Store.Elsewhere(p.node.wire.Inner, on))
				}
			}
		})
	}
}

func elsewhereNothing(t *Trial) {
	holder, bidder := t.client("holder"), t.client("bidder")
	holder.release(backend.Released, holder.win("vacant"))
	held := holder.win("held")
	vacant := bidder.read("vacant")
	for _, c := range []*client{holder, bidder} {
		require(t.Store.Elsewhere(c.Backend, true))
	}

	ctx := t.callContext()
	renewed, _ := holder.Renew(ctx, []backend.Held{held.Held()}) // an error is as good as a refusal
	granted, _ := bidder.Acquire(ctx, []backend.Bid{bidder.bid(vacant)})
	for _, a := range append(renewed, granted...) {
		if a.Outcome == backend.Granted {
			t.violated("it granted %+v", a.Lease)
		}
	}
}

func generalHidden(t *Trial) {
	t.client("holder").win("jobs")
	t.inject(FaultHide, true, "")

	c := t.client("late")
	denied := []error{
		try(func() { c.read("jobs") }),
		try(func() { c.list("", 10) }),
		try(func() { c.members("", 10) }),
		try(func() { c.bidOn(zero("jobs")) }),
	}
	t.inject(FaultHide, false, "")

	for _, err := range denied {
		require(expect(errors.Is(err, backend.ErrDenied), err, "ErrDenied while the records are hidden"))
	}
	c.read("jobs")
}
