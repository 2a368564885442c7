package elect

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

func (a *app) forgetCommand() *cobra.Command {
	return a.addYes(&cobra.Command{
		Use: "forget NAME…", Short: "Retire elections that are no longer needed", Args: cobra.MinimumNArgs(1),
		Long: `Retire the elections NAME, so that status, watch, serve and the page leave them out. A NAME can be
a pattern of the shell, in quotes: 'shard/*' stands for each election whose name it matches.

Stop its candidates first: a candidate that still campaigns leads NAME again, and then NAME
is not forgotten. It is an error if somebody leads NAME. Elect first shows what it would
forget; without a terminal and without --yes it does no more. After a leader has failed, elect waits
until its lease has expired. The store keeps the last term, some hundred bytes, so that terms
grow if NAME is ever led again.`,
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
		for _, r := range named {
			switch {
			case r.Term == 0:
				return errNeverLed(r.Election)
			case r.Forgotten():
				fmt.Fprintf(a.out, "%q is forgotten already.\n", r.Election)
			default:
				records = append(records, r)
			}
		}
	}
	if len(records) == 0 {
		return nil
	}
	for _, r := range records {
		fmt.Fprintf(a.diag, "%s, last led by %s\n", r.Election, cmp.Or(r.Holder.ID, r.LastID, "nobody known"))
	}
	if err := a.confirm("This retires %d of the store's elections. Stop their candidates first.", len(records)); err != nil {
		return err
	}

	m, err := openManager(ctx, s.config, false)
	if err != nil {
		return err
	}
	defer m.Close(context.Background()) // it holds no lease, so there is nothing to wait for
	for _, r := range records {
		if err := a.forgetOne(ctx, s, m, r); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) forgetOne(ctx context.Context, s *store, m *election.Manager, r backend.Record) error {
	name := r.Election
	ctx, cancel := context.WithTimeout(ctx, s.takeover(r.TTL))
	defer cancel()
	if err := m.Forget(ctx, name); err != nil {
		return err
	}
	r, err := s.record(ctx, name)
	if err == nil && !r.Forgotten() {
		return fmt.Errorf("%q leads %q again; stop the candidates of %[2]q first", r.Holder.ID, name)
	}
	fmt.Fprintf(a.out, "%q is forgotten.\n", name)
	return err
}

// takeover returns the longest time until a candidate is elected, after a leader with this TTL
// has failed.
func (s *store) takeover(ttl time.Duration) time.Duration {
	return max(ttl, s.TTL) + s.TTL + s.FailoverDelay + s.IncumbentGrace + 5*time.Second
}
