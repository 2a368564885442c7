package mysqltable

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// threshold is the threshold of the fleets in these tests. It leaves room for ttl, and a busy
// machine may stall for seconds before another program takes the row.
const threshold = 8 * time.Second

// each runs a test for each layout on each server, in parallel.
func each(t *testing.T, f func(t *testing.T, l *lab)) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, layout := range layouts {
			t.Run(string(layout), func(t *testing.T) {
				t.Parallel()
				f(t, newLab(t, k, layout, threshold))
			})
		}
	})
}

// Each manual edit ends the leadership with the next renewal, and no member of this module leads
// before the previous leader has had time to notice.
func TestManualEditsAreObeyed(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		a, b, s := l.node(t, "go-a"), l.node(t, "go-b"), l.shape()
		edits := map[string]string{
			"update":  fmt.Sprintf("UPDATE leader_election SET %s = 'other-1' WHERE %s = 'jobs'", s.holder, s.key),
			"replace": fmt.Sprintf("REPLACE INTO leader_election (%s, %s, %s) VALUES ('jobs', 'other-1', now())", s.key, s.holder, s.time),
			"delete":  fmt.Sprintf("DELETE FROM leader_election WHERE %s = 'jobs'", s.key),
		}
		for name, edit := range edits {
			l.exec(t, fmt.Sprintf("DELETE FROM leader_election WHERE %s = 'jobs'", s.key))
			held := a.Leads("jobs")
			l.exec(t, edit)
			if got := a.Renews(held); got.Outcome != backend.Refused || got.Err == nil {
				t.Errorf("%s: a renewal after it: want refused, with a reason; got %v, %v", name, got.Outcome, got.Err)
			}
			a.Resigns(held)
			if got := b.Sees("jobs"); name != "delete" && got.Holder.ID != "other-1" || name == "delete" && !got.Vacant() || got.ObserveFor != l.lifetime() {
				t.Errorf("%s: another member sees %+v", name, got)
			}
		}
	})
}

func (l *lab) shape() shape { return shapes[l.options.Layout] }

func (l *lab) lifetime() time.Duration { return l.table().lifetime }

// table returns the fleet's table without a server.
func (l *lab) table() *table {
	t, err := newTable(l.options)
	if err != nil {
		panic(err)
	}
	return t
}

// Other programs cannot take a sealed row for a year, also if a renewal from before the seal arrives after it. The table's time
// may have a fraction.
func TestASealKeepsOtherProgramsOut(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		if at := shapes[l.options.Layout].time; l.options.Layout != LastActiveTime {
			l.exec(t, "ALTER TABLE leader_election MODIFY "+at+" TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)")
		}
		a := l.node(t, "go-a")
		held := a.Leads("jobs")
		held.MovedTo = "elsewhere"
		got, err := a.Mark(t.Context(), []backend.Held{held.Held()})
		if err != nil || got[0].Outcome != backend.Granted || got[0].MovedTo != "elsewhere" {
			t.Fatalf("Mark by the holder: %+v, %v", got, err)
		}
		l.exec(t, l.table().statement(renewSQL, pair("jobs", l.leader(t, "jobs"))))
		a.Resigns(got[0].Lease)
		for range 3 {
			if leader := l.runOnce(t, "jobs", "other-1", "timestamp = UNIX_TIMESTAMP() + 365 * 86400"); leader == "other-1" {
				t.Fatal("another program has taken a sealed row")
			}
		}
	})
}

// Whatever sessions have by default, the row is that which other programs expect.
func TestSessionSettingsDoNotAffectTheRow(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k, UpdateTime, threshold)
		readOnly := map[testbed.Kind]string{testbed.MariaDB: "tx_read_only", testbed.MySQL: "transaction_read_only"}[k]
		limit := map[testbed.Kind]string{testbed.MariaDB: "max_statement_time", testbed.MySQL: "max_execution_time"}[k]
		l.options.MySQL.Config.Params = map[string]string{"autocommit": "0", "completion_type": "'CHAIN'", "sql_safe_updates": "1", "sql_select_limit": "1", "max_join_size": "1", readOnly: "1",
			"collation_connection": "'utf16_general_ci'", "character_set_results": "'utf16'", "sql_mode": "'ANSI,NO_BACKSLASH_ESCAPES'", limit: "1"}
		a, b := l.node(t, "go-a"), l.node(t, "go-b")
		held := a.Leads("jobs")
		a.Keeps(held)
		if leader := l.leader(t, "jobs"); !strings.HasPrefix(leader, "go-a#") {
			t.Errorf("other programs see %q as leader, want go-a#…", leader)
		}
		a.Resigns(held)
		if next := b.Leads("jobs"); next.Term <= held.Term {
			t.Errorf("term %d after %d", next.Term, held.Term)
		}
	})
}

// A program that keeps one row locked ends the leaderships of no other election.
func TestARowThatSomebodyKeepsLockedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, k, LastSeenActive, threshold)
		a := l.node(t, "go-a")
		jobs, reports := a.Leads("jobs"), a.Leads("reports")
		locks, err := l.admin.BeginTx(t.Context(), nil)
		testbed.NoError(t, err)
		defer locks.Rollback()
		_, err = locks.Exec("SELECT 1 FROM leader_election WHERE name = 'jobs' FOR UPDATE")
		testbed.NoError(t, err)

		var answers []backend.Answer
		testbed.Eventually(t, patient, "the locked row runs out of time", func() error {
			if answers = a.RenewsAll(jobs, reports); answers[1].Outcome != backend.Granted {
				t.Fatalf("beside a locked row another one is renewed: %+v", answers)
			}
			if answers[0].Outcome == backend.Granted {
				return errors.New("it is renewed")
			}
			return nil
		})
		if !errors.Is(answers[0].Err, backend.ErrUnavailable) {
			t.Errorf("the locked row: %v, %v; want no outcome, since it is not renewed", answers[0].Outcome, answers[0].Err)
		}
	})
}
