package mysqltable

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// Many renewals and one new election use up one AUTO_INCREMENT number.
func TestNoAutoIncrementNumbersAreWasted(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLab(t, k, LastSeenActive, threshold)
		l.exec(t, "ALTER TABLE leader_election AUTO_INCREMENT = 4294967294")
		a := l.node(t, "go-a")
		for range 20 {
			held := a.Leads("jobs")
			a.Keeps(held)
			a.Resigns(held)
		}
		a.Leads("jobs-2") // the second last number
		got := a.Bids(a.Sees("jobs-3"))
		if got.Outcome != backend.Granted {
			got = a.Bids(a.Sees("jobs-4"))
		}
		if got.Outcome != backend.Granted && !errors.Is(got.Err, backend.ErrDenied) {
			t.Errorf("numbers are used up: want granted or an error of class ErrDenied, got %v, %v", got.Outcome, got.Err)
		}
		if id := l.leader(t, "jobs"); id != "" {
			t.Errorf("the row of another election has changed: it names %q", id)
		}
	})
}

// In the hour that is repeated in autumn, MySQL stores the time of a session in a zone with daylight saving time an hour too
// early. Such a row looks expired although it is renewed. A bid over the row as it was before the renewal must be refused.
func TestARowThatLooksAnHourOldAndIsRenewedIsNotTaken(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		a := l.node(t, "go-a")
		s := l.shape()
		renewed := func(age int) {
			l.exec(t, fmt.Sprintf("REPLACE INTO leader_election (%s, %s, %s) VALUES ('jobs', 'other-1', now() - interval ? second)", s.key, s.holder, s.time), age)
		}
		renewed(3600)
		seen := a.Sees("jobs")
		renewed(3590)
		if got := a.Bids(seen); got.Outcome != backend.Refused {
			t.Errorf("a bid over a row that was renewed since: want refused, got %v", got.Outcome)
		}
		if got := a.Sees("jobs"); got.ObserveFor != l.lifetime() || got.Unchanged(seen) {
			t.Errorf("want the row to be observed anew for %v, got %+v", l.lifetime(), got)
		}
	})
}

// A row with a time in the future has not expired by the other programs' comparison, however long it is observed.
func TestARowFromTheFutureIsLeftAlone(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		a, s := l.node(t, "go-a"), l.shape()
		l.exec(t, fmt.Sprintf("INSERT INTO leader_election (%s, %s, %s) VALUES ('jobs', 'other-1', now() + interval 1 hour)", s.key, s.holder, s.time))
		seen := a.Sees("jobs")
		if got := a.Bids(seen); got.Outcome != backend.Refused || a.Sees("jobs").Term != seen.Term {
			t.Errorf("want a bid refused, and no term used up; got %v, %+v", got.Outcome, got.Lease)
		}
	})
}

// In spring a row that was written a second before is an hour old to sessions in a zone with
// daylight saving time. ValidFor ends before that, and a bid whose TTL reaches it is refused.
func TestNobodyLeadsAcrossTheSpringClockChange(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		synctest.Test(t, func(t *testing.T) {
			l := &lab{d, testbed.OpenDB(t, d.Admin), Options{MySQL: mysql.Options{DB: drivertest.Virtual(t, d.User), Schema: d.Name, Poll: true}, Layout: UpdateTime, Threshold: 30 * time.Second, Zone: "Europe/Berlin"}}
			testbed.NoError(t, mysql.CreateTables(t.Context(), l.admin, "", DefaultPrefix))
			l.exec(t, fmt.Sprintf(createSQL[UpdateTime], "leader_election"))
			spring := time.Date(2000, 3, 26, 1, 0, 0, 0, time.UTC)
			a := l.node(t, "go-a")
			time.Sleep(time.Until(spring.Add(-10 * time.Second)))
			held := a.Leads("jobs")
			time.Sleep(9 * time.Second)
			began := time.Now()
			got := a.Renews(held)
			if got.Outcome != backend.Granted || began.Add(got.ValidFor).After(spring) {
				t.Errorf("a second before: want granted, and valid for a second at most; got %v, %v, %v", got.Outcome, got.ValidFor, got.Err)
			}
			a.Resigns(got.Lease)
			if got = a.Bids(a.Sees("jobs")); got.Outcome != backend.Refused || !errors.Is(got.Err, backend.ErrUnavailable) {
				t.Errorf("a bid a second before: want refused, with the reason; got %v, %v", got.Outcome, got.Err)
			}
			time.Sleep(time.Until(spring))
			if got = a.Bids(a.Sees("jobs")); got.Outcome != backend.Granted || got.ValidFor != ttl {
				t.Errorf("a bid right after: want granted and valid for %v; got %v, %v, %v", ttl, got.Outcome, got.ValidFor, got.Err)
			}
		})
	})
}

// Names that the table could take for another election are refused, without effect on other elections.
func TestNamesThatTheTableCannotTellApartAreRefused(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		a := l.node(t, "go-a")
		held := a.Leads("jobs")
		for name, class := range map[string]error{
			"Jobs": backend.ErrDenied, "jobs ": backend.ErrInvalid, " x": backend.ErrInvalid, "jöbs": backend.ErrInvalid,
			strings.Repeat("n", l.shape().width+1): backend.ErrInvalid,
		} {
			if got := a.Bids(a.Sees(name)); got.Outcome == backend.Granted || !errors.Is(got.Err, class) {
				t.Errorf("a bid for %.20q: want an error of class %v, got %v, %v", name, class, got.Outcome, got.Err)
			}
		}
		a.Leads(strings.Repeat("n", l.shape().width))
		a.Keeps(held)
	})
}

// The table takes "jobs", "JOBS", "jöbs" and, on MariaDB, "jobs " for one key. A member does not: it reads, keeps and gives
// back no row but that of its own key, whatever the row says. Beside such a row it has none of its own.
func TestKeysAreToldApartByTheirBytes(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		lock, s := l.lock(t), l.shape()
		jobs, holder := beside.Owned{Election: "jobs", ID: "go-a", Term: 7}, s.holderOf("go-a", 7)

		for _, key := range []string{"JOBS", "jobs ", "j\u00f6bs"} {
			l.exec(t, "DELETE FROM leader_election")
			l.exec(t, fmt.Sprintf("INSERT INTO leader_election (%s, %s, %s) VALUES (?, ?, now())", s.key, s.holder, s.time), key, holder)

			states, err := lock.Read(t.Context(), []string{"jobs"})
			if err != nil || states[0].Term != 0 || states[0].Who != "" {
				t.Fatalf("beside the row of %q: want no row of jobs to be read, got %+v, %v", key, states, err)
			}
			if kept, err := lock.Keep(t.Context(), []beside.Owned{jobs}); err != nil || kept[0].Outcome != backend.Refused {
				t.Errorf("beside the row of %q: want a renewal refused, got %+v, %v", key, kept, err)
			}
			if err := lock.Drop(t.Context(), []beside.Owned{jobs}); err != nil {
				t.Error(err)
			}

			taken, err := lock.Take(t.Context(), []beside.Taking{{Owned: jobs, Was: states[0]}})
			testbed.NoError(t, err)
			rows := map[string]string{}
			all, err := l.admin.QueryContext(t.Context(), fmt.Sprintf("SELECT %s, %s FROM leader_election", s.key, s.holder))
			testbed.NoError(t, err)
			for all.Next() {
				var key, holder string
				testbed.NoError(t, all.Scan(&key, &holder))
				rows[key] = holder
			}
			if rows[key] != holder {
				t.Errorf("the row of %q has become %q", key, rows)
			}
			if granted := taken[0].Outcome == backend.Granted; granted != (rows["jobs"] == holder) || !granted && !errors.Is(taken[0].Err, backend.ErrDenied) {
				t.Errorf("beside the row of %q jobs is taken: %v, %v; the rows are %q", key, taken[0].Outcome, taken[0].Err, rows)
			}
		}
	})
}

// A long id, or one that is not ASCII, is shown as far as it fits. The grant mark identifies the holder.
func TestAHolderFitsTheColumn(t *testing.T) {
	for layout, s := range shapes {
		for _, id := range []string{"a", "x y\u00e4", strings.Repeat("i", 255), strings.Repeat("\U0001F600", 60)} {
			h := s.holderOf(id, 7)
			if len(h) > s.width || strings.ContainsAny(h, " \t") || h != strings.ToValidUTF8(h, "") {
				t.Errorf("%s: %q", layout, h)
			}
			if h == s.holderOf(id, 8) || termOf(h) != 7 {
				t.Errorf("%s: %q must differ by term", layout, h)
			}
		}
	}
}

// Open reports options that do not fit a fleet.
func TestOptionsAreChecked(t *testing.T) {
	good := Options{MySQL: mysql.Options{DSN: "u:canary7f3a@tcp(127.0.0.1:1)/x"}, Layout: LastActiveTime, Threshold: 10 * time.Second}
	for want, change := range map[string]func(*Options){
		"layout is":          func(o *Options) { o.Layout = "node" },
		"threshold is 0s":    func(o *Options) { o.Threshold = 0 },
		"threshold is 2s":    func(o *Options) { o.Threshold = 2 * time.Second },
		"threshold is 3.5s":  func(o *Options) { o.Threshold = 3500 * time.Millisecond },
		"zone is \"Berlin\"": func(o *Options) { o.Zone = "Berlin" },
		"invalid DSN":        func(o *Options) { o.MySQL.DSN = "u:canary7f3a@x" },
	} {
		o := good
		change(&o)
		_, err := Open(o)
		if !errors.Is(err, backend.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("want an error of class ErrInvalid with %q, got %v", want, err)
		}
	}
	if most := testbed.Open(t, Open, good).Guarantees().MaxTTL; most != 8*time.Second {
		t.Errorf("beside a threshold of 10 s that is not strict a TTL may be %v, want 8 s", most)
	}
}

// A table with another layout is reported, above all one with a column of local times.
func TestATableOfAnotherShapeIsAnError(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLab(t, k, UpdateTime, threshold)
		fails := func(want string) {
			t.Helper()
			_, err := l.node(t, "go-a").Looks("jobs")
			if !errors.Is(err, backend.ErrDenied) || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("want an error of class ErrDenied with %q, got %v", want, err)
			}
		}
		l.exec(t, "ALTER TABLE leader_election MODIFY update_time datetime NOT NULL")
		fails(`"datetime"`)
		l.options.Layout = LastSeenActive
		fails("last_seen_active")
		l.exec(t, "DROP TABLE leader_election")
		fails("there is no table")
	})
}

// A candidate makes this module's own tables, as on mysql, unless an option forbids it.
func TestACandidateCreatesMissingTables(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		l := &lab{d, testbed.OpenDB(t, d.Admin), Options{}}
		l.exec(t, fmt.Sprintf(createSQL[LastSeenActive], "leader_election"))
		for _, keep := range []bool{true, false} {
			b := testbed.Open(t, Open, Options{MySQL: mysql.Options{Config: d.Admin, KeepSchema: keep}, Layout: LastSeenActive})
			testbed.NoError(t, b.Prepare(t.Context()))
			if _, err := b.Observe(t.Context(), []backend.Lease{{Election: "jobs"}}); errors.Is(err, backend.ErrDenied) != keep {
				t.Errorf("KeepSchema %v: after Prepare a reading gives %v", keep, err)
			}
		}
	})
}
