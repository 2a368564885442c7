package elect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/electionhttp"
)

func (a *app) historyCommand() *cobra.Command {
	return a.addJSON(&cobra.Command{
		Use: "history NAME", Short: fmt.Sprintf("Show the current leadership and the last %d", backend.MaxHistory), Args: cobra.ExactArgs(1),
		Example: example(onStore + "\nelect run billing -- true\nelect history billing"),
		RunE:    a.withStore(a.history),
	})
}

func (a *app) history(ctx context.Context, s *store, args []string) error {
	r, err := s.observed(ctx, args[0])
	switch {
	case err != nil:
		return err
	case a.asJSON:
		return a.json(electionhttp.NewRecord(s.name(), r.Record, r.silent))
	case r.Term == 0:
		return errNeverLed(args[0])
	}
	r.writeHistory(a.out)
	_, err = fmt.Fprintln(a.out, "Times are UTC, by the store's clock. No decision depends on them.")
	return err
}

func errNeverLed(name string) error {
	return fmt.Errorf("%q has never had a leader, or this store keeps no record of it", name)
}

// writeHistory writes a row for each leadership, newest first, and a row for each time of a second
// or more between two of them, in which nobody led.
func (r sighting) writeHistory(w io.Writer) {
	t := table(w)
	defer t.Flush()
	row := func(term any, id string, from, to time.Time, end string) {
		fmt.Fprintf(t, "%v\t%s\t%s\t%s\t%v\t%s\n", term, id, from.Format(time.DateTime), to.Format(time.DateTime), to.Sub(from).Round(time.Millisecond), end)
	}
	open := func(term any, id, from, end string) { fmt.Fprintf(t, "%v\t%s\t%s\t-\t-\t%s\n", term, id, from, end) }

	fmt.Fprintln(t, "TERM\tLEADER\tFROM\tTO\tFOR\tEND")
	next := time.Time{} // when the leadership in the row above began; zero: the election is vacant
	switch {
	case r.Vacant() && (len(r.History) == 0 || r.History[0].Term != r.Term):
		open(r.Term, r.LastID, "-", endText(r.End)) // the store does not keep its times yet
		next = time.Now()
	case !r.Vacant():
		end := "leads"
		if r.silent {
			end = fmt.Sprintf("silent: has not renewed for %v", rounded(r.Age))
		}
		next = r.Elected
		open(r.Term, r.Holder.ID, r.Elected.Format(time.DateTime), end)
	}
	for _, h := range r.History {
		if next.IsZero() {
			open("-", "nobody", h.To.Format(time.DateTime), "vacant")
		} else if next.Sub(h.To) >= time.Second {
			row("-", "nobody", h.To, next, "vacant")
		}
		row(h.Term, h.ID, h.From, h.To, strings.TrimSpace(string(h.End)))
		next = h.From
	}
}

func endText(end backend.End) string { return cmp.Or(string(end), "how it ended is unknown") }
