package backend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

func TestARecordSaysSinceWhenItIsSo(t *testing.T) {
	began := time.Now().Add(-time.Hour)
	ended := began.Add(time.Minute)
	held := backend.Lease{Term: 2, Holder: backend.Candidate{ID: "a"}, TTL: time.Minute, Age: time.Second}
	silent := held
	silent.Age = 11 * time.Minute
	past := []backend.Leadership{{Term: 1, ID: "b", To: ended}}
	for what, c := range map[string]struct {
		record backend.Record
		want   time.Time
	}{
		"led":                        {backend.Record{Lease: held, Elected: began, History: past}, began},
		"silent, so its lease ended": {backend.Record{Lease: silent, Elected: began}, time.Now().Add(-10 * time.Minute)},
		"vacant":                     {backend.Record{Lease: backend.Lease{Term: 1}, History: past}, ended},
		"vacant, not yet recorded":   {backend.Record{Lease: backend.Lease{Term: 3}, History: past}, time.Time{}},
		"never led":                  {backend.Record{}, time.Time{}},
	} {
		if got := c.record.Since(); got.Sub(c.want).Abs() > time.Second {
			t.Errorf("%s: since %v, want %v", what, got, c.want)
		}
	}
}

// A list that has no room for all says so: then any election may be among the rest.
func TestAMemberNamesItsElections(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("job %03d", i) }
	for _, n := range []int{0, 1, 400, 1000} {
		m := backend.Member{Elections: backend.ElectionList(0, func(yield func(string) bool) {
			for i := range n {
				if !yield(name(i)) {
					return
				}
			}
		})}
		if len(m.Elections) > backend.MaxElections || clean.Member(m) != m {
			t.Errorf("the list of %d has %d bytes, or does not come back from a store", n, len(m.Elections))
		}
		for i := range n {
			if !m.CampaignsFor(name(i)) {
				t.Errorf("of %d elections %q is not among those of its list", n, name(i))
			}
		}
		if more := n == 1000; m.CampaignsFor("job") != more || m.CampaignsFor(name(n)) != more {
			t.Errorf("with %d elections it campaigns for others: %v, want %v", n, !more, more)
		}
	}
}
