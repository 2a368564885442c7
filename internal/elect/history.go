package elect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/electionhttp"
)

func (a *app) historyCommand() *cobra.Command {
	return a.addJSON(&cobra.Command{
		Use: "history NAME", Args: cobra.ExactArgs(1),
		Short:   fmt.Sprintf("Show the current leadership and the last %d", backend.MaxHistory),
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

// writeHistory writes a row for each leadership, newest first, and one for each second or more without any.
func (r sighting) writeHistory(w io.Writer) {
	list, last := slices.Clone(r.History), backend.Leadership{Term: r.Term, ID: r.LastID, End: r.End}
	if !r.Vacant() {
		last.ID, last.From, last.End = r.Holder.ID, r.Elected, "leads"
	}
	if r.silent {
		last.End = backend.End(fmt.Sprintf("silent: has not renewed for %v", rounded(r.Age)))
	}
	if len(list) == 0 || list[0].Term != r.Term { // it leads, or its times are not kept yet
		list = slices.Insert(list, 0, last)
	}

	t := table(w)
	defer t.Flush()
	row := func(term any, id string, from, to time.Time, end string) {
		length := to.Sub(from).Round(time.Millisecond).String()
		if from.IsZero() || to.IsZero() {
			length = "-"
		}
		fmt.Fprintf(t, "%v\t%s\t%s\t%s\t%s\t%s\n", term, id, timeText(from), timeText(to), length, end)
	}
	fmt.Fprintln(t, "TERM\tLEADER\tFROM\tTO\tFOR\tEND")
	var next time.Time // when the leadership in the row above began
	for i, l := range list {
		if !l.To.IsZero() && (i == 0 || next.Sub(l.To) >= time.Second) {
			row("-", "nobody", l.To, next, "vacant")
		}
		row(l.Term, l.ID, l.From, l.To, endText(l.End))
		next = l.From
	}
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.DateTime)
}

func endText(end backend.End) string { return cmp.Or(string(end), "how it ended is unknown") }
