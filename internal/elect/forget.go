package elect

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) forgetCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "forget NAME", Short: "Retire an election that is no longer needed", Args: cobra.ExactArgs(1),
		Long: `Retire the election NAME, so that list, watch, serve and the page leave it out.

Stop its candidates first: a candidate that still campaigns leads NAME again, and then NAME
is not forgotten. It is an error if somebody leads NAME. After a leader has failed, elect waits
until its lease has expired. The store keeps the last term, some hundred bytes, so that terms
grow if NAME is ever led again.`,
		Example: example(onStore + "\nelect run billing -- true\nelect forget billing --yes\nelect list"),
		RunE:    func(c *cobra.Command, args []string) error { return a.forget(c.Context(), args[0], yes) },
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
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
		return errNeverLed(name)
	case r.Forgotten():
		fmt.Fprintf(a.out, "%q is forgotten already.\n", name)
		return nil
	}
	if !yes {
		if err := a.confirm(fmt.Sprintf("This retires %q. Stop its candidates first.", name)); err != nil {
			return err
		}
	}
	conf := *s.config
	conf.Election.ID, conf.Election.Observer = "", false
	m, err := conf.Open(ctx)
	if err != nil {
		return err
	}
	defer m.Close(context.Background()) // it holds no lease, so there is nothing to wait for
	ctx, cancel := context.WithTimeout(ctx, s.takeover(r.TTL))
	defer cancel()
	if err := m.Forget(ctx, name); err != nil {
		return err
	}
	if r, err = s.record(ctx, name); err == nil && !r.Forgotten() {
		return fmt.Errorf("%q leads %q again; stop the candidates of %[2]q first", r.Holder.ID, name)
	}
	fmt.Fprintf(a.out, "%q is forgotten.\n", name)
	return err
}

// takeover returns the longest time until a candidate is elected, after a leader with this TTL
// has failed.
func (s *store) takeover(ttl time.Duration) time.Duration {
	return max(ttl, s.TTL) + s.TTL + s.Guarantees().Takeover + s.FailoverDelay + s.IncumbentGrace + 5*time.Second
}
