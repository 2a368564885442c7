package elect

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
)

func (a *app) forgetCommand() *cobra.Command {
	return a.addYes(&cobra.Command{
		Use: "forget NAME…", Short: "Retire elections that are no longer needed", Args: cobra.MinimumNArgs(1),
		Long: `Retire the elections NAME, or those that a pattern matches, so that status, watch and serve
leave them out. Stop their candidates first: one that still campaigns leads NAME again.

It is an error if somebody leads NAME. After a leader has failed, elect waits until its lease has
expired. The store keeps the last term, so that terms grow if NAME is ever led again.`,
		Example: example(onStore + "\nelect run billing -- true\nelect forget billing --yes\nelect status"),
		RunE:    a.withStore(a.forget),
	})
}

func (a *app) forget(ctx context.Context, s *store, args []string) error {
	var records []backend.Record // of the elections to forget
	for _, arg := range args {
		named, err := s.named(ctx, arg)
		if err != nil {
			return err
		}
		records = append(records, named...)
	}
	for _, r := range records {
		if r.Term == 0 {
			return errNeverLed(r.Election)
		}
		fmt.Fprintf(a.diag, "%s, last led by %s\n", r.Election, cmp.Or(r.Holder.ID, r.LastID, "nobody known"))
	}
	err := a.confirm("This retires %d of the store's elections. Stop their candidates first.", len(records))
	if err != nil {
		return err
	}

	m, err := openManager(ctx, s.config, false)
	if err != nil {
		return err
	}
	defer m.Close(context.Background()) // it holds no lease, so there is nothing to wait for
	for _, r := range records {
		limited, cancel := context.WithTimeout(ctx, s.takeover(r.TTL))
		err := m.Forget(limited, r.Election)
		cancel()
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%q is forgotten.\n", r.Election)
	}
	return nil
}

// takeover returns the longest time until a candidate leads after one with this TTL has failed.
func (s *store) takeover(ttl time.Duration) time.Duration {
	return max(ttl, s.TTL) + s.TTL + s.FailoverDelay + s.IncumbentGrace + 5*time.Second
}
