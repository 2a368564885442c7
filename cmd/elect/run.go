package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/election"
)

// runOptions are the flags of "elect run".
type runOptions struct {
	id                   string
	grace, reserve, wait time.Duration
	restart              string
	socket, http         string
	quiet                bool
}

// limits are what a command is given when it has to end.
type limits struct {
	grace   time.Duration // from SIGTERM to SIGKILL, when the lease runs out
	reserve time.Duration // before the end of trust, all that is left is killed
	stop    time.Duration // from SIGTERM to SIGKILL, when it is asked to stop
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run NAME -- COMMAND [ARG…]",
		Short: "Run a program only while this process leads",
		Long: `Run campaigns in the election NAME, and runs COMMAND whenever it is elected.

The command finds the term in ELECTION_TERM, and ELECTION_NAME, ELECTION_ID and
ELECTION_SOCKET beside it. It should hand the term to whatever it writes to: no lease
can stop a write that is under way when a whole machine is frozen.

When leadership is lost, the command and everything it has started get SIGTERM, and
SIGKILL early enough to be dead before anybody else can lead. That is --grace before
the last moment, which is --reserve before the lease can no longer be trusted; a store
that hangs delays neither. It is started again when this process is elected again.

When the command ends by itself, the lease is released at once and elect ends with its
code, or 128 and the signal's number; --restart has elect campaign on instead. SIGTERM,
SIGINT and SIGQUIT are passed on to the command: it has --stop-timeout to end, and still
leads meanwhile. Other signals are passed on as they are. Elect's own failures are 125;
126: the command cannot be run; 127: it is not there. A follower that is asked to end,
or whose terminal hangs up (SIGHUP), returns 0; under nohup SIGHUP is ignored, by the
command too. Elect can be process 1 of a container.

Unless elect is root, the command can gain no other user, by sudo say: elect could not
end it.`,
		Example: example(onStore + `
elect run billing -- sh -c 'echo "term $ELECTION_TERM"'
elect run billing/nightly --id host-1 --restart on-failure -- echo billed`),
		Args: func(c *cobra.Command, args []string) error {
			if dash := c.ArgsLenAtDash(); len(args) < 2 || dash != 1 { // without it, flags of the command would be taken for ours
				return fmt.Errorf("write it as: elect run NAME -- COMMAND [ARG…]")
			}
			if !slices.Contains([]string{"no", "on-failure", "always"}, o.restart) {
				return fmt.Errorf("--restart is %q; it is no, on-failure or always", o.restart)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			conf, err := a.load()
			if err != nil {
				return err
			}
			if o.id != "" {
				conf.Election.ID = o.id
			}
			code, err := run(c.Context(), conf, args[0], args[1:], o)
			a.code = code
			return err
		},
		Hidden: !canRun,
	}
	f := c.Flags()
	f.StringVar(&o.id, "id", "", "this candidate's `name` (default: as configured)")
	f.DurationVar(&o.grace, "grace", 0, "when the lease runs out: from SIGTERM to SIGKILL (default: three fifths of the time in which a renewal may come late; 1.5s with a TTL of 10s)")
	f.DurationVar(&o.reserve, "reserve", 0, "SIGKILL so long before the lease can no longer be trusted (default: a third of the grace)")
	f.DurationVar(&o.wait, "stop-timeout", 10*time.Second, "when elect is asked to end, or resigns: from SIGTERM to SIGKILL")
	f.StringVar(&o.restart, "restart", "no", "campaign on when the command has ended by itself: no, on-failure or always")
	f.StringVar(&o.socket, "socket", "", "`path` of the socket for resign, pause and resume (default: in a directory of this user)")
	f.StringVar(&o.http, "http", "", "`address` to answer on over HTTP, such as :8008: /leader/NAME is 200 while this process leads, and all that elect serve shows; nothing can be changed (default: none)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "say nothing on standard error")
	return c
}

// limits are the guard's timings under these options. With SIGTERM at grace + reserve
// before the end of trust, a renewal that hangs for CallTimeout can still be made
// good if those fit into what TTL leaves over; and a renewal that comes in time
// must always be in time.
func (o *runOptions) limits(e election.Options) (limits, error) {
	l := limits{grace: o.grace, reserve: o.reserve, stop: o.wait}
	slack := e.TTL - e.ClockMargin - e.RenewEvery - e.CallTimeout
	if l.grace == 0 {
		l.grace = slack * 3 / 5
	}
	if l.reserve == 0 {
		l.reserve = min(l.grace/3, time.Second)
	}
	most := e.TTL - e.ClockMargin - e.RenewEvery
	switch {
	case l.grace < 0 || l.reserve < time.Millisecond || l.stop < 0:
		return l, fmt.Errorf("--grace %v, --reserve %v and --stop-timeout %v must not be negative, and a reserve is at least 1ms", l.grace, l.reserve, l.stop)
	case l.grace+l.reserve >= most:
		return l, fmt.Errorf("--grace + --reserve = %v + %v = %v, must be less than ttl - clock_margin - renew_every = %v: the command would be ended before the lease is renewed",
			rounded(l.grace), rounded(l.reserve), rounded(l.grace+l.reserve), rounded(most))
	}
	return l, nil
}
