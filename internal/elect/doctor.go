package elect

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// diagnostics are the lines of "elect doctor".
type diagnostics []backend.Diagnostic

func (d *diagnostics) add(grade, what, format string, args ...any) {
	*d = append(*d, backend.Diagnostic{
		What: what, Text: fmt.Sprintf(format, args...), Warning: grade == warning, Fatal: grade == problem,
	})
}

const fine, warning, problem = "ok", "warning", "problem" // the first words of lines

const trialElection = "elect-doctor"

func (a *app) doctorCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use: "doctor", Short: "Check the configuration and the store", Args: cobra.NoArgs,
		Long: fmt.Sprintf(`Check the configuration and the store as a member would use them: whether the store
answers fast enough; what of its servers can cost a leadership; what to expect after a crash.

Elect doctor only reads, except that it creates the directory of the file backend if needed,
and lets a few writers race on a scratch object of S3. With --write it also leads the election
%q for a moment, to prove the rights to write, and then forgets it.
The code is %d if there is a problem.`, trialElection, exitVacant),
		Example: example(onStore + "\nelect doctor\nelect doctor --write"),
		RunE: func(c *cobra.Command, _ []string) error {
			for _, d := range a.diagnose(c.Context(), write) {
				grade := fine
				if d.Fatal {
					a.code, grade = exitVacant, problem
				} else if d.Warning {
					grade = warning
				}
				text := strings.ReplaceAll(clean.Text(d.Text, 4096, true), "\n", "\n"+strings.Repeat(" ", 24))
				fmt.Fprintf(a.out, "%-8s %-14s %s\n", grade, d.What, text)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&write, "write", false, "lead an election for a moment, to prove the rights to write")
	return c
}

// diagnose runs all checks. It stops early if the store cannot be opened or read.
func (a *app) diagnose(ctx context.Context, write bool) (list diagnostics) {
	s, err := a.openStore(ctx)
	if err != nil {
		list.add(problem, "configuration", "%v", err)
		return list
	}
	defer s.Close()
	list.add(fine, "configuration", "backend %s, ttl %v, renew_every %v, call_timeout %v, clock_margin %v",
		s.config.Backend, s.TTL, rounded(s.RenewEvery), rounded(s.CallTimeout), rounded(s.ClockMargin))
	if err := s.checkReading(ctx, &list); err != nil {
		ctx, cancel := context.WithTimeout(ctx, s.CallTimeout)
		defer cancel()
		s.checkServers(ctx, &list) // they may say why
		list.add(problem, "store", "%v\nNothing else was checked.", err)
		return list
	}
	if err := s.checkServers(ctx, &list); err != nil {
		list.add(problem, "servers", "%v", err)
	}
	records, err1 := s.records(ctx, "")
	members, err2 := s.members(ctx)
	if err := cmp.Or(err1, err2); err != nil {
		list.add(problem, "listing", "%v", err)
	} else {
		list.add(fine, "elections", "in the store: %d", len(records))
		list.add(fine, "members", "processes that have announced themselves lately: %d", len(members))
	}
	if write {
		if term, err := s.tryToLead(ctx); err != nil {
			list.add(problem, "writing", "not elected: %v", err)
		} else {
			list.add(fine, "writing", "elected in term %d, released and forgotten", term)
		}
	}
	list.addExpectations(s.Options, s.Guarantees(), s.config.Guard)
	return list
}

// checkReading reads as a follower does, and compares how long that takes with the timeout of calls.
func (s *store) checkReading(ctx context.Context, list *diagnostics) error {
	var slowest time.Duration
	for i := range 5 {
		began := time.Now()
		err := s.within(ctx, func(ctx context.Context) error {
			_, err := s.Observe(ctx, []backend.Lease{{Election: trialElection}})
			return err
		})
		if err != nil {
			return err
		}
		if i > 0 { // the first one connects
			slowest = max(slowest, time.Since(began))
		}
	}
	text := fmt.Sprintf("the slowest of 4 took %v, of at most %v", rounded(slowest), rounded(s.CallTimeout))
	switch {
	case slowest > s.CallTimeout:
		list.add(problem, "reading", "%s: leaders would lose their lease", text)
	case slowest > s.CallTimeout/4:
		list.add(warning, "reading", "%s: little time is left for a slow moment; a longer ttl helps", text)
	default:
		list.add(fine, "reading", "%s", text)
	}
	return nil
}

// checkServers adds what the servers say of themselves, also if there is an error.
func (s *store) checkServers(ctx context.Context, list *diagnostics) error {
	b, ok := s.Backend.(backend.Inspector)
	if !ok {
		return nil
	}
	return s.within(ctx, func(ctx context.Context) error {
		reported, err := b.Inspect(ctx, s.TTL, s.RenewEvery)
		*list = append(*list, reported...)
		return err
	})
}

// tryToLead leads the trial election for a moment, and forgets it.
func (s *store) tryToLead(ctx context.Context) (term uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.takeover(0))
	defer cancel()
	m, err := openManager(ctx, s.config, false)
	if err != nil {
		return 0, err
	}
	defer closeWithin(m, s.TTL)
	e, err := m.Join(trialElection)
	if err == nil {
		err = m.Check(ctx)
	}
	if err != nil {
		return 0, err
	}
	lead, err := e.Campaign(ctx)
	if err != nil { // an error of the store says more than that ctx has ended
		return 0, cmp.Or(m.Status().Err, err)
	}
	return lead.Term, m.Forget(ctx, trialElection)
}

// addExpectations says what this configuration promises, by the formulas of package backend.
func (d *diagnostics) addExpectations(o election.Options, g backend.Guarantees, guard bool) {
	delay := o.FailoverDelay + o.IncumbentGrace
	soon := fmt.Sprintf("milliseconds without a leader, and failover delay and incumbent grace: %v", delay)
	// The crash comes at some time between two renewals.
	crash := fmt.Sprintf("from %v to %v without a leader",
		rounded(o.TTL-o.RenewEvery), rounded(o.TTL+o.RenewEvery+o.CallTimeout+delay))
	switch {
	case g.Expiry == backend.ByKernel:
		crash = soon
	case g.Expiry == backend.ByOperator:
		crash = "no leader until an operator names another one"
	case guard:
		crash = "of the process: " + soon + "; of the machine: " + crash
	}
	d.add(fine, "crash", "%s", crash)
	if g.Push {
		d.add(fine, "resignation", "milliseconds without a leader: the store notifies followers")
	} else {
		d.add(fine, "resignation", "up to %v without a leader: followers poll", rounded(o.RenewEvery))
	}
	trusted := o.TTL - o.ClockMargin
	d.add(fine, "store away", "a leader steps down %v to %v after the store's last answer",
		rounded(trusted-o.RenewEvery), rounded(trusted))
	perSecond := func(d time.Duration) float64 { return float64(time.Second) / float64(d) }
	leader := perSecond(o.RenewEvery) + perSecond(o.TTL)
	follower := perSecond(o.TTL) * 2 // it waits for notifications
	if g.Poll {
		follower = leader // it reads after each renewal
	}
	d.add(fine, "idle load", "backend calls a second: leader %.2f in all, follower %.2f", leader, follower)
	if !g.Exclusive {
		d.add(warning, "promises", "this backend, as it is configured, does not rule out two leaders")
	}
	if !g.DurableTerms {
		d.add(warning, "promises", "terms do not outlive the store: do not use them as fencing tokens")
	}
}
