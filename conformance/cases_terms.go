package conformance

import (
	"math"
	"time"

	"github.com/go-election/go-election/backend"
)

// The checker tests S4 and S5 in every manager case, too.
var termCases = []Case{
	{Rule: "S4", Name: "terms grow through a thousand leaderships", Run: termsGrow,
		Says: "Each grant has a term greater than all earlier terms of that election, through releases and elections. The first one is about the time in microseconds since 1970, so that terms grow when an election moves to another store."},
	{Rule: "S4", Name: "terms exceed MinTerm", Run: termsMinTerm,
		Says: "The term of a grant exceeds Bid.MinTerm, and the next term exceeds that one."},
	{Rule: "S4", Name: "terms grow through a deleted record", Run: termsThrough(FaultDeleteRecord, 3), Fault: FaultDeleteRecord,
		Says: "Each grant has a term greater than all earlier terms of that election, through deleted records, and at most a day ahead of the clock. The lease of a deleted record is not renewed."},
	{Rule: "S4", Name: "terms grow through a failover", Run: termsThrough(FaultFailover, 1), Fault: FaultFailover,
		Says: "Each grant has a term greater than all earlier terms of that election, through a failover that loses the last writes, and at most a day ahead of the clock. A lease is not renewed by another server."},
}

// checkTermGrows checks that the term of a grant exceeds the last one, and is not more than a day ahead of
// the clock unless that one was.
func checkTermGrows(last *uint64, l backend.Lease) {
	if l.Term <= *last {
		require(violation("S4", "each grant's term exceeds all earlier ones", "expected a term above %d, got %d", *last, l.Term))
	}
	if l.Term > math.MaxInt64 {
		fail("expected a term of at most 63 bits, got %d", l.Term)
	}
	const most = 25 * time.Hour // clocks may differ
	if far := uint64(time.Now().Add(most).UnixMicro()); l.Term > far && *last < far {
		fail("expected a term at most a day ahead of the clock, got %d, which is %v ahead", l.Term, time.Until(time.UnixMicro(int64(l.Term))))
	}
	*last = l.Term
}

func termsGrow(t *Trial) {
	clients := []*client{t.client("a"), t.client("b"), t.client("c")}
	var last uint64
	for i := range t.scaledCount(1000) {
		c := clients[i%3]
		held := c.win("jobs")
		if off := time.Until(time.UnixMicro(int64(held.Term))); last == 0 && off.Abs() > time.Hour {
			fail("expected the first term to be about the current time, got %d, which differs by %v", held.Term, off)
		}
		checkTermGrows(&last, held)
		c.release(backend.Released, held)
		now := c.read("jobs")
		require(equal("term of the vacant record", now.Term, last))
	}
}

func termsMinTerm(t *Trial) {
	a := t.client("a")
	held := a.win("jobs")
	last := held.Term
	a.release(backend.Released, held)

	minTerm := last + 1_000_000_000_000_000
	held = a.winWith("jobs", func(b *backend.Bid) { b.MinTerm = minTerm })
	last = minTerm
	checkTermGrows(&last, held)

	a.release(backend.Released, held)
	held = a.win("jobs") // without a MinTerm
	checkTermGrows(&last, held)
}

// termsThrough wins an election between some faults and after the last one.
func termsThrough(fault string, times int) func(*Trial) {
	return func(t *Trial) {
		a := t.client("a")
		var last uint64
		for range times {
			held := a.win("jobs")
			checkTermGrows(&last, held)
			t.inject(fault, true, "jobs")

			// A server may start slowly.
			t.waitUntil(20*t.TTL, "an answer after the fault", func() bool { _, err := a.readQuickly("jobs"); return err == nil })
			a.cannotKeep("after the fault "+fault, held)
		}
		checkTermGrows(&last, t.client("b").win("jobs"))
	}
}
