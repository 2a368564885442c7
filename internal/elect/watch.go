package elect

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
)

func (a *app) watchCommand() *cobra.Command {
	var limit time.Duration
	c := a.addJSON(&cobra.Command{
		Use: "watch [NAME]", Short: "Follow who leads, line by line", Args: cobra.MaximumNArgs(1),
		Long: `Follow one election, or all of the store: the states at the start, and then each change. In a
pipe, or with --json, each line is JSON. The state at the start, and that when the store can be
reached again, have "first": true, because they may be no change.`,
		Example: example(withRun + "elect watch billing --for 2s\nelect watch --json --for 2s" + endOfRun),
		RunE: func(c *cobra.Command, args []string) error {
			out, ok := a.out.(*os.File)
			a.asJSON = a.asJSON || !ok || !isTerminal(out)
			return a.observing(c.Context(), limit, args, nil, a.watch)
		},
	})
	c.Flags().DurationVar(&limit, "for", 0, "end after this time (default: run until interrupted)")
	return c
}

// watch writes a line for each event until ctx ends, of the elections that m has joined, or else of all.
func (a *app) watch(ctx context.Context, m *election.Manager) error {
	all := len(m.Elections()) == 0
	m.Watch(func(ev election.Event) { // begins with the present states
		switch {
		case ev.Kind == election.Unknown && ev.Reason == election.ReasonCurrent && ev.Err == nil: // unread
		case a.asJSON:
			a.json(electionhttp.NewChange(ev))
		default:
			text := clean.Text(ev.String(), 1024, false)
			fmt.Fprintf(a.out, "%s  %s\n", ev.Time.Local().Format(time.DateTime), text)
		}
	})
	if all {
		a.follow(ctx, m, func(error) {})
	}
	<-ctx.Done()
	return nil
}
