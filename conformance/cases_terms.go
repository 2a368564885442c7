package conformance

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-election/go-election/backend"
)

// The checker tests S4 and S5 in every manager case, too.
var termCases = []Case{
	{Rule: "S4", Name: "terms grow through a thousand leaderships", Run: termsGrow,
		Says: "Each grant has a term greater than all earlier terms of that election, through releases and elections."},
	{Rule: "S4", Name: "terms grow through expiry", Run: termsExpiry,
		Says: "Each grant has a term greater than all earlier terms of that election, through expiry."},
	{Rule: "S4", Name: "terms exceed MinTerm", Run: termsMinTerm,
		Says: "The term of a grant exceeds Bid.MinTerm, and the next term exceeds that one."},
	{Rule: "S4", Name: "a first term comes from the clock", Run: termsFirst,
		Says: "The first term of an election in a new store is about the time in microseconds since 1970. So terms grow when an election moves to another store."},
	{Rule: "S4", Name: "terms grow through a deleted record", Run: termsDeleted, Fault: FaultDeleteRecord,
		Says: "Each grant has a term greater than all earlier terms of that election, through deleted records, and at most a day ahead of the clock."},
	{Rule: "S4", Name: "terms grow through a restart", Run: termsRestart, Fault: FaultRestart,
		Says: "Each grant has a term greater than all earlier terms of that election, through restarts of the store, and at most a day ahead of the clock."},
	{Rule: "S4", Name: "terms grow through a failover", Run: termsFailover, Fault: FaultFailover,
		Says: "Each grant has a term greater than all earlier terms of that election, through a failover that loses the last writes, and at most a day ahead of the clock."},
	{Rule: "S5", Name: "each election has its own terms", Run: termsSeparate,
		Says: "A leadership in one election changes neither term nor heartbeat of another."},
}

// checkTermGrows checks that the term of a grant exceeds the last one, and is not more than a day ahead of
// the clock unless that one was.
func checkTermGrows(last *uint64, l backend.Lease) error {
	defer func() { *last = l.Term }()
	if l.Term <= *last {
		return violation("S4", "each grant's term exceeds all earlier ones", "expected a term above %d, got %d", *last, l.Term)
	}
	if l.Term > math.MaxInt64 {
		return fmt.Errorf("expected a term of at most 63 bits, got %d", l.Term)
	}
	const most = 25 * time.Hour // clocks may differ
	if far := uint64(time.Now().Add(most).UnixMicro()); l.Term > far && *last < far {
		return fmt.Errorf("expected a term at most a day ahead of the clock, got %d, which is %v ahead", l.Term, time.Until(time.UnixMicro(int64(l.Term))))
	}
	return nil
}

func termsGrow(t *Trial) error {
	clients := []*client{t.client("a"), t.client("b"), t.client("c")}
	var last uint64
	for i := range t.scaledCount(1000) {
		c := clients[i%3]
		held := must(c.win("jobs"))
		if err := checkTermGrows(&last, held); err != nil {
			return fmt.Errorf("leadership %d: %w", i+1, err)
		}
		require(c.release(backend.Released, held))
		now := must(c.read("jobs"))
		require(equal("term of the vacant record", now.Term, last))
	}
	return nil
}

func termsExpiry(t *Trial) error {
	clients := []*client{t.client("a"), t.client("b"), t.client("c")}
	var last uint64
	for i := range 3 {
		held := must(clients[i].win("jobs"))
		require(checkTermGrows(&last, held))
		clients[i].crash()
	}
	return nil
}

func termsFirst(t *Trial) error {
	for _, name := range []string{"jobs", "other"} {
		held := must(t.client("a").win(name))
		if off := time.Until(time.UnixMicro(int64(held.Term))); off.Abs() > time.Hour {
			return fmt.Errorf("expected the first term of %q to be about the current time, got %d, which differs by %v", name, held.Term, off)
		}
	}
	return nil
}

func termsMinTerm(t *Trial) error {
	a := t.client("a")
	held := must(a.win("jobs"))
	last := held.Term
	require(a.release(backend.Released, held))

	minTerm := last + 1_000_000_000_000_000
	held = must(a.winWith("jobs", func(b *backend.Bid) { b.MinTerm = minTerm }))
	last = minTerm
	if err := checkTermGrows(&last, held); err != nil {
		return fmt.Errorf("with a MinTerm: %w", err)
	}

	require(a.release(backend.Released, held))
	held = must(a.win("jobs")) // without a MinTerm
	return checkTermGrows(&last, held)
}

func termsDeleted(t *Trial) error {
	a := t.client("a")
	var last uint64
	for range 3 {
		held := must(a.win("jobs"))
		require(checkTermGrows(&last, held))
		require(t.inject(FaultDeleteRecord, true, "jobs"))
	}
	return nil
}

func termsRestart(t *Trial) error {
	a := t.client("a")
	var last uint64
	for i := range 3 {
		held := must(a.win("jobs"))
		require(checkTermGrows(&last, held))
		if i == 1 {
			require(a.release(backend.Released, held))
		}
		require(t.inject(FaultRestart, true, ""))
		// A server may start slowly.
		require(t.waitUntil(20*t.TTL, "an answer from the restarted store", func() bool { _, err := a.readQuickly("jobs"); return err == nil }))
	}
	return nil
}

func termsFailover(t *Trial) error {
	a := t.client("a")
	held := must(a.win("jobs"))
	last := held.Term
	require(t.inject(FaultFailover, true, ""))
	require(t.waitUntil(4*t.TTL, "an answer after the failover", func() bool { _, err := a.readQuickly("jobs"); return err == nil }))
	require(a.cannotKeep("after the failover to another server", held))
	held = must(t.client("b").win("jobs"))
	return checkTermGrows(&last, held)
}

func termsSeparate(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held := must(a.win("jobs"))
	for range 5 {
		other := must(b.win("other"))
		require(b.release(backend.Released, other))
	}
	now := must(b.read("jobs"))
	return errors.Join(equal("term", now.Term, held.Term),
		equal("Version", now.Version, held.Version),
		equal("holder", now.Holder, a.candidate))
}
