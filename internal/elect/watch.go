package elect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
)

func (a *app) watchCommand() *cobra.Command {
	var asJSON bool
	var limit time.Duration
	c := &cobra.Command{
		Use: "watch [NAME]", Short: "Follow who leads: a line for each change, in JSON in a pipe", Args: cobra.MaximumNArgs(1),
		Long: `Follow one election, or all elections of the store: elect watch writes the states at the start, and
then each change. In a pipe, or with --json, each line is JSON. The state at the start, and the state
when the store can be reached again, have "first": true, because they may be no change. "unknown"
means that the store cannot be reached.

Watching needs no right to write, and never campaigns.`,
		Example: example(withRun + "elect watch billing --for 2s\nelect watch --json --for 2s" + endOfRun),
		RunE: func(c *cobra.Command, args []string) error {
			out, ok := a.out.(*os.File)
			asJSON = asJSON || !ok || !isTerminal(out)
			return a.observing(c.Context(), limit, args, nil, func(ctx context.Context, m *election.Manager) error {
				return a.watch(ctx, m, len(args) == 0, asJSON)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON lines, even on a terminal")
	c.Flags().DurationVar(&limit, "for", 0, "end after this time (default: run until interrupted)")
	return c
}

// watch writes a line for each event until ctx ends, of all elections of the store or of those that m has
// joined.
func (a *app) watch(ctx context.Context, m *election.Manager, all, asJSON bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	m.Watch(func(ev election.Event) { // begins with the present states
		switch {
		case ev.Kind == election.Unknown && ev.Reason == election.ReasonCurrent && ev.Err == nil: // the store has not been read yet
		case asJSON:
			a.json(electionhttp.NewChange(ev))
		default:
			fmt.Fprintf(a.out, "%s  %s\n", ev.Time.Local().Format(time.DateTime), clean.Text(ev.String(), 1024, false))
		}
	})
	failed := make(chan error, 1)
	if all {
		known := false
		go a.follow(ctx, m, func(err error) {
			if known = known || err == nil; !known && !errors.Is(err, backend.ErrUnavailable) {
				failed <- err // to wait for it does not help
			}
		})
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
