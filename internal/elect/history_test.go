package elect

import (
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
)

// "elect history" shows past leaders, times without a leader, and a silent leader.
func TestHistoryShowsTimesWithoutALeader(t *testing.T) {
	at := func(text string) time.Time {
		moment, err := time.Parse(time.DateTime, "2026-06-01 "+text)
		if err != nil {
			t.Fatal(err)
		}
		return moment
	}
	leaderships := []backend.Leadership{
		{Term: 6, ID: "a", From: at("02:10:00"), To: at("02:25:23"), End: backend.Failed},
		{Term: 5, ID: "b", From: at("02:00:00"), To: at("02:10:00").Add(-20 * time.Millisecond), End: backend.Released},
	}
	leads := backend.Lease{Election: "jobs", Term: 7, Holder: backend.Candidate{ID: "c", Nonce: "n"}, TTL: 10 * time.Second, Age: 45 * time.Second}
	for _, c := range []struct {
		what   string
		record backend.Record
		silent bool
		want   []string // the first lines
	}{
		{"led", backend.Record{Lease: leads, Elected: at("02:30:09"), History: leaderships}, false, []string{
			"7 c 2026-06-01 02:30:09 - - leads",
			"- nobody 2026-06-01 02:25:23 2026-06-01 02:30:09 4m46s vacant",
			"6 a 2026-06-01 02:10:00 2026-06-01 02:25:23 15m23s failed",
			"5 b 2026-06-01 02:00:00 2026-06-01 02:09:59 9m59.98s released",
		}},
		{"silent", backend.Record{Lease: leads, Elected: at("02:30:09")}, true, []string{
			"7 c 2026-06-01 02:30:09 - - silent: has not renewed for 45s",
		}},
		{"vacant", backend.Record{Lease: backend.Lease{Term: 6, LastID: "a", End: backend.Failed}, History: leaderships}, false, []string{
			"- nobody 2026-06-01 02:25:23 - - vacant",
			"6 a 2026-06-01 02:10:00 2026-06-01 02:25:23 15m23s failed",
		}},
		{"vacant since the store ended a session", backend.Record{Lease: backend.Lease{Term: 8, LastID: "d", End: backend.Failed}}, false, []string{
			"8 d - - - failed",
		}},
	} {
		var lines []string
		var text strings.Builder
		sighting{c.record, c.silent}.writeHistory(&text)
		for line := range strings.Lines(text.String()) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		for i, want := range c.want {
			if got := append(lines, make([]string, len(c.want))...)[i+1]; got != want {
				t.Errorf("%s: line %d of the history is %q, want %q", c.what, i+1, got, want)
			}
		}
	}
}
