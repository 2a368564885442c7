package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/testrules"
	"github.com/go-election/go-election/lab/testbed"
)

// A SQLTable is the table of a SQL driver on a real server, whose rows an operator or another program edits
// and locks.
type SQLTable struct {
	// Open opens another client of the driver. greatest is its MaxTTL; 0: the default.
	Open func(t testing.TB, greatest time.Duration) lease.Driver

	// Backend opens another client with the lease protocol.
	Backend func(t testing.TB) backend.Backend

	// Exec runs statements as the administrator.
	Exec func(t testing.TB, statements ...string)

	// Lock runs a statement in a transaction of the administrator, which unlock rolls back.
	Lock func(t testing.TB, statement string) (unlock func())

	// Edits change the record of the election jobs, each by some statements. There is another record, others.
	Edits map[string][]string

	// Times are those that a row may have after a restoration or an edit.
	Times []string

	// Insertion makes the record of the election taken.
	Insertion string
}

// RunSQLTable tests what a SQL driver must do beside others who edit rows and lock them. newTable makes a new
// table.
func RunSQLTable(t *testing.T, newTable func(t testing.TB) SQLTable) {
	for what, test := range map[string]func(SQLTable, testrules.T){
		"an edit by hand shows":                    SQLTable.editsShow,
		"a row of any time is read":                SQLTable.anyTimeIsRead,
		"a locked row costs its own election only": SQLTable.lockedRowCostsOneElection,
		"a locked record is renewed":               SQLTable.lockedRecordIsRenewed,
		"all processes have the same max_ttl":      SQLTable.allHaveOneMaxTTL,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			test(newTable(t), testrules.T{TB: t})
		})
	}
}

func record(name string, term uint64) *lease.Record { return &lease.Record{Election: name, Term: term} }

const jobsRow = " WHERE kind = 'record' AND name = 'jobs'"

// editsShow: an edit of any column shows, also one that puts the former text back, and the next write over
// what was read before is refused.
func (s SQLTable) editsShow(t testrules.T) {
	d := s.Open(t, 0)
	for what, edit := range s.Edits {
		v := Read(t, d, key("jobs"), key("others"))
		MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1, ID: "before"}, record("others", 1))
		v = Read(t, d, key("jobs"))
		was := v.Items[0]
		t.Want(!was.Edited, "before an edit %s: %+v", what, was)

		s.Exec(t, edit...)
		now := Read(t, d, key("jobs")).Items[0]
		t.Want(now.Edited && now.Version != was.Version, "an edit %s: %+v, before it was %+v", what, now, was)
		isRefused(t, d, &v, record("jobs", 2), "after an edit "+what)
	}

	v := Read(t, d, key("jobs"))
	s.Exec(t, "DELETE FROM election_item"+jobsRow)
	isRefused(t, d, &v, record("jobs", 2), "over a deleted row")
	now := Read(t, d, key("jobs")).Items[0]
	t.Want(now.Version == "", "a deleted row: %+v", now)
}

// isRefused writes a record over what was read before.
func isRefused(t testrules.T, d lease.Driver, v *lease.View, r *lease.Record, what string) {
	t.Helper()
	results, err := Put(t, d, v, r)
	t.Want(err == nil && results[0].Outcome == backend.Refused,
		"a write %s: %+v, %v; want it refused", what, results, err)
}

// anyTimeIsRead: a row may have a time that is no time, or whose age is no duration.
func (s SQLTable) anyTimeIsRead(t testrules.T) {
	d := s.Open(t, 0)
	v := Read(t, d, key("jobs"))
	MustPut(t, d, &v, record("jobs", 1))
	for _, at := range s.Times {
		s.Exec(t, "UPDATE election_item SET at = '"+at+"'"+jobsRow)
		v, err := d.Read(t.Context(), []lease.Key{key("jobs")})
		t.Want(err == nil && v.Items[0].Age >= 0 && v.Items[0].Version != "",
			"written %s: %+v, %v", at, v.Items, err)
		_, err = d.List(t.Context(), lease.Records, "", 10)
		t.Want(err == nil, "written %s: list: %v", at, err)
	}
}

// lockedRowCostsOneElection: what was sent with a change of a row that somebody has locked, or inserts, is
// done.
func (s SQLTable) lockedRowCostsOneElection(t testrules.T) {
	d := s.Open(t, 0)
	v := Read(t, d)
	MustPut(t, d, &v, record("free", 1), record("locked", 1))
	v = Read(t, d, key("free"), key("locked"))
	costsOne := func(what string, records ...*lease.Record) {
		t.Helper()
		results, err := Put(t, d, &v, records...)
		testbed.NoError(t, err)
		first := results[0]
		t.Want(first.Outcome == backend.Unknown && errors.Is(first.Err, backend.ErrUnavailable),
			"a change of %s: %+v; want it unavailable", what, first)
		for _, other := range results[1:] {
			t.Want(other.Outcome == backend.Granted, "beside %s: %+v; want others granted", what, other)
		}
	}

	unlock := s.Lock(t, "SELECT * FROM election_item WHERE kind = 'record' AND name = 'locked' FOR UPDATE")
	costsOne("a locked row", record("locked", 2), record("free", 2), record("new", 1))
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	change := over(v.Items[1], record("locked", 2))
	w, err := d.Write(short, v.Epoch, v.WentBack, []lease.Change{change}, nil)
	t.Want(err == nil && strings.Contains(fmt.Sprint(w.Results[0].Err), "keeps a row locked"),
		"a short change of a locked row: %+v, %v; want to be told what it waits for", w, err)
	v = Read(t, d, key("locked"))
	r := v.Items[0].Value.(*lease.Record)
	t.Want(r.Term == 1, "a locked row was written: %+v", r)
	unlock()
	MustPut(t, d, &v, record("locked", 2))

	undo := s.Lock(t, s.Insertion)
	costsOne("a row that is being inserted", record("taken", 1), record("other", 1))
	undo()
	s.Exec(t, s.Insertion)
	isRefused(t, d, &v, record("taken", 1), "after the insertion")
}

// lockedRecordIsRenewed: somebody who keeps the row of a record locked ends no leadership.
func (s SQLTable) lockedRecordIsRenewed(t testrules.T) {
	const ttl = 2 * time.Second
	led, err := Join(t, "a", ttl, s.Backend(t)).Campaign(t.Context())
	testbed.NoError(t, err)
	defer s.Lock(t, "SELECT * FROM election_item WHERE kind = 'record' FOR UPDATE")()
	KeepsLeading(t, led, 2*ttl)
}

// allHaveOneMaxTTL: processes with different greatest TTLs would wait differently after a failover.
func (s SQLTable) allHaveOneMaxTTL(t testrules.T) {
	Read(t, s.Open(t, 20*time.Second))
	_, err := s.Open(t, 0).Read(t.Context(), nil)
	text := fmt.Sprint(err)
	both := strings.Contains(text, "max_ttl is 15s") && strings.Contains(text, "is 20s")
	t.Want(errors.Is(err, backend.ErrDenied) && both, "another max_ttl: %v; want ErrDenied with both", err)

	// What the pages say to change it.
	s.Exec(t, "DELETE FROM election_item WHERE kind = 'origin'")
	Read(t, s.Open(t, 0))
}

// IsAnotherStore puts another table, whose rows are a copy, in the place of a table, and back. The other one
// is another store for a driver that knew the first, and for one that did not.
func IsAnotherStore(tb testing.TB, open func() lease.Driver, put, back func()) {
	t := testrules.T{TB: tb}
	knew := open()
	before := Read(t, knew, key("jobs"))
	MustPut(t, knew, &before, record("jobs", 1))
	put()
	_, err := Put(t, knew, &before, record("jobs", 2))
	t.Want(errors.Is(err, lease.ErrEpoch), "a change of what the former table had: %v, want ErrEpoch", err)

	after, fresh := Read(t, knew, key("jobs")), Read(t, open(), key("jobs"))
	t.Want(after.Epoch != before.Epoch, "the epoch is %s, as before", after.Epoch)
	t.Want(after.WentBack != before.WentBack, "it went back %d times, as before", after.WentBack)
	t.Want(fresh.Epoch == after.Epoch, "a new process reads the epoch %s, not %s", fresh.Epoch, after.Epoch)

	back()
	_, err = knew.Read(t.Context(), []lease.Key{key("jobs")})
	t.Want(errors.Is(err, backend.ErrDenied) && strings.Contains(err.Error(), "take turns"),
		"tables that take turns: %v, want ErrDenied", err)
}

// settingsName is a name that another character set would garble.
const settingsName = "jób 日本 €😀"

// WorksUnder makes a record, changes it, finds another change refused, and deletes all but it, with a driver
// whose connections have some setting. term differs from call to call.
func WorksUnder(ctx context.Context, d lease.Driver, term uint64) error {
	keys := []lease.Key{{Kind: lease.Metas}, key(settingsName), key(strings.ToUpper(settingsName))}
	put := func(v *lease.View, name string, r lease.Record) lease.Change {
		r.Election = name
		i := slices.IndexFunc(v.Items, func(it lease.Item) bool { return it.Name == name })
		return over(v.Items[i], &r)
	}
	for range 2 {
		v, err := d.Read(ctx, keys)
		if err != nil {
			return fmt.Errorf("a reading: %w", err)
		}
		for _, want := range []backend.Outcome{backend.Granted, backend.Refused} {
			w, err := d.Write(ctx, v.Epoch, v.WentBack, []lease.Change{
				put(&v, keys[1].Name, lease.Record{Term: 7, ID: "é€", Nonce: "n"}),
				put(&v, keys[2].Name, lease.Record{Term: term}),
			}, nil)
			if err != nil || w.Results[0].Outcome != want || w.Results[1].Outcome != want {
				return fmt.Errorf("a change: %+v, %w, want it %v", w.Results, err, want)
			}
		}
	}

	list, err := d.List(ctx, lease.Records, "", 100)
	both := err == nil && len(list.Items) == 2 && list.Items[0].Key == keys[2]
	if !both || list.Items[1].Value.(*lease.Record).ID != "é€" {
		return fmt.Errorf("a list: %+v, %w", list, err)
	}
	deletion := []lease.Change{{Put: []lease.Put{{Over: list.Items[0]}}}}
	w, err := d.Write(ctx, list.Epoch, list.WentBack, deletion, list.Items)
	if err != nil || w.Results[0].Outcome != backend.Granted || !slices.Equal(w.Stale, []int{0}) {
		return fmt.Errorf("a deletion: %+v, %w", w, err)
	}
	return nil
}

// FencedUnder is true of a fence: it lets the term pass under which the record of WorksUnder was written, and
// no other.
func FencedUnder(fenced error, check func(election string, term uint64) error) error {
	for term, want := range map[uint64]error{7: nil, 8: fenced} {
		if err := check(settingsName, term); !errors.Is(err, want) {
			return fmt.Errorf("a fence in term %d: %w", term, err)
		}
	}
	return nil
}
