package mysql

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
)

// After a failover the terms of all elections are far ahead of the clock.
func TestTermsGrowAfterBothRowsWereDeleted(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k)
		n := l.node(t, "n")
		n.lead("a", time.Second)
		n.lead("b", time.Second)
		jumped, err := backend.NextTerm(0, true, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		l.exec(t, fmt.Sprintf("UPDATE election_lease SET term = %d WHERE name <> ''", jumped), fmt.Sprintf("UPDATE election_term SET term = %d", jumped),
			"DELETE FROM election_lease WHERE name = 'a'", "DELETE FROM election_term WHERE name = 'a'")
		other := l.node(t, "other")
		if got := other.lead("a", time.Second); got.Term <= jumped {
			t.Errorf("term %d after %d", got.Term, jumped)
		}
		now := uint64(time.Now().UnixMicro())
		l = newLab(t, k)
		if got := l.node(t, "n").lead("a", time.Second); got.Term < now || got.Term > now+uint64(time.Hour/time.Microsecond) {
			t.Errorf("the first term is %d, want about the microseconds now, %d", got.Term, now)
		}
	})
}

// A crash undoes a grant, and the next grant is made over the same record. Terms are ahead of
// the clock after an earlier failover. See docs/design/mysql.md, "Terms".
func TestATermDoesNotRepeatWhenACrashUndoesAGrant(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		n, other := l.node(t, "n"), l.node(t, "other")
		n.lead("a", time.Second)
		l.exec(t, "UPDATE election_lease SET term = 5000000000000000 WHERE name = 'a'", "UPDATE election_term SET term = 5000000000000000",
			"CREATE TABLE leases SELECT * FROM election_lease", "CREATE TABLE terms SELECT * FROM election_term")
		first := other.lead("a", time.Second)
		l.exec(t, `UPDATE election_lease l JOIN leases s ON s.name = l.name SET l.holder = s.holder, l.nonce = s.nonce, l.term = s.term, l.heartbeat = s.heartbeat, l.renewed_at = s.renewed_at, l.elected_at = s.elected_at`,
			`UPDATE election_term t JOIN terms s ON s.name = t.name SET t.term = s.term`)
		// The crash has made n the holder again. Its release writes the record anew.
		if err := n.Release(t.Context(), []backend.Held{{Election: "a"}}); err != nil {
			t.Fatal(err)
		}
		if second := other.lead("a", time.Second); second.Term <= first.Term {
			t.Errorf("term %d after %d, which a crash has undone", second.Term, first.Term)
		}
	})
}

// A failover loses a grant, whose term exceeded the one before by that one's age. Then an
// operator deletes the row, and with it the age.
func TestTermsGrowAfterALostGrantAndADeletedRow(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		n, other := l.node(t, "n"), l.node(t, "other")
		n.lead("a", time.Second)
		n.lead("b", time.Second)
		l.exec(t, "UPDATE election_lease SET elected_at = elected_at - INTERVAL 60 DAY, server = 'another' WHERE name <> ''",
			"CREATE TABLE terms SELECT * FROM election_term")
		lost := other.lead("a", time.Second)
		l.exec(t, `UPDATE election_term t JOIN terms s ON s.name = t.name SET t.term = s.term`,
			"DELETE FROM election_lease WHERE name = 'a'")
		if again := n.lead("a", time.Second); again.Term <= lost.Term {
			t.Errorf("term %d after %d, which a failover has lost", again.Term, lost.Term)
		}
	})
}

// A failover loses the first grants after another failover, and an operator had deleted the row of one
// of them. The next server knows of fewer jumps than the lost terms had made: jumps must not add up.
// Found by the simulation.
func TestTermsGrowAfterAFailoverThatLosesJumps(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLabOn(t, testbed.Start(t, testbed.Options{Kind: k}))
		n, other := l.node(t, "n"), l.node(t, "other")
		n.lead("a", time.Second)
		n.lead("b", time.Second)
		l.exec(t, "UPDATE election_lease SET server = 'another'", "DELETE FROM election_lease WHERE name = 'a'",
			"CREATE TABLE leases SELECT * FROM election_lease", "CREATE TABLE terms SELECT * FROM election_term")
		other.lead("b", time.Second)
		lost := other.lead("a", time.Second)
		l.exec(t, "DELETE FROM election_lease", "INSERT INTO election_lease SELECT * FROM leases",
			"DELETE FROM election_term", "INSERT INTO election_term SELECT * FROM terms")
		if again := n.lead("a", time.Second); again.Term <= lost.Term {
			t.Errorf("term %d after %d, which a failover has lost", again.Term, lost.Term)
		}
	})
}

func TestTermsFollowTheClockOfTheServer(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		s := testbed.Start(t, testbed.Options{Kind: k, Clock: true})
		l := newLabOn(t, s)
		n := l.node(t, "n")
		n.lead("a", time.Second)
		s.Step(t, time.Hour)
		want := uint64(time.Now().Add(30 * time.Minute).UnixMicro())
		for _, name := range []string{"a", "new"} {
			if got := n.lead(name, time.Second); got.Term < want {
				t.Errorf("%q: term %d; the clock of the server was set forward by an hour, to at least %d", name, got.Term, want)
			}
		}
	})
}
