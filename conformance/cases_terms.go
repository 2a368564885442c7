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
	{Rule: "S4", Name: "terms grow through a deleted record", Run: termsDeleted, Fault: FaultDeleteRecord,
		Says: "Each grant has a term greater than all earlier terms of that election, through deleted records, and at most a day ahead of the clock. The lease of a deleted record is not renewed."},
	{Rule: "S4", Name: "terms grow through a restart", Run: termsRestart, Fault: FaultRestart,
		Says: "Each grant has a term greater than all earlier terms of that election, through restarts of the store, and at most a day ahead of the clock."},
	{Rule: "S4", Name: "terms grow through a failover", Run: termsFailover, Fault: FaultFailover,
		Says: "Each grant has a term greater than all earlier terms of that election, through a failover that loses the last writes, and at most a day ahead of the clock."},
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

func termsDeleted(t *Trial) {
	a := t.client("a")
	var last uint64
	for range 3 {
		held := a.win("jobs")
		checkTermGrows(&last, held)
		t.inject(FaultDeleteRecord, true, "jobs")
		a.cannotKeep("after its record was deleted", held)
	}
}

func termsRestart(t *Trial) {
	a := t.client("a")
	var last uint64
	for i := range 3 {
		held := a.win("jobs")
		checkTermGrows(&last, held)
		if i == 1 {
			a.release(backend.Released, held)
		}
		t.inject(FaultRestart, true, "")
		// A server may start slowly.
		t.waitUntil(20*t.TTL, "an answer from the restarted store", func() bool { _, err := a.readQuickly("jobs"); return err == nil })
	}
}

func termsFailover(t *Trial) {
	a := t.client("a")
	held := a.win("jobs")
	last := held.Term
	t.inject(FaultFailover, true, "")
	t.waitUntil(4*t.TTL, "an answer after the failover", func() bool { _, err := a.readQuickly("jobs"); return err == nil })
	a.cannotKeep("after the failover to another server", held)
	held = t.client("b").win("jobs")
	checkTermGrows(&last, held)
}
