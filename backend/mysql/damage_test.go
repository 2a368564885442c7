package mysql

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

func TestRecreatedManualTablesAreWatched(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		l.exec(t, "UPDATE election_lease SET nonce = '' WHERE name = ''") // as schema.sql leaves it
		other := l.node(t, "other")
		l.node(t, "n").lead("a", time.Second)
		other.observe("a")
		l.exec(t, "DROP TABLE election_lease")
		if err := CreateTables(t.Context(), l.admin, "", ""); err != nil {
			t.Fatal(err)
		}
		if got := other.observe("a"); got.ObserveFor != maxTTL {
			t.Errorf("tables from schema.sql were dropped and created again: ObserveFor %v; the holder may not know yet, want the greatest TTL", got.ObserveFor)
		}
	})
}

func TestADeletedRowIsWatchedAndItsTermsGoOn(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for what, statements := range map[string][]string{
			"lease":          {"DELETE FROM election_lease WHERE name = 'a'"},
			"lease and term": {"DELETE FROM election_lease WHERE name = 'a'", "DELETE FROM election_term WHERE name = 'a'"},
		} {
			t.Run(what, func(t *testing.T) {
				l := newLab(t, k)
				n, other := l.node(t, "n"), l.node(t, "other")
				n.lead("a", time.Second)
				// A term far ahead of the clock, as after a jump.
				l.exec(t, "UPDATE election_term SET term = 5000000000000000 WHERE name = 'a'")
				held := n.lead("a", time.Second)
				b := n.lead("b", time.Second)
				l.exec(t, statements...)
				for _, name := range []string{"a", "c"} {
					if got := other.observe(name); got.ObserveFor != maxTTL || got.Term != 0 {
						t.Errorf("%q after a row was deleted: %+v; want it observed for the greatest TTL", name, got)
					}
				}
				if x, err := n.renew(held); err != nil || x.Outcome != backend.Refused {
					t.Errorf("a renewal without the row: %v, %v; want refused", x.Outcome, err)
				}
				n.mustRenew(b)
				if err := n.release(held, backend.Failed); err != nil {
					t.Errorf("a release without the row: %v, want no error", err)
				}
				got := other.lead("a", time.Second) // as if it had been observed
				if len(statements) == 1 && got.Term <= held.Term {
					t.Errorf("term %d after %d, although the term's row exists", got.Term, held.Term)
				}
				if got := other.observe("c"); len(statements) == 1 && got.ObserveFor != 0 {
					t.Errorf("no row is missing, so that a new election is free: %+v", got)
				}
			})
		}
	})
}

// Between two reads the row may have been recreated, led, and deleted again.
func TestARowThatIsDeletedTwiceIsWatchedTwice(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n, other := l.node(t, "n"), l.node(t, "other")
		n.lead("a", time.Second)
		n.lead("b", time.Second)
		l.exec(t, "DELETE FROM election_lease WHERE name = 'a'")
		first := n.observe("a")
		other.lead("a", time.Second)
		l.exec(t, "DELETE FROM election_lease WHERE name = 'a'")
		if second := n.observe("a"); second.Unchanged(first) || second.ObserveFor != maxTTL {
			t.Errorf("a row that was recreated meanwhile: %+v, before: %+v", second, first)
		}
	})
}

func TestAnEditedRowTakesTheLeaseAway(t *testing.T) {
	edits := map[string]string{
		"another holder":    "holder = 'x', nonce = 'x'",
		"another nonce":     "nonce = 'x'",
		"another term":      "term = term + 1",
		"an earlier term":   "term = 1",
		"another server":    "server = 'x'",
		"vacant":            "holder = '', nonce = ''",
		"the greatest term": "term = 18446744073709551615",
	}
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		for what, set := range edits {
			n, other := l.node(t, "n"), l.node(t, "other")
			held := n.lead(what, time.Second)
			l.exec(t, "UPDATE election_lease SET "+set+" WHERE name = '"+what+"'")
			if a, err := n.renew(held); err != nil || a.Outcome != backend.Refused {
				t.Errorf("%s: the renewal: %v, %v; want refused", what, a.Outcome, err)
			}
			a, err := other.bid(other.observe(what), time.Second)
			if what == "the greatest term" {
				if a.Outcome != backend.Unknown || !errors.Is(a.Err, backend.ErrDenied) || !strings.Contains(a.Err.Error(), "terms are used up") {
					t.Errorf("%s: a bid: %v, %v", what, a.Outcome, a.Err)
				}
				continue
			}
			if err != nil || a.Outcome != backend.Granted || a.Term <= held.Term {
				t.Errorf("%s: a bid over the row as it is: %v, %v, term %d after %d; want granted with a greater term", what, a.Outcome, err, a.Term, held.Term)
			}
		}
		n := l.node(t, "n")
		held := n.lead("zero", time.Second)
		l.exec(t, "UPDATE election_lease SET ttl_us = 0 WHERE name = 'zero'")
		if got := l.node(t, "other").observe("zero"); got.ObserveFor != maxTTL {
			t.Errorf("a held lease whose TTL was edited to 0: ObserveFor %v, want the greatest TTL", got.ObserveFor)
		}
		n.mustRenew(held)
	})
}

// recount is the statement of docs/mysql.md that corrects the count.
const recount = "UPDATE election_lease SET term = (SELECT n FROM (SELECT COUNT(*) - 1 AS n FROM election_lease) c) WHERE name = ''"

func TestALedElectionWithoutARowIsWatched(t *testing.T) {
	for what, damage := range map[string][]string{
		"renamed":                {"UPDATE election_lease SET name = 'y' WHERE name = 'x'"},
		"deleted, another added": {"INSERT INTO election_lease (" + leaseColumns + ") SELECT " + strings.Replace(leaseColumns, "name", "'y'", 1) + " FROM election_lease WHERE name = 'x'", "DELETE FROM election_lease WHERE name = 'x'"},
		"deleted and recounted":  {"DELETE FROM election_lease WHERE name = 'x'", recount},
	} {
		t.Run(what, func(t *testing.T) {
			testbed.Each(t, func(t *testing.T, k testbed.Kind) {
				l := newLab(t, k)
				n, other := l.node(t, "n"), l.node(t, "other")
				held := n.lead("x", time.Second)
				n.lead("z", time.Second)
				l.exec(t, damage...)
				got := other.observe("x")
				if got.ObserveFor != maxTTL || got.Term != 0 {
					t.Errorf("its holder may not know yet: %+v; want it observed for the greatest TTL", got)
				}
				if free := other.observe("new"); free.ObserveFor != 0 {
					t.Errorf("a new election is free: %+v", free)
				}
				if a, err := other.bid(backend.Lease{Election: "x"}, time.Second); err != nil || a.Outcome != backend.Refused {
					t.Errorf("a bid without observation: %v, %v; want refused", a.Outcome, err)
				}
				if again := other.lead("x", time.Second); again.Term <= held.Term { // as if it had been observed
					t.Errorf("term %d after %d", again.Term, held.Term)
				}
			})
		})
	}
}

// Only the leases are created again. A process that starts after that has seen nothing, but the
// terms exist.
func TestTruncatedLeasesAreWatchedByLaterProcesses(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		l.node(t, "n").lead("x", time.Second)
		l.exec(t, "TRUNCATE election_lease")
		if err := CreateTables(t.Context(), l.admin, "", ""); err != nil {
			t.Fatal(err)
		}
		if got := l.node(t, "late").observe("x"); got.ObserveFor != maxTTL {
			t.Errorf("the leases were truncated under a leader: %+v; want it observed for the greatest TTL", got)
		}
	})
}

func TestARestoredElectionIsCountedAfterARecount(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n, other := l.node(t, "n"), l.node(t, "other")
		n.lead("gone", time.Second)
		n.lead("x", time.Second)
		l.exec(t, "DELETE FROM election_lease WHERE name = 'gone'", recount)
		n.lead("gone", time.Second) // its term row exists
		if made, rows := l.number(t, "SELECT term FROM election_lease WHERE name = ''"), l.number(t, "SELECT COUNT(*) - 1 FROM election_lease"); made != rows {
			t.Errorf("the count is %d, but there are %d elections; the next deletion would not show", made, rows)
		}
		l.exec(t, "DELETE FROM election_lease WHERE name = 'x'", "DELETE FROM election_term WHERE name = 'x'")
		if got := other.observe("x"); got.ObserveFor != maxTTL {
			t.Errorf("rows deleted under a leader: %+v; want it observed for the greatest TTL", got)
		}
	})
}
