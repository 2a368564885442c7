package conformance

import (
	"math"
	"time"

	"github.com/go-election/go-election/backend"
)

// The checker tests S4 and S5 in every manager case, too.
var termCases = []Case{
	{Rule: "S4", Name: "terms grow through a thousand leaderships", calls: termsGrow,
		Says: "Each grant has a term greater than all earlier ones, through releases. The first is about " +
			"the time in microseconds since 1970, so that terms grow when an election moves."},
	{Rule: "S4", Name: "terms exceed MinTerm", calls: termsMinTerm,
		Says: "The term of a grant exceeds Bid.MinTerm, and the next term exceeds that one."},
	{Rule: "S4", Name: "terms grow through a deleted record", calls: termsThrough(3),
		Fault: FaultDeleteRecord,
		Says: "Each grant has a term greater than all earlier ones, through deleted records, and at most a " +
			"day ahead of the clock. The lease of a deleted record is not renewed."},
	{Rule: "S4", Name: "terms grow through a failover", calls: termsThrough(1), Fault: FaultFailover,
		Says: "Each grant has a term greater than all earlier ones, through a failover that loses the last " +
			"writes, and at most a day ahead of the clock. Another server renews no lease."},
}

// checkTermGrows checks that the term of a grant exceeds the last one, and is not more than a day ahead of
// the clock unless that one was.
func (t *Trial) checkTermGrows(last *uint64, l backend.Lease) {
	if l.Term <= *last {
		t.violated("expected a term above %d, got %d", *last, l.Term)
	}
	if l.Term > math.MaxInt64 {
		fail("expected a term of at most 63 bits, got %d", l.Term)
	}
	const most = 25 * time.Hour // clocks may differ
	if far := uint64(time.Now().Add(most).UnixMicro()); l.Term > far && *last < far {
		fail("expected a term at most a day ahead of the clock, got %d, which is %v ahead", l.Term, ahead(l))
	}
	*last = l.Term
}

// ahead is how far a term is ahead of the clock.
func ahead(l backend.Lease) time.Duration { return time.Until(time.UnixMicro(int64(l.Term))) }

func termsGrow(t *Trial, a, b *client) {
	clients := []*client{a, b, t.client("c")}
	var last uint64
	for i := range t.scaledCount(1000) {
		c := clients[i%3]
		held := c.win("jobs")
		if off := ahead(held); last == 0 && off.Abs() > time.Hour {
			fail("expected the first term to be about the time, got %d, which differs by %v", held.Term, off)
		}
		t.checkTermGrows(&last, held)
		c.release(backend.Released, held)
		now := c.read("jobs")
		require(equal(now.Term, last, "term of the vacant record"))
	}
}

func termsMinTerm(t *Trial, a, _ *client) {
	held := a.win("jobs")
	last := held.Term
	a.release(backend.Released, held)

	minTerm := last + 1_000_000_000_000_000
	held = a.winWith("jobs", func(b *backend.Bid) { b.MinTerm = minTerm })
	last = minTerm
	t.checkTermGrows(&last, held)

	a.release(backend.Released, held)
	held = a.win("jobs") // without a MinTerm
	t.checkTermGrows(&last, held)
}

// termsThrough wins an election between some faults and after the last one.
func termsThrough(times int) func(t *Trial, a, b *client) {
	return func(t *Trial, a, _ *client) {
		var last uint64
		for range times {
			held := a.win("jobs")
			t.checkTermGrows(&last, held)
			t.inject(t.c.Fault, true, "jobs")

			// A server may start slowly.
			answers := func() bool { return failure(a.readQuickly("jobs")) == nil }
			t.waitUntil(20*t.TTL, "an answer after the fault", answers)
			a.cannotKeep("after the fault "+t.c.Fault, held)
		}
		t.checkTermGrows(&last, t.client("c").win("jobs"))
	}
}
