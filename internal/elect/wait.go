package elect

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// exitTimeout is the exit code of a command that has waited for as long as it was told to, as that of timeout(1).
const exitTimeout = 124

// errWaited is the error of a wait that took too long.
var errWaited = errors.New("it has not happened in time")

func (a *app) waitCommand() *cobra.Command {
	var until string
	var limit time.Duration
	c := &cobra.Command{
		Use: "wait NAME", Short: "Wait until somebody leads, or until nobody does", Args: cobra.ExactArgs(1),
		Long: fmt.Sprintf(`Wait until somebody leads NAME, or with --until vacant until nobody does, and print who it is or
was. The code is 0 then, and %d if it has not happened within --wait. A store that does not
answer yet is waited for. Waiting needs no right to write, and never campaigns.`, exitTimeout),
		Example: example(withRun + "elect wait billing --wait 1m\nkill $!\nelect wait billing --until vacant --wait 1m\nwait"),
		RunE: func(c *cobra.Command, args []string) error {
			reached := func(ev election.Event) bool { return ev.Kind == election.Elected }
			switch {
			case until != "leader" && until != "vacant":
				return fmt.Errorf("--until is %q; it must be leader or vacant", until)
			case limit < 0:
				return fmt.Errorf("--wait is %v; it must not be negative", limit)
			case until == "vacant":
				reached = func(ev election.Event) bool { return ev.Kind == election.Vacant }
			}

			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			ev, err := a.await(ctx, args[0], limit, reached)
			if errors.Is(err, errWaited) {
				a.code = exitTimeout
				return fmt.Errorf("%q: %w; now: %s", args[0], err, clean.Text(ev.String(), 1024, false))
			} else if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.out, clean.Text(ev.String(), 1024, false))
			return err
		},
	}
	c.Flags().StringVar(&until, "until", "leader", "what to wait for: leader or vacant")
	c.Flags().DurationVar(&limit, "wait", 0, "wait for at most this time (default: for ever)")
	return c
}

// await observes an election until reached, and returns the event that did it. With a limit, it returns errWaited and the
// last event when the time is over.
func (a *app) await(ctx context.Context, name string, limit time.Duration, reached func(election.Event) bool) (last election.Event, err error) {
	config, err := a.load()
	if err != nil {
		return last, err
	}
	config.Election.ID, config.Election.Observer = "", true // the id belongs to another process
	m, err := config.Open(ctx)
	if err != nil {
		return last, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m.Close(end)
	}()
	e, err := m.Join(name)
	if err != nil {
		return last, err
	}

	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errWaited)
		defer cancel()
	}
	events := make(chan election.Event, 1)
	e.Watch(func(ev election.Event) {
		select {
		case events <- ev:
		case <-ctx.Done():
		}
	})
	for {
		select {
		case last = <-events:
			if last.Kind != election.Notice && reached(last) {
				return last, nil
			}
		case <-ctx.Done():
			return e.Current(), context.Cause(ctx)
		}
	}
}
