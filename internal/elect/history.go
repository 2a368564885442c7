package elect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
)

func (a *app) history(ctx context.Context, name string, asJSON bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := s.record(ctx, name)
	if err != nil {
		return err
	}
	if asJSON {
		return a.json(stateOf(r))
	}
	if r.Term == 0 {
		return errNeverLed(name)
	}
	records := []backend.Record{r}
	silent, err := s.silent(ctx, records)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprint(a.out, historyTable(records[0], silent[name])); err != nil {
		return err
	}
	fmt.Fprintln(a.out, "Times are UTC, by the store's clock. No decision depends on them.")
	return nil
}

func errNeverLed(name string) error {
	return fmt.Errorf("%q has never had a leader, or this store keeps no record of it", name)
}

// historyTable has a row for each leadership, newest first, and a row for each time of a second
// or more between two of them, in which nobody led.
func historyTable(r backend.Record, silent bool) (t table) {
	row := func(term any, id string, from, to time.Time, end string) {
		t.row(term, id, from.Format(time.DateTime), to.Format(time.DateTime), to.Sub(from).Round(time.Millisecond), end)
	}
	t.row("TERM", "LEADER", "FROM", "TO", "FOR", "END")
	next := time.Time{} // when the leadership in the row above began; zero: the election is vacant
	switch {
	case r.Vacant() && (len(r.History) == 0 || r.History[0].Term != r.Term):
		t.row(r.Term, r.LastID, "-", "-", "-", endText(r.End)) // the store does not keep its times yet
		next = time.Now()
	case !r.Vacant():
		end := "leads"
		if silent {
			end = fmt.Sprintf("silent: has not renewed for %v", rounded(r.Age))
		}
		next = r.Elected
		t.row(r.Term, r.Holder.ID, r.Elected.Format(time.DateTime), "-", "-", end)
	}
	for _, h := range r.History {
		if next.IsZero() {
			t.row("-", "nobody", h.To.Format(time.DateTime), "-", "-", "vacant")
		} else if next.Sub(h.To) >= time.Second {
			row("-", "nobody", h.To, next, "vacant")
		}
		row(h.Term, h.ID, h.From, h.To, strings.TrimSpace(string(h.End)))
		next = h.From
	}
	return t
}

func endText(end backend.End) string {
	if end == "" {
		return "how it ended is unknown"
	}
	return string(end)
}
