package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/backend/lease/leasetest"
	"github.com/go-election/go-election/lab/testbed"
)

// Two changes that each need the absence of what the other one makes: at most one of them is made.
// Locks of rows alone would allow both.
func TestChangesOverMissingRowsExcludeEachOther(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		drivers := [2]*driver{open(t, Options{Config: l.User}), open(t, Options{Config: l.User})}
		epoch := testbed.Read(t, drivers[0]).Epoch
		testbed.Read(t, drivers[1])
		for round := range 100 {
			names := [2]string{fmt.Sprint("x", round), fmt.Sprint("y", round)}
			var made [2]bool
			var all sync.WaitGroup
			for i, d := range drivers {
				all.Go(func() {
					w, err := d.Write(t.Context(), epoch, 0, []lease.Change{{
						Check: []lease.Item{{Key: recordKey(names[1-i])}},
						Put:   []lease.Put{{Over: lease.Item{Key: recordKey(names[i])}, Value: &lease.Record{Election: names[i], Term: 1}}},
					}}, nil)
					if err != nil || w.Results[0].Err != nil {
						t.Errorf("%+v, %v", w.Results, err)
					}
					made[i] = err == nil && w.Results[0].Outcome == backend.Granted
				})
			}
			if all.Wait(); made[0] == made[1] {
				t.Fatalf("round %d: made %v, want one of them", round, made)
			}
		}
	})
}

// A manual edit of value or version shows, and the next write over what was read before is refused.
func TestAManualEditShows(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		d := open(t, Options{Config: l.User})
		const row = " WHERE kind = 'record' AND name = 'jobs'"
		for what, edits := range map[string][]string{
			"of the value":    {"UPDATE election_item SET value = REPLACE(value, 'before', 'after')" + row},
			"of spaces":       {"UPDATE election_item SET value = CONCAT(value, ' ')" + row},
			"of the version":  {"UPDATE election_item SET version = CONCAT('x', version)" + row},
			"of the case":     {"UPDATE election_item SET version = UPPER(version)" + row},
			"a row of others": {"DELETE FROM election_item" + row, "INSERT INTO election_item SELECT kind, 'jobs', value, version, created, at FROM election_item WHERE kind = 'record' AND name = 'others'"},
		} {
			v := testbed.Read(t, d, recordKey("jobs"), recordKey("others"))
			testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: "before"}, &lease.Record{Election: "others", Term: 1})
			v = testbed.Read(t, d, recordKey("jobs"))
			if v.Items[0].Edited {
				t.Errorf("before an edit %s: %+v", what, v.Items[0])
			}
			l.exec(t, edits...)
			if now := testbed.Read(t, d, recordKey("jobs")).Items[0]; !now.Edited || now.Version == v.Items[0].Version {
				t.Errorf("an edit %s: %+v, before it was %+v", what, now, v.Items[0])
			}
			if results, err := testbed.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 2}); err != nil || results[0].Outcome != backend.Refused {
				t.Errorf("a write after an edit %s: %+v, %v; want it refused", what, results, err)
			}
		}
		v := testbed.Read(t, d, recordKey("jobs"))
		l.exec(t, "DELETE FROM election_item"+row)
		if results, err := testbed.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 2}); err != nil || results[0].Outcome != backend.Refused {
			t.Errorf("a write over a deleted row: %+v, %v; want it refused", results, err)
		}
		if now := testbed.Read(t, d, recordKey("jobs")).Items[0]; now.Version != "" {
			t.Errorf("a deleted row: %+v", now)
		}
	})
}

// A restored or edited row may have any time, also one whose age is no duration.
func TestARowOfAnyTimeIsRead(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		d := open(t, Options{Config: l.User})
		v := testbed.Read(t, d, recordKey("jobs"))
		testbed.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
		for _, at := range []string{"1000-01-01", "9999-12-31 23:59:59"} {
			l.exec(t, "UPDATE election_item SET at = '"+at+"'")
			if v, err := d.Read(t.Context(), []lease.Key{recordKey("jobs")}); err != nil || v.Items[0].Age < 0 || v.Items[0].Version == "" {
				t.Errorf("written %s: %+v, %v", at, v.Items, err)
			}
		}
	})
}

// What operators do by hand has the end that the documentation promises: a leader whose row is changed
// or deleted steps down, and there is never a second one before that.
func TestAnEditedLeadershipEnds(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for what, edit := range map[string]string{
			"UPDATE": `UPDATE election_item SET value = JSON_SET(value, '$.id', 'me') WHERE kind = 'record'`,
			"DELETE": "DELETE FROM election_item WHERE kind = 'record'",
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, testbed.Shared(t, k))
				o := Options{Config: l.User, MaxTTL: 4 * time.Second}
				a, b := join(t, "a", 3*time.Second, o), join(t, "b", 3*time.Second, o)
				first, err := a.Campaign(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Lead(nil); err != nil {
					t.Fatal(err)
				}
				l.exec(t, edit)
				testbed.Eventually(t, patience, "b leads", func() error {
					if b.Leading() {
						return nil
					}
					return errors.New(b.Current().String())
				})
				if a.Leading() {
					t.Error("two leaders")
				}
				if now := b.Leadership(); now != nil && now.Term <= first.Term {
					t.Errorf("term %d after %d", now.Term, first.Term)
				}
			})
		}
	})
}

// A row that somebody else has locked, or has inserted, costs its own election only.
func TestALockedRowCostsItsElectionOnly(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		d := open(t, Options{Config: l.User})
		v := testbed.Read(t, d)
		testbed.MustPut(t, d, &v, &lease.Record{Election: "fenced", Term: 1}, &lease.Record{Election: "free", Term: 1})
		v = testbed.Read(t, d, recordKey("fenced"), recordKey("free"))
		unlock := l.lock(t, "SELECT * FROM election_item WHERE kind = 'record' AND name = 'fenced' FOR UPDATE")
		defer unlock()
		results, err := testbed.Put(t, d, &v, &lease.Record{Election: "fenced", Term: 2}, &lease.Record{Election: "free", Term: 2})
		if err != nil || results[0].Outcome != backend.Unknown || !errors.Is(results[0].Err, backend.ErrUnavailable) || results[1].Outcome != backend.Granted {
			t.Errorf("beside a locked row: %+v, %v; want that change unavailable, and the other one granted", results, err)
		}
		if v = testbed.Read(t, d, recordKey("fenced")); v.Items[0].Value.(*lease.Record).Term != 1 {
			t.Errorf("a locked row was written: %+v", v.Items[0])
		}
		unlock()
		testbed.MustPut(t, d, &v, &lease.Record{Election: "fenced", Term: 2})

		undo := l.lock(t, "INSERT INTO election_item (kind, name, value, version, created, at) VALUES ('record', 'taken', '{}', '', '', UTC_TIMESTAMP(6))")
		defer undo()
		results, err = testbed.Put(t, d, &v, &lease.Record{Election: "taken", Term: 1}, &lease.Record{Election: "new", Term: 1})
		if err != nil || !errors.Is(results[0].Err, backend.ErrUnavailable) || results[1].Outcome != backend.Granted {
			t.Errorf("beside a row that is being inserted: %+v, %v; want that change unavailable, and the other one granted", results, err)
		}
		undo()
		l.exec(t, "INSERT INTO election_item (kind, name, value, version, created, at) VALUES ('record', 'taken', '{}', '', '', UTC_TIMESTAMP(6))")
		if results, err = testbed.Put(t, d, &v, &lease.Record{Election: "taken", Term: 1}); err != nil || results[0].Outcome != backend.Refused {
			t.Errorf("after the insertion: %+v, %v; want it refused", results, err)
		}
	})
}

// Somebody who keeps the row of a record locked ends no leadership.
func TestALockedRecordIsRenewed(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		const ttl = 2 * time.Second
		l := newLab(t, testbed.Shared(t, k))
		led, err := join(t, "a", ttl, Options{Config: l.User}).Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer l.lock(t, "SELECT * FROM election_item WHERE kind = 'record' FOR UPDATE")()
		select {
		case <-led.Context().Done():
			t.Errorf("it has ended: %v", context.Cause(led.Context()))
		case <-time.After(2 * ttl):
		}
	})
}

// Text of a candidate cannot become SQL, whatever the modes of the server, and names are compared byte by byte.
func TestHostileTextIsOnlyText(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		for _, mode := range []string{"''", "'NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH'"} {
			d := open(t, Options{Config: clone(l.User, func(c *mysql.Config) { c.Params = map[string]string{"sql_mode": mode} })})
			var keys []lease.Key
			var records []*lease.Record
			for _, name := range []string{`'; DROP TABLE election_item; -- `, `\'; SELECT 1`, `\`, `"`, "`", `{payload} {table} ?`, "é€𝄞\u2028\u202e", "👑", "A", "a", "a ", "á", "%", strings.Repeat("é", 127)} {
				keys = append(keys, recordKey(name))
				records = append(records, &lease.Record{Election: name, Term: 1, ID: name, Metadata: name + "\x00\x1b"})
			}
			v := testbed.Read(t, d, keys...)
			testbed.MustPut(t, d, &v, records...)
			for _, r := range records {
				got, ok := testbed.Read(t, d, recordKey(r.Election)).Items[0].Value.(*lease.Record)
				if !ok || lease.Encode(got) != lease.Encode(r) {
					t.Errorf("in the mode %s %q is read as %+v", mode, r.Election, got)
				}
			}
		}
	})
}

// Processes with different greatest TTLs would wait differently after a failover.
func TestAllProcessesHaveTheSameMaxTTL(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Shared(t, k))
		testbed.Read(t, open(t, Options{Config: l.User, MaxTTL: 20 * time.Second}))
		_, err := open(t, Options{Config: l.User}).Read(t.Context(), nil)
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "max_ttl is 15s") || !strings.Contains(err.Error(), "is 20s") {
			t.Errorf("a process with another max_ttl: %v; want ErrDenied with both", err)
		}
		// What docs/mysql.md says to change it.
		l.exec(t, "DELETE FROM election_item WHERE kind = 'origin'")
		testbed.Read(t, open(t, Options{Config: l.User}))
	})
}

// Settings of the server, its init_connect and the DSN have no effect on what the driver does.
func TestAnySettingsOfTheSessionWillDo(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Shared(t, k)
		params := map[string]string{
			"autocommit": "0", "completion_type": "CHAIN", "sql_mode": "'NO_BACKSLASH_ESCAPES,ANSI_QUOTES,NO_ZERO_DATE'", "time_zone": "'+05:45'", "timestamp": "1000000000",
			"sql_select_limit": "1", "sql_safe_updates": "1", "lock_wait_timeout": "1", "innodb_lock_wait_timeout": "1000", "sql_big_selects": "0", "max_join_size": "1",
			"character_set_results": "latin1", "sql_auto_is_null": "1", "unique_checks": "0", "foreign_key_checks": "0", "group_concat_max_len": "4", "div_precision_increment": "0",
		}
		for name, value := range map[testbed.Kind]map[string]string{
			testbed.MySQL:   {"transaction_isolation": "SERIALIZABLE", "max_execution_time": "1", "transaction_read_only": "1"},
			testbed.MariaDB: {"tx_isolation": "SERIALIZABLE", "max_statement_time": "0.001", "tx_read_only": "1", "sql_if_exists": "1"},
		}[k] {
			params[name] = "'" + value + "'"
			if value[0] < 'A' {
				params[name] = value
			}
		}
		leasetest.Run(t, leasetest.Harness{NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			l := newLab(t, server)
			return func(t testing.TB) lease.Driver {
				return open(t, Options{Config: clone(l.User, func(c *mysql.Config) { c.Params = params })})
			}
		}})
	})
}
