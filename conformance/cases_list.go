package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

var listCases = []Case{
	{Rule: "T1", Name: "records are ordered and paged", Run: listPages,
		Says: "List returns up to limit records whose names are not less than from, in byte order of names."},
	{Rule: "T2", Name: "a record keeps eight leaderships", Run: listHistory,
		Says: "A record keeps up to eight past leaderships, newest first, each with its term, id, times and end."},
	{Rule: "T3", Name: "a record shows the lease", Run: listLease,
		Says: "A record contains the lease as Observe returns it, and when the current leadership began, or the zero time if the lease is vacant."},
	{Rule: "T4", Name: "a failed leadership ends with its lease", Run: listFailed,
		Says: "The leadership of a failed leader ends when its lease expires, and not when its successor is elected. A store that loses the time of the last renewal shows the time of the next grant, and never a time before that renewal."},
}

func listPages(t *Trial) {
	a := t.client("a")
	want := []string{"B", "a", "a ", "a/b", "aa", "b", "b%", "z", "\u00e9", "\U0001F600"}
	for i := range want {
		a.win(want[(7*i+3)%len(want)])
	}
	a.read("never led")

	for _, limit := range []int{1, 3, len(want), 1000} {
		got := allPages(limit, 3*len(want), a.list, func(r backend.Record) string { return r.Election })
		if !slices.Equal(got, want) {
			fail("pages of %d: expected %q, got %q", limit, want, got)
		}
	}

	records := a.list("aa", 2)
	require(expect(len(records) == 2 && records[0].Election == "aa" && records[1].Election == "b", "a list that begins with aa and b", fmt.Sprint(records)))
}

// allPages reads a list in pages of up to limit, and returns the names of what it has, up to enough.
func allPages[T any](limit, enough int, list func(from string, limit int) []T, name func(T) string) (got []string) {
	for from := ""; len(got) < enough; {
		items := list(from, limit)
		require(expect(len(items) <= limit, fmt.Sprintf("at most %d items", limit), len(items)))
		for _, it := range items {
			got = append(got, name(it))
		}
		if len(items) < limit {
			break
		}
		from = got[len(got)-1] + "\x00"
	}
	return got
}

func listHistory(t *Trial) {
	clients := []*client{t.client("a"), t.client("b")}
	var want []backend.Leadership // newest first
	ends := []backend.End{backend.Released, backend.Failed, backend.Deposed, backend.Forgotten}
	for i := range backend.MaxHistory + 3 {
		c := clients[i%2]
		held := c.win("jobs")
		t.sleep(t.TTL / 100)
		leadership := backend.Leadership{Term: held.Term, ID: c.candidate.ID, End: ends[i%len(ends)]}
		c.release(leadership.End, held)

		want = slices.Insert(want, 0, leadership)
		got := c.record("jobs").History
		expected := want[:min(len(want), backend.MaxHistory)]
		require(equal(fmt.Sprintf("leaderships in the history after %d", i+1), len(got), len(expected)))
		for j, r := range got {
			bare := backend.Leadership{Term: r.Term, ID: r.ID, End: r.End}
			require(equal(fmt.Sprintf("leadership %d of the history", j), bare, expected[j]),
				expect(!r.From.IsZero() && !r.To.Before(r.From), "a leadership to end after it began", fmt.Sprint(r.From, " to ", r.To)))
		}
	}
}

func listLease(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	r := b.record("jobs")
	require(equal("lease in the record", asRead(r.Lease), asRead(b.read("jobs"))), expect(!r.Elected.IsZero(), "the time when the leadership began", r.Elected))

	since := r.Elected
	t.sleep(t.TTL / 50)
	held = a.keep(held)
	r = b.record("jobs")
	require(expect(r.Elected.Sub(since).Abs() < time.Millisecond, "a renewal not to change Elected", r.Elected))

	a.release(backend.Released, held)
	r = b.record("jobs")
	require(expect(r.Elected.IsZero() && r.Vacant(), "a vacant record without a current leadership", fmt.Sprint(r)))
}

func listFailed(t *Trial) {
	a, b := t.client("a"), t.client("b")
	held := a.win("jobs")
	var began time.Time
	for range 3 {
		t.sleep(t.TTL / 2)
		began = time.Now()
		held = a.keep(held)
	}
	renewed := time.Now()
	a.crash()
	t.sleep(4 * t.TTL)

	seen := b.read("jobs")
	elected := time.Now()
	b.win("jobs")
	r := b.record("jobs")
	require(expect(len(r.History) > 0, "a record with its history", fmt.Sprint(r)))

	past, slack := r.History[0], t.TTL/20+t.Late
	ago := r.Elected.Sub(past.To) // both by the store's clock
	require(expect(past.End == backend.Failed && ago <= time.Since(began)+slack, "the failed leadership to end after its last renewal",
		fmt.Sprintf("%s, ended %v before the next one", past.End, ago)))

	storeKnows := !seen.Vacant() && seen.ObserveFor != backend.ExpiresInStore && seen.Age < elected.Sub(began)+slack
	if least := elected.Sub(renewed) - t.TTL - slack; storeKnows && ago < least {
		fail("a leader renewed for the last time %v before its successor was elected, for a TTL of %v: expected its leadership to end at least %v before the election, got %v", elected.Sub(renewed), t.TTL, least, ago)
	}
}
