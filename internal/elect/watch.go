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
		Use: "watch [NAME]", Short: "Follow who leads: a line for each change, in JSON in a pipe", Args: cobra.MaximumNArgs(1),
		Long: `Follow one election, or all elections of the store: the states at the start, and then each change.
In a pipe, or with --json, each line is JSON. The state at the start, and that when the store can be
reached again, have "first": true, because they may be no change.`,
		Example: example(withRun + "elect watch billing --for 2s\nelect watch --json --for 2s" + endOfRun),
		RunE: func(c *cobra.Command, args []string) error {
			out, ok := a.out.(*os.File)
			a.asJSON = a.asJSON || !ok || !isTerminal(out)
			return a.observing(c.Context(), limit, args, nil, func(ctx context.Context, m *election.Manager) error {
				return a.watch(ctx, m, len(args) == 0)
			})
		},
	})
	c.Flags().DurationVar(&limit, "for", 0, "end after this time (default: run until interrupted)")
	return c
}

// watch writes a line for each event until ctx ends, of all elections of the store or of those that m has
// joined.
func (a *app) watch(ctx context.Context, m *election.Manager, all bool) error {
	m.Watch(func(ev election.Event) { // begins with the present states
		switch {
		case ev.Kind == election.Unknown && ev.Reason == election.ReasonCurrent && ev.Err == nil: // the store has not been read yet
		case a.asJSON:
			a.json(electionhttp.NewChange(ev))
		default:
			fmt.Fprintf(a.out, "%s  %s\n", ev.Time.Local().Format(time.DateTime), clean.Text(ev.String(), 1024, false))
		}
	})
	if all {
		a.follow(ctx, m, func(error) {})
	}
	<-ctx.Done()
	return nil
}
