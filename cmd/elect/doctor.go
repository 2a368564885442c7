package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// A finding is one line of the doctor's.
type diagnostic struct {
	Grade string `json:"grade"` // ok, warning or problem
	What  string `json:"what"`
	Text  string `json:"text"`
}

const (
	gradeOK      = "ok"
	gradeWarning = "warning"
	gradeProblem = "problem"
)

// trialElection is what "elect doctor --write" leads for a moment.
const trialElection = "elect-doctor"

func (a *app) doctorCommand() *cobra.Command {
	var asJSON, write bool
	c := &cobra.Command{
		Use: "doctor", Short: "Check the store as the backend will use it, and explain", Args: cobra.NoArgs,
		Long: fmt.Sprintf(`Check the configuration and the store as a member would use them, and explain: whether it
can be reached and read, elections and members, what the servers say of themselves (MySQL,
MariaDB: version, durability, replication, clock; etcd: the cluster's members, versions,
alarms, room; Consul: servers, how many can be lost, and health where the token may ask;
ZooKeeper: each server's role, whether its sessions suffice, and rights; files: the
directory; manual: who is named; in a migration, both stores), how fast it answers beside
the timings, and what to expect of this configuration: the time without a leader after a
crash, and the load of an idle election.

It only reads, but the directory of files is made if it is not there. With --write it also
leads the election %q for a moment, which proves the rights to write, and forgets it.
The code is %d if there is a problem.`, trialElection, exitVacant),
		Example: example(onStore + "\nelect doctor\nelect doctor --write"),
		RunE: func(c *cobra.Command, _ []string) error {
			list := a.examine(c.Context(), write)
			if slices.ContainsFunc(list, func(f diagnostic) bool { return f.Grade == gradeProblem }) {
				a.code = exitVacant
			}
			if asJSON {
				return a.json(list)
			}
			for _, f := range list {
				fmt.Fprintf(a.out, "%-8s %-14s %s\n", f.Grade, f.What, strings.ReplaceAll(backend.Clean(f.Text, 4096, true), "\n", "\n"+strings.Repeat(" ", 24)))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	c.Flags().BoolVar(&write, "write", false, "lead the election "+trialElection+" for a moment")
	return c
}

func (a *app) examine(ctx context.Context, write bool) (list []diagnostic) {
	add := func(grade, what, format string, args ...any) {
		list = append(list, diagnostic{grade, what, fmt.Sprintf(format, args...)})
	}
	s, err := a.openStore(ctx)
	if err != nil {
		add(gradeProblem, "configuration", "%v", err)
		return list
	}
	defer s.Close()
	add(gradeOK, "configuration", "backend %s, ttl %v, renew_every %v, call_timeout %v, clock_margin %v", s.config.Backend, s.TTL, rounded(s.RenewEvery), rounded(s.CallTimeout), rounded(s.ClockMargin))

	// As a follower would: one Observe, several times.
	var times []time.Duration
	for range 5 {
		began := time.Now()
		err = s.within(ctx, func(ctx context.Context) error {
			_, err := s.Observe(ctx, []backend.Lease{{Election: trialElection}})
			return err
		})
		if err != nil {
			break
		}
		times = append(times, time.Since(began))
	}
	if err != nil {
		add(gradeProblem, "store", "%v\nNothing else was checked.", advise(err))
		return list
	}
	add(gradeOK, "store", "it can be reached and read")
	list = append(list, speed("reading", times[1:], s.CallTimeout), diagnostic{gradeOK, "connecting", fmt.Sprintf("the first reading took %v", times[0].Round(10*time.Microsecond))})

	if b, ok := s.Backend.(backend.Inspector); ok {
		var found []backend.Diagnostic
		err := s.within(ctx, func(ctx context.Context) (err error) {
			found, err = b.Inspect(ctx, s.TTL, s.RenewEvery)
			return err
		})
		if err != nil {
			add(gradeProblem, "servers", "%v", advise(err))
		}
		for _, f := range found {
			grade := gradeOK
			switch {
			case f.Fatal:
				grade = gradeProblem
			case f.Warning:
				grade = gradeWarning
			}
			add(grade, f.What, "%s", f.Text)
		}
	}
	if b, ok := s.Backend.(interface{ Check(context.Context) error }); ok {
		if err := s.within(ctx, b.Check); err != nil {
			add(gradeProblem, "assignment", "%v", err)
		}
	}
	if records, err := s.records(ctx); err != nil {
		add(gradeProblem, "elections", "%v", advise(err))
	} else {
		list = append(list, kept(records, s.config.Backend, time.Now())...)
	}
	if members, err := s.members(ctx); err != nil {
		add(gradeProblem, "members", "%v", advise(err))
	} else {
		add(gradeOK, "members", "%d have announced themselves lately", len(members))
		type candidacy struct{ id, election string }
		seen := map[candidacy]bool{}
		for _, m := range members {
			for name := range m.Campaigns() {
				if c := (candidacy{m.ID, name}); name != "" && seen[c] {
					add(gradeWarning, "members", "two processes have the id %q and campaign for %q: give each its own", m.ID, name)
				} else {
					seen[c] = true
				}
			}
		}
	}
	if write {
		list = append(list, a.trial(ctx, s)...)
	} else {
		add(gradeOK, "writing", "not tried; elect doctor --write leads the election %q for a moment", trialElection)
	}
	return append(list, expect(s.Options, s.Guarantees())...)
}

// kept explains what the store keeps of elections.
func kept(records []backend.Record, store string, now time.Time) (list []diagnostic) {
	add := func(grade, what, format string, args ...any) {
		list = append(list, diagnostic{grade, what, fmt.Sprintf(format, args...)})
	}
	led, moved, ahead := 0, map[string]int{}, time.Duration(0)
	for _, r := range records {
		if r.MovedTo != "" {
			moved[r.MovedTo]++
		} else if !r.Vacant() {
			led++
		}
		if !r.Elected.IsZero() {
			ahead = max(ahead, r.Elected.Sub(now))
		}
	}
	add(gradeOK, "elections", "%d are kept, %d have a leader", len(records), led)
	for to, n := range moved {
		if store != "migration" {
			add(gradeWarning, "elections", "%d have moved to %s: nobody leads them by this store any more", n, to)
		}
	}
	if ahead > 10*time.Second {
		add(gradeWarning, "clock", "a leadership began %v from now: clocks differ. Nothing is decided by them, but people read them", ahead.Round(time.Second))
	}
	return list
}

// advise adds what to do to an error of a class.
func advise(err error) string {
	switch {
	case errors.Is(err, backend.ErrDenied):
		return fmt.Sprintf("%v\nSomebody must act: credentials, rights or layout.", err)
	case errors.Is(err, backend.ErrUnavailable):
		return fmt.Sprintf("%v\nThe store cannot be reached from here, or does not answer in time.", err)
	}
	return err.Error()
}

// speed compares how long calls took with what they may take.
func speed(what string, times []time.Duration, timeout time.Duration) diagnostic {
	slices.Sort(times)
	median, worst := times[len(times)/2].Round(10*time.Microsecond), times[len(times)-1].Round(10*time.Microsecond)
	text := fmt.Sprintf("%v, the slowest of %d %v; a call may take %v", median, len(times), worst, rounded(timeout))
	switch {
	case worst > timeout:
		return diagnostic{gradeProblem, what, text + ": leaders would lose their lease"}
	case worst > timeout/4:
		return diagnostic{gradeWarning, what, text + ": little is left for a bad moment; a longer ttl helps"}
	}
	return diagnostic{gradeOK, what, text}
}

// A timed backend writes down how long its writes take.
type timed struct {
	backend.Backend
	took map[string][]time.Duration // by one goroutine at a time: one election
}

func (b timed) clock(verb string) func() {
	began := time.Now()
	return func() { b.took[verb] = append(b.took[verb], time.Since(began)) }
}

func (b timed) Acquire(ctx context.Context, bids []backend.Bid) ([]backend.Answer, error) {
	defer b.clock("acquire")()
	return b.Backend.Acquire(ctx, bids)
}

func (b timed) Release(ctx context.Context, held []backend.Held) error {
	defer b.clock("release")()
	return b.Backend.Release(ctx, held)
}

// trial leads an election of its own for a moment.
func (a *app) trial(ctx context.Context, s *store) (list []diagnostic) {
	add := func(grade, format string, args ...any) {
		list = append(list, diagnostic{grade, "writing", fmt.Sprintf(format, args...)})
	}
	inner, err := s.config.OpenBackend(ctx)
	if err != nil {
		return []diagnostic{{gradeProblem, "writing", err.Error()}}
	}
	b := timed{inner, map[string][]time.Duration{}}
	o := s.config.Election
	o.ID, o.Observer = "", false
	m, err := election.New(b, &o)
	if err != nil {
		inner.Close()
		return []diagnostic{{gradeProblem, "writing", err.Error()}}
	}
	ctx, cancel := context.WithTimeout(ctx, s.takeover(0))
	defer cancel()
	began := time.Now()
	var lead *election.Leadership
	var said atomic.Pointer[error] // by the store, about this election
	e, err := m.Join(trialElection)
	if err == nil {
		defer e.Watch(func(ev election.Event) {
			if ev.Err == nil {
				return
			}
			said.Store(&ev.Err)
			if errors.Is(ev.Err, backend.ErrDenied) || errors.Is(ev.Err, backend.ErrInvalid) {
				cancel() // waiting does not help
			}
		})()
		lead, err = e.Campaign(ctx)
	}
	if err == nil {
		took := time.Since(began)
		err = m.Forget(ctx, trialElection)
		add(gradeOK, "elected in term %d after %v, and released", lead.Term, took.Round(time.Millisecond))
	} else if e != nil {
		// What the store has said is in the manager's picture, or was told.
		if all := m.Status().Err; all != nil {
			err = all
		} else if one := said.Load(); one != nil {
			err = *one
		}
	}
	end, stop := context.WithTimeout(context.Background(), s.TTL)
	defer stop()
	m.Close(end)
	if err != nil {
		add(gradeProblem, "not elected after %v: %v", time.Since(began).Round(time.Millisecond), advise(err))
		return list
	}
	for _, verb := range []string{"acquire", "release"} {
		if len(b.took[verb]) > 0 {
			list = append(list, speed(verb, b.took[verb], s.CallTimeout))
		}
	}
	return list
}

// expect says what this configuration promises, by the formulas of package backend.
func expect(o election.Options, g backend.Guarantees) []diagnostic {
	more := o.FailoverDelay + o.IncumbentGrace
	crash := ""
	switch g.Expiry {
	case backend.ByKernel:
		crash = fmt.Sprintf("milliseconds: the kernel frees the lease with the process (%v more for failover delay and incumbent grace)", more)
	case backend.ByOperator:
		crash = "nobody follows until somebody says so"
	default:
		// The crash comes at some time between two renewals.
		most := o.TTL + o.RenewEvery + o.CallTimeout + g.Takeover + more
		least := o.TTL - o.RenewEvery
		crash = fmt.Sprintf("from %v to %v without a leader", rounded(least), rounded(most))
		if more > 0 {
			crash += fmt.Sprintf(", of which %v are failover delay and incumbent grace", more)
		}
	}
	per := func(d time.Duration) float64 { return float64(time.Second) / float64(d) }
	follower := per(o.TTL) * 2
	how := "it waits for the store to tell"
	if g.Poll {
		follower, how = per(o.RenewEvery)+per(o.TTL), "it reads after each renewal"
	}
	trust := o.TTL - o.ClockMargin
	list := []diagnostic{
		{gradeOK, "crash", crash},
		{gradeOK, "resignation", map[bool]string{true: "milliseconds: others are told", false: fmt.Sprintf("up to %v: others read", rounded(o.RenewEvery))}[g.Push]},
		{gradeOK, "store away", fmt.Sprintf("a leader steps down from %v to %v after its last answer; nobody leads until the store is back", rounded(trust-o.RenewEvery), rounded(trust))},
		{gradeOK, "idle load", fmt.Sprintf("a leader makes %.2f calls of the backend a second for all it leads, a follower %.2f (%s); one call can be several statements or requests", per(o.RenewEvery)+per(o.TTL), follower, how)},
	}
	if !g.Exclusive {
		list = append(list, diagnostic{gradeWarning, "promises", "two leaders are not excluded by this backend as it is configured"})
	}
	if !g.DurableTerms {
		list = append(list, diagnostic{gradeWarning, "promises", "terms do not outlive the store: do not fence by them"})
	}
	return list
}
