package elect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/election"
)

// diagnostics are the lines of "elect doctor".
type diagnostics []backend.Diagnostic

func (d *diagnostics) ok(what, format string, args ...any) {
	*d = append(*d, backend.Diagnostic{What: what, Text: fmt.Sprintf(format, args...)})
}

func (d *diagnostics) warn(what, format string, args ...any) {
	*d = append(*d, backend.Diagnostic{What: what, Text: fmt.Sprintf(format, args...), Warning: true})
}

func (d *diagnostics) problem(what, format string, args ...any) {
	*d = append(*d, backend.Diagnostic{What: what, Text: fmt.Sprintf(format, args...), Fatal: true})
}

// grade is the first word of a line.
func grade(d backend.Diagnostic) string {
	switch {
	case d.Fatal:
		return "problem"
	case d.Warning:
		return "warning"
	}
	return "ok"
}

const trialElection = "elect-doctor"

func (a *app) doctorCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use: "doctor", Short: "Check the configuration and the store, and explain the result", Args: cobra.NoArgs,
		Long: fmt.Sprintf(`Check the configuration and the store as a member would use them, and explain the result:

- whether the store can be reached and read, and how fast it answers compared with the
  timings;
- its elections and members;
- what the servers report that can cost a leadership: durability, replication, clocks, versions,
  free space, rights, other members of their cluster;
- what to expect of this configuration: the time without a leader after a crash, and the
  load of an idle election.

Elect doctor only reads, except that it creates the directory of the file backend if needed,
and lets a few writers race on a scratch object of S3.
With --write it also leads the election %q for a moment, to prove the rights to
write, and then forgets that election. The code is %d if there is a problem.`, trialElection, exitVacant),
		Example: example(onStore + "\nelect doctor\nelect doctor --write"),
		RunE: func(c *cobra.Command, _ []string) error {
			list := a.diagnose(c.Context(), write)
			if slices.ContainsFunc(list, func(d backend.Diagnostic) bool { return d.Fatal }) {
				a.code = exitVacant
			}
			for _, d := range list {
				text := strings.ReplaceAll(clean.Text(d.Text, 4096, true), "\n", "\n"+strings.Repeat(" ", 24))
				fmt.Fprintf(a.out, "%-8s %-14s %s\n", grade(d), d.What, text)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&write, "write", false, "lead the election "+trialElection+" for a moment, to prove the rights to write")
	return c
}

// diagnose runs all checks. It stops early if the store cannot be opened or read.
func (a *app) diagnose(ctx context.Context, write bool) (list diagnostics) {
	s, err := a.openStore(ctx)
	if err != nil {
		list.problem("configuration", "%v", err)
		return list
	}
	defer s.Close()
	list.ok("configuration", "backend %s, ttl %v, renew_every %v, call_timeout %v, clock_margin %v", s.config.Backend, s.TTL, rounded(s.RenewEvery), rounded(s.CallTimeout), rounded(s.ClockMargin))

	if err := s.checkReading(ctx, &list); err != nil {
		list.problem("store", "%v\nNothing else was checked.", err)
		return list
	}
	s.checkServers(ctx, &list)
	if err := s.checkElections(ctx, &list); err != nil {
		list.problem("elections", "%v", err)
	}
	if members, err := s.members(ctx); err != nil {
		list.problem("members", "%v", err)
	} else {
		list.ok("members", "%s announced lately that they take part", counted(len(members), "process", "processes"))
	}
	if write {
		s.checkWriting(ctx, &list)
	} else {
		list.ok("writing", "not checked; elect doctor --write leads the election %q for a moment", trialElection)
	}
	list.addExpectations(s.Options, s.Guarantees(), s.config.Guard)
	return list
}

// checkReading makes five Observe calls, as a follower does.
func (s *store) checkReading(ctx context.Context, list *diagnostics) error {
	var times []time.Duration
	for range 5 {
		began := time.Now()
		err := s.within(ctx, func(ctx context.Context) error {
			_, err := s.Observe(ctx, []backend.Lease{{Election: trialElection}})
			return err
		})
		if err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	list.ok("store", "it can be reached and read")
	list.checkLatency(times[1:], s.CallTimeout)
	return nil
}

func (s *store) checkServers(ctx context.Context, list *diagnostics) {
	b, ok := s.Backend.(backend.Inspector)
	if !ok {
		return
	}
	var reported []backend.Diagnostic
	err := s.within(ctx, func(ctx context.Context) (err error) {
		reported, err = b.Inspect(ctx, s.TTL, s.RenewEvery)
		return err
	})
	if err != nil {
		list.problem("servers", "%v", err)
	}
	*list = append(*list, reported...)
}

// checkElections counts elections.
func (s *store) checkElections(ctx context.Context, d *diagnostics) error {
	records, err := s.records(ctx, "")
	if err != nil {
		return err
	}
	seen, err := s.observe(ctx, records)
	if err != nil {
		return err
	}
	led := 0
	for _, r := range seen {
		if !r.Vacant() && !r.silent {
			led++
		}
	}
	d.ok("elections", "the store has %s; %s a leader now", counted(len(seen), "election", "elections"), counted(led, "of them has", "of them have"))
	return nil
}

// counted returns a number of things: 1 election, 2 elections.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// checkLatency compares how long readings took with the timeout of calls.
func (d *diagnostics) checkLatency(times []time.Duration, timeout time.Duration) {
	slices.Sort(times)
	median, worst := times[len(times)/2].Round(10*time.Microsecond), times[len(times)-1].Round(10*time.Microsecond)
	text := fmt.Sprintf("%v, the slowest of %d %v; a call may take %v", median, len(times), worst, rounded(timeout))
	switch {
	case worst > timeout:
		d.problem("reading", "%s: leaders would lose their lease", text)
	case worst > timeout/4:
		d.warn("reading", "%s: this leaves little time for a slow moment; a longer ttl helps", text)
	default:
		d.ok("reading", "%s", text)
	}
}

// checkWriting leads the trial election for a moment, and forgets it.
func (s *store) checkWriting(ctx context.Context, list *diagnostics) {
	began := time.Now()
	took := func() time.Duration { return time.Since(began).Round(time.Millisecond) }
	term, err := s.tryToLead(ctx)
	if err != nil {
		list.problem("writing", "not elected after %v: %v", took(), err)
		return
	}
	list.ok("writing", "elected in term %d, released and forgotten within %v", term, took())
}

func (s *store) tryToLead(ctx context.Context) (term uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.takeover(0))
	defer cancel()
	m, err := openManager(ctx, s.config, false)
	if err != nil {
		return 0, err
	}
	defer closeWithin(m, s.TTL)
	e, err := m.Join(trialElection)
	if err != nil {
		return 0, err
	}
	if err := m.Check(ctx); err != nil {
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
	soon := "milliseconds without a leader"
	if delay > 0 {
		soon = fmt.Sprintf("%v without a leader, for failover delay and incumbent grace", delay)
	}
	// The crash comes at some time between two renewals.
	crash := fmt.Sprintf("from %v to %v without a leader", rounded(o.TTL-o.RenewEvery), rounded(o.TTL+o.RenewEvery+o.CallTimeout+delay))
	switch {
	case g.Expiry == backend.ByKernel:
		crash = soon + ": the kernel releases the lease with the process"
	case g.Expiry == backend.ByOperator:
		crash = "no leader until an operator names another one"
	case guard:
		crash = "of the process: " + soon + ", since its guard releases the lease; of the machine: " + crash
	}
	d.ok("crash", "%s", crash)
	if g.Push {
		d.ok("resignation", "milliseconds without a leader: the store notifies followers")
	} else {
		d.ok("resignation", "up to %v without a leader, until followers read the store", rounded(o.RenewEvery))
	}
	trusted := o.TTL - o.ClockMargin
	d.ok("store away", "a leader steps down %v to %v after the store's last answer; nobody leads until the store is back", rounded(trusted-o.RenewEvery), rounded(trusted))
	perSecond := func(d time.Duration) float64 { return float64(time.Second) / float64(d) }
	follower, how := perSecond(o.TTL)*2, "it waits for notifications"
	if g.Poll {
		follower, how = perSecond(o.RenewEvery)+perSecond(o.TTL), "it reads after each renewal"
	}
	d.ok("idle load", "a leader makes %.2f backend calls a second for all its elections, a follower %.2f (%s); one call can be several statements or requests", perSecond(o.RenewEvery)+perSecond(o.TTL), follower, how)
	if !g.Exclusive {
		d.warn("promises", "this backend, as it is configured, does not rule out two leaders")
	}
	if !g.DurableTerms {
		d.warn("promises", "terms do not outlive the store: do not use them as fencing tokens")
	}
}
