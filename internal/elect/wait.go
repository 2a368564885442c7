package elect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

func (a *app) waitCommand() *cobra.Command {
	var until string
	var limit time.Duration
	c := &cobra.Command{
		Use: "wait NAME", Short: "Wait until somebody leads, or until nobody does", Args: cobra.ExactArgs(1),
		Long: fmt.Sprintf(`Wait until somebody leads NAME, or with --until vacant until nobody does, and print
who it is or was. The code is %d if it has not happened within --wait.`, exitTimeout),
		Example: example(withRun + "elect wait billing --wait 1m\nkill $!\n" +
			"elect wait billing --until vacant --wait 1m\nwait"),
		RunE: func(c *cobra.Command, args []string) error {
			kind, ok := map[string]election.Kind{"leader": election.Elected, "vacant": election.Vacant}[until]
			if !ok {
				return fmt.Errorf("--until is %q; it must be leader or vacant", until)
			}
			reached := func(ev election.Event) bool { return ev.Kind == kind }
			_, err := a.await(c.Context(), args[0], limit, reached)
			return err
		},
	}
	c.Flags().StringVar(&until, "until", "leader", "what to wait for: leader or vacant")
	c.Flags().DurationVar(&limit, "wait", 0, "wait for at most this time (default: for ever)")
	return c
}

// await observes an election until reached, and prints that event. After limit the code is exitTimeout.
func (a *app) await(
	ctx context.Context, name string, limit time.Duration, reached func(election.Event) bool,
) (last election.Event, err error) {
	log := slog.New(slog.NewTextHandler(a.diag, &slog.HandlerOptions{Level: slog.LevelWarn}))
	err = a.observing(ctx, limit, []string{name}, log, func(ctx context.Context, m *election.Manager) error {
		e := m.Election(name)
		for last = range e.Events(ctx) {
			if reached(last) {
				_, err := fmt.Fprintln(a.out, clean.Text(last.String(), 1024, false))
				return err
			}
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			a.code = exitTimeout
			now := clean.Text(e.Current().String(), 1024, false)
			return fmt.Errorf("%q: it has not happened within %v; now: %s", name, limit, now)
		}
		return ctx.Err()
	})
	return last, err
}
