package elect

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-election/go-election/election"
)

// runOptions are the flags of "elect run".
type runOptions struct {
	limits
	id       string
	http     string
	quiet    bool
	wait     time.Duration // for the first leadership; 0: for ever
	noWait   bool
	podLabel string
	label    PodLabel
	slots    int // greatest number of commands in the fleet; 0: one, in the election itself
}

// limits say how long a command may take to end.
type limits struct {
	grace   time.Duration // from SIGTERM to SIGKILL, when the lease is about to expire
	reserve time.Duration // from SIGKILL to the moment when the lease can no longer be trusted
	stop    time.Duration // from SIGTERM to SIGKILL, when elect is asked to end
}

func (a *app) runCommand() *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARG…]",
		Short: "Run a program only while this process leads",
		Long: `Campaign in the election NAME, and run COMMAND each time this process is elected. The command
gets ELECTION_TERM, ELECTION_NAME and ELECTION_ID, and should pass the term to all it writes to.

When the lease cannot be renewed, the command and everything it has started are dead before
another process can lead: SIGKILL comes --reserve before the lease can no longer be trusted, and
SIGTERM --grace before that. Elect starts the command again when this process is elected again.

When the command ends by itself, elect releases the lease at once and exits with the command's
code, or with 128 + n after signal n. SIGTERM, SIGINT and SIGQUIT end the command, within
--stop-timeout, and then elect; a follower exits with 0. Other signals are passed on. Code 125:
elect itself failed; 126: the command cannot be executed; 127: it does not exist.`,
		Example: example(onStore + `
elect run billing -- sh -c 'echo "term $ELECTION_TERM"'
elect run billing/nightly --id host-1 -- echo billed
elect run import --slots 3 -- echo one of three`),
		Args: o.check,
		RunE: func(c *cobra.Command, args []string) error {
			conf, err := a.load()
			if err != nil {
				return err
			}
			if o.id != "" {
				conf.Election.ID = o.id
			}
			a.code, err = run(c.Context(), conf, args[0], args[1:], o)
			if err != nil { // elect ends also if nobody reads that
				time.AfterFunc(time.Second, func() { os.Exit(cmp.Or(a.code, exitElect)) })
			}
			return err
		},
	}
	o.addFlags(c)
	o.label = a.label
	return c
}

func (o *runOptions) check(c *cobra.Command, args []string) error {
	if dash := c.ArgsLenAtDash(); len(args) < 2 || dash != 1 { // elect would parse its flags
		return fmt.Errorf("a name, two dashes and a command are needed")
	}
	if o.slots < 0 || o.slots > 1000 {
		return fmt.Errorf("--slots is %d; it must be 1 to 1000", o.slots)
	}
	o.noWait = o.noWait || c.Flags().Changed("wait") && o.wait == 0
	if o.noWait && o.slots > 0 {
		return fmt.Errorf("--slots needs time to find a free slot: give it --wait and some seconds")
	}
	if o.podLabel != "" && o.label == nil {
		return fmt.Errorf("--pod-label needs the elect of the module backend/kubernetes")
	}
	return nil
}

func (o *runOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.id, "id", "", "`id` of this candidate (default: id of the configuration)")
	f.DurationVar(&o.grace, "grace", 0, "from SIGTERM to SIGKILL when the lease is about to expire "+
		"(default: 1.5s with a TTL of 10s)")
	f.DurationVar(&o.reserve, "reserve", 0, "from SIGKILL until the lease can no longer be trusted "+
		"(default: a third of the grace, at most 1s)")
	f.DurationVar(&o.stop, "stop-timeout", 10*time.Second, "from SIGTERM to SIGKILL when elect is to end")
	f.DurationVar(&o.wait, "wait", 0, "wait for at most this time until this process is elected, "+
		"or else end with code 124, without the command (default: for ever)")
	f.BoolVar(&o.noWait, "no-wait", false, "end at once, with code 124, if another process leads")
	f.IntVar(&o.slots, "slots", 0, "run the command in up to this `number` of processes of the fleet, "+
		"each in one of the elections NAME/1 to NAME/number; all must have the same number (default: in one)")
	f.StringVar(&o.podLabel, "pod-label", "", "`key` of a label that this pod has while it leads; "+
		"only in the elect of the Kubernetes module (default: none)")
	c.MarkFlagsMutuallyExclusive("wait", "no-wait")
	c.MarkFlagsMutuallyExclusive("pod-label", "slots")
	f.StringVar(&o.http, "http", "", "`address` to serve HTTP on, such as :8008: /leader/NAME is 200 while "+
		"this process leads, and what elect serve shows (default: none)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing on standard error")
}

// complete returns the limits with defaults. The guard sends SIGTERM at grace + reserve before the lease can
// no longer be trusted. By default they are less than slack, so a renewal that hangs for CallTimeout can be
// repeated before. They must be less than longest, or the guard would end the command before a renewal in
// time.
func (l limits) complete(e election.Options) (limits, error) {
	slack := e.TTL - e.ClockMargin - e.RenewEvery - e.CallTimeout
	if l.grace == 0 {
		l.grace = slack * 3 / 5
	}
	if l.reserve == 0 {
		l.reserve = min(l.grace/3, time.Second)
	}
	longest := e.TTL - e.ClockMargin - e.RenewEvery
	if l.grace < 0 || l.reserve < time.Millisecond || l.stop < 0 || l.grace+l.reserve >= longest {
		return l, fmt.Errorf("--grace %v and --stop-timeout %v must not be negative, --reserve %v must be "+
			"at least 1ms, and --grace + --reserve less than ttl - clock_margin - renew_every = %v",
			rounded(l.grace), l.stop, rounded(l.reserve), rounded(longest))
	}
	return l, nil
}
