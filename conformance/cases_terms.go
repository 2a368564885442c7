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
		Says: "Each grant has a term greater than all earlier terms of that election, through deleted records."},
	{Rule: "S4", Name: "terms grow through a restart", Run: termsRestart, Fault: FaultRestart,
		Says: "Each grant has a term greater than all earlier terms of that election, through restarts of the store."},
	{Rule: "S4", Name: "terms grow through a failover", Run: termsFailover, Fault: FaultFailover,
		Says: "Each grant has a term greater than all earlier terms of that election, through a failover that loses the last writes."},
	{Rule: "S5", Name: "each election has its own terms", Run: termsSeparate,
		Says: "A leadership in one election changes neither term nor heartbeat of another."},
}

// checkTermGrows checks that the term of a grant exceeds the last one.
func checkTermGrows(last *uint64, l backend.Lease) error {
	defer func() { *last = l.Term }()
	if l.Term <= *last {
		return violation("S4", "each grant's term exceeds all earlier ones", "expected a term above %d, got %d", *last, l.Term)
	}
	if l.Term > math.MaxInt64 {
		return fmt.Errorf("expected a term of at most 63 bits, got %d", l.Term)
	}
	return nil
}

func termsGrow(t *Trial) error {
	clients := []*client{t.client("a"), t.client("b"), t.client("c")}
	var last uint64
	for i := range t.scaledCount(1000) {
		c := clients[i%3]
		held, err := c.win("jobs")
		if err != nil {
			return fmt.Errorf("leadership %d: %w", i+1, err)
		}
		if err := checkTermGrows(&last, held); err != nil {
			return fmt.Errorf("leadership %d: %w", i+1, err)
		}
		if err := c.release(backend.Released, held); err != nil {
			return err
		}
		now, err := c.read("jobs")
		if err := errors.Join(err, equal("term of the vacant record", now.Term, last)); err != nil {
			return err
		}
	}
	return nil
}

func termsExpiry(t *Trial) error {
	clients := []*client{t.client("a"), t.client("b"), t.client("c")}
	var last uint64
	for i := range 3 {
		held, err := clients[i].win("jobs")
		if err != nil {
			return err
		}
		if err := checkTermGrows(&last, held); err != nil {
			return err
		}
		clients[i].crash()
	}
	return nil
}

func termsFirst(t *Trial) error {
	for _, name := range []string{"jobs", "other"} {
		held, err := t.client("a").win(name)
		if err != nil {
			return err
		}
		if off := time.Until(time.UnixMicro(int64(held.Term))); off.Abs() > time.Hour {
			return fmt.Errorf("expected the first term of %q to be about the current time, got %d, which differs by %v", name, held.Term, off)
		}
	}
	return nil
}

func termsMinTerm(t *Trial) error {
	a := t.client("a")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	last := held.Term
	if err := a.release(backend.Released, held); err != nil {
		return err
	}
	minTerm := last + 1_000_000_000_000_000
	held, err = a.winWith("jobs", func(b *backend.Bid) { b.MinTerm = minTerm })
	if err != nil {
		return err
	}
	last = minTerm
	if err := checkTermGrows(&last, held); err != nil {
		return fmt.Errorf("with a MinTerm: %w", err)
	}
	if err := a.release(backend.Released, held); err != nil {
		return err
	}
	held, err = a.win("jobs") // without a MinTerm
	return errors.Join(err, checkTermGrows(&last, held))
}

func termsDeleted(t *Trial) error {
	a := t.client("a")
	var last uint64
	for range 3 {
		held, err := a.win("jobs")
		if err != nil {
			return err
		}
		if err := checkTermGrows(&last, held); err != nil {
			return err
		}
		if err := t.inject(FaultDeleteRecord, true, "jobs"); err != nil {
			return err
		}
	}
	return nil
}

func termsRestart(t *Trial) error {
	a := t.client("a")
	var last uint64
	for i := range 3 {
		held, err := a.win("jobs")
		if err != nil {
			return err
		}
		if err := checkTermGrows(&last, held); err != nil {
			return err
		}
		if i == 1 {
			if err := a.release(backend.Released, held); err != nil {
				return err
			}
		}
		if err := t.inject(FaultRestart, true, ""); err != nil {
			return err
		}
		if err := t.waitUntil(20*t.TTL, "an answer from the restarted store", func() bool { _, err := a.readQuickly("jobs"); return err == nil }); err != nil { // a server may start slowly
			return err
		}
	}
	return nil
}

func termsFailover(t *Trial) error {
	a := t.client("a")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	last := held.Term
	if err := t.inject(FaultFailover, true, ""); err != nil {
		return err
	}
	if err := t.waitUntil(4*t.TTL, "an answer after the failover", func() bool { _, err := a.readQuickly("jobs"); return err == nil }); err != nil {
		return err
	}
	if err := a.mustNotRenew("after the failover to another server", held); err != nil {
		return err
	}
	held, err = t.client("b").win("jobs")
	return errors.Join(err, checkTermGrows(&last, held))
}

func termsSeparate(t *Trial) error {
	a, b := t.client("a"), t.client("b")
	held, err := a.win("jobs")
	if err != nil {
		return err
	}
	for range 5 {
		other, err := b.win("other")
		if err != nil {
			return err
		}
		if err := b.release(backend.Released, other); err != nil {
			return err
		}
	}
	now, err := b.read("jobs")
	return errors.Join(err, equal("term", now.Term, held.Term), equal("Version", now.Version, held.Version), equal("holder", now.Holder, a.candidate))
}
