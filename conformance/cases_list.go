package conformance

import (
	"slices"
	"time"

	"github.com/go-election/go-election/backend"
)

var listCases = []Case{
	{Rule: "T1", Name: "records are ordered and paged", calls: listPages,
		Says: "List returns up to limit records whose names are not less than from, in byte order of names."},
	{Rule: "T2", Name: "a record keeps eight leaderships", calls: listHistory,
		Says: "A record keeps up to eight past leaderships, newest first, with term, id, times and end."},
	{Rule: "T3", Name: "a record shows the lease", calls: listLease,
		Says: "A record contains the lease as Observe returns it, and when the current leadership began, " +
			"or the zero time if the lease is vacant."},
	{Rule: "T4", Name: "a failed leadership ends with its lease", calls: listFailed,
		Says: "The leadership of a failed leader ends when its lease expires, and not when its successor " +
			"is elected. A store that loses the time of the last renewal shows the time of the next grant, " +
			"and never a time before that renewal."},
}

func listPages(t *Trial, a, _ *client) {
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

	next := a.list("aa", 2)
	ok := len(next) == 2 && next[0].Election == "aa" && next[1].Election == "b"
	require(expect(ok, next, "a list that begins with aa and b"))
}

// allPages reads a list in pages of up to limit, and returns the names of what it has, up to enough.
func allPages[T any](limit, enough int, list func(string, int) []T, name func(T) string) (got []string) {
	for from := ""; len(got) < enough; {
		items := list(from, limit)
		require(expect(len(items) <= limit, len(items), "at most %d items", limit))
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

func listHistory(t *Trial, a, b *client) {
	clients := []*client{a, b}
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
		require(equal(len(got), len(expected), "leaderships in the history after %d", i+1))
		for j, r := range got {
			bare := backend.Leadership{Term: r.Term, ID: r.ID, End: r.End}
			require(equal(bare, expected[j], "leadership %d of the history", j),
				expect(!r.From.IsZero() && !r.To.Before(r.From), r, "a leadership to end after it began"))
		}
	}
}

func listLease(t *Trial, a, b *client) {
	held := a.win("jobs")
	r := b.record("jobs")
	require(equal(asRead(r.Lease), asRead(b.read("jobs")), "lease in the record"),
		expect(!r.Elected.IsZero(), r.Elected, "the time when the leadership began"))

	since := r.Elected
	t.sleep(t.TTL / 50)
	held = a.keep(held)
	r = b.record("jobs")
	require(expect(r.Elected.Sub(since).Abs() < time.Millisecond, r.Elected, "a renewal to leave Elected"))

	a.release(backend.Released, held)
	r = b.record("jobs")
	require(expect(r.Elected.IsZero() && r.Vacant(), r, "a vacant record without a current leadership"))
}

func listFailed(t *Trial, a, b *client) {
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
	require(expect(len(r.History) > 0, r, "a record with its history"))

	past, slack := r.History[0], t.TTL/20+t.Late
	ago := r.Elected.Sub(past.To) // both by the store's clock
	require(equal(past.End, backend.Failed, "end of the leadership"),
		expect(ago <= time.Since(began)+slack, ago, "the failed leadership to end after its last renewal"))

	silent := elected.Sub(renewed)
	least := silent - t.TTL - slack
	storeKnows := !seen.Vacant() && seen.ObserveFor != backend.ExpiresInStore
	if storeKnows && seen.Age < elected.Sub(began)+slack && ago < least {
		fail("a leader renewed for the last time %v before the next election, for a TTL of %v: "+
			"expected its leadership to end at least %v before it, got %v", silent, t.TTL, least, ago)
	}
}
