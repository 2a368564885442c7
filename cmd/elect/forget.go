package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) forgetCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "forget NAME", Short: "Retire an election that is not needed any more", Args: cobra.ExactArgs(1),
		Long: `Retire the election NAME, so that list, watch, serve and the page leave it out.

Stop its candidates first: one that still campaigns leads it again, and then it is not
forgotten. While somebody leads, it is an error. If a leader has failed, its lease runs out
first. The store keeps the last term, some hundred bytes: terms grow if NAME is ever led again.`,
		Example: example(onStore + "\nelect run billing -- true\nelect forget billing --yes\nelect list"),
		RunE:    func(c *cobra.Command, args []string) error { return a.forget(c.Context(), args[0], yes) },
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func (a *app) forget(ctx context.Context, name string, yes bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := s.record(ctx, name)
	switch {
	case err != nil:
		return err
	case r.Term == 0:
		return fmt.Errorf("nobody has led %q yet, or this store keeps nothing of it", name)
	case r.Forgotten():
		fmt.Fprintf(a.out, "%q is forgotten already.\n", name)
		return nil
	}
	if !yes {
		if err := a.confirm(fmt.Sprintf("This retires %q. Its candidates should have been stopped.", name)); err != nil {
			return err
		}
	}
	conf := *s.config
	conf.Election.ID, conf.Election.Observer = "", false
	m, err := conf.Open(ctx)
	if err != nil {
		return err
	}
	defer m.Close(context.Background()) // of nothing that is held
	ctx, cancel := context.WithTimeout(ctx, s.takeover(r.TTL))
	defer cancel()
	if err := m.Forget(ctx, name); err != nil {
		return err
	}
	if r, err = s.record(ctx, name); err == nil && !r.Forgotten() {
		return fmt.Errorf("%q leads %q again: stop its candidates first", r.Holder.ID, name)
	}
	fmt.Fprintf(a.out, "%q is forgotten.\n", name)
	return err
}

// takeover is how long it takes at most to be elected where nobody leads any more, whose
// leases lasted so long.
func (s *store) takeover(ttl time.Duration) time.Duration {
	return max(ttl, s.TTL) + s.TTL + s.Guarantees().Takeover + s.FailoverDelay + s.IncumbentGrace + 5*time.Second
}
