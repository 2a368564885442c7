package election

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	"github.com/go-election/go-election/backend"
)

// DefaultTTL is the TTL of a manager that sets none.
const DefaultTTL = 10 * time.Second

// Options configures a [Manager]. The zero value is ready to use. Timings obey
// one inequality, checked by [New]:
//
//	RenewEvery + CallTimeout + ClockMargin < TTL
//
// so that after a renewal that has hung for CallTimeout another can be sent. What is left
// over, 1.5 s by default, is all the time that the other has. Nothing is rounded or
// clamped in silence.
type Options struct {
	// ID is this candidate's name, 1 to 255 bytes of printable UTF-8. It may
	// outlive the process: a restarted leader with the same ID has the
	// incumbent grace. Two live processes must not share it in one election;
	// if they do, they are two candidates all the same, and it is reported.
	// Default: hostname:pid-xxxx with four random letters.
	ID string

	// Address and Metadata are shown to everybody who asks who leads. Up to 255
	// bytes and 4 KiB. Default: empty. Put no secret there.
	Address, Metadata string

	// TTL is how long a lease lasts that is not renewed: the longest time
	// without a leader after a crash, about. Within the store's limits
	// (backend.Guarantees). Default: 10 s.
	TTL time.Duration

	// RenewEvery is how often a leader renews, and so how often followers of a
	// polled store read. Default: TTL/3.
	RenewEvery time.Duration

	// CallTimeout bounds each call of the store. Default: TTL/4.
	CallTimeout time.Duration

	// ClockMargin is how long before the TTL ends a leader stops trusting its lease.
	// It pays for clocks that tick at different rates: two hosts slewed in
	// opposite directions at chrony's default limit of 83,333 ppm need 0.154 of
	// the TTL. At least TTL/20 and what the store demands. Default: TTL/6.
	ClockMargin time.Duration

	// FailoverDelay is how long nobody may lead after a leader has failed, so that
	// what it left running comes to an end. An orderly release skips it. Equal on
	// all members. Default: 0.
	FailoverDelay time.Duration

	// IncumbentGrace is how long others hold back after a leader has failed, so that
	// a candidate with the same ID can return. It is added to FailoverDelay. Equal on
	// all members. Default: 0.
	IncumbentGrace time.Duration

	// StepDownTimeout is how long a leader that steps down waits for its
	// function to return, renewing its lease meanwhile. When it passes, the
	// lease is not released: it runs out. Default: 30 s.
	StepDownTimeout time.Duration

	// Health, if set, is called every RenewEvery with a context of CallTimeout.
	// This process campaigns for nothing before it has passed once. An error makes it
	// step down from everything it leads and stay out until the check passes. It runs
	// on a goroutine of its own; a check that hangs past its context counts as failed.
	Health func(context.Context) error

	// Observer makes a manager that never campaigns and never writes to the
	// store: read access is enough. Default: false.
	Observer bool

	// Logger receives what happens, on a goroutine of its own: if it is slow, messages
	// are lost, and counted, but no lease. Default: warnings and errors go to slog.Default,
	// as it is when the manager is made.
	Logger *slog.Logger
}

// An OptionError says which options are impossible, and why. It is of class
// backend.ErrInvalid.
type OptionError struct {
	text string // with the names of options in braces
}

var optionName = regexp.MustCompile(`\{(\w+)\}`)

func (e *OptionError) Error() string {
	return fmt.Sprintf("%v: election options: %s", backend.ErrInvalid, e.Text(func(option string) string { return option }))
}

// Unwrap returns backend.ErrInvalid.
func (e *OptionError) Unwrap() error { return backend.ErrInvalid }

// Options returns the names of the fields concerned, such as "RenewEvery", in the
// order in which the text mentions them.
func (e *OptionError) Options() (names []string) {
	for _, m := range optionName.FindAllStringSubmatch(e.text, -1) {
		names = append(names, m[1])
	}
	return names
}

// Text says what is wrong, with all values, to a reader who knows the options by
// other names: name returns them. Package config has it name keys.
func (e *OptionError) Text(name func(option string) string) string {
	return optionName.ReplaceAllStringFunc(e.text, func(s string) string { return name(s[1 : len(s)-1]) })
}

// Complete checks o against itself and a store's limits and returns it with all
// defaults filled in: what [New] works with. The error is an [*OptionError], or says
// what is wrong with the id, the address or the metadata. o may be nil.
func (o *Options) Complete(g backend.Guarantees) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.ID == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "unknown-host"
		}
		c.ID = fmt.Sprintf("%s:%d-%s", backend.Clean(host, 200, false), os.Getpid(), backend.NewNonce()[:4])
	}
	if c.Logger == nil {
		c.Logger = slog.New(warnings{slog.Default().Handler()})
	}
	fill := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	fill(&c.TTL, DefaultTTL)
	fill(&c.RenewEvery, c.TTL/3)
	fill(&c.CallTimeout, c.TTL/4)
	fill(&c.ClockMargin, max(c.TTL/6, g.ClockMargin))
	fill(&c.StepDownTimeout, 30*time.Second)

	bad := func(format string, args ...any) (Options, error) {
		return Options{}, &OptionError{text: fmt.Sprintf(format, args...)}
	}
	short := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) } // a third of 10s is 3.333s
	for _, d := range []struct {
		name string
		v    time.Duration
		min  time.Duration
	}{
		{"TTL", c.TTL, 1}, {"RenewEvery", c.RenewEvery, 1}, {"CallTimeout", c.CallTimeout, 1}, {"ClockMargin", c.ClockMargin, c.TTL / 20},
		{"FailoverDelay", c.FailoverDelay, 0}, {"IncumbentGrace", c.IncumbentGrace, 0}, {"StepDownTimeout", c.StepDownTimeout, 1},
	} {
		if d.v < d.min {
			return bad("{%s} is %v, must be at least %v", d.name, d.v, d.min)
		}
		if most := maxDuration / 20; d.v > most {
			return bad("{%s} is %v, must be at most %v", d.name, d.v, most)
		}
	}
	switch {
	case c.TTL < g.MinTTL:
		return bad("{TTL} is %v, the least that backend %s can keep is %v", c.TTL, g.Name, g.MinTTL)
	case g.MaxTTL > 0 && c.TTL > g.MaxTTL:
		return bad("{TTL} is %v, the greatest that backend %s can keep is %v", c.TTL, g.Name, g.MaxTTL)
	case g.MaxSession > 0 && c.TTL+2*c.RenewEvery > g.MaxSession:
		return bad("{TTL} + 2 * {RenewEvery} = %v + 2 * %v = %v, must be %v at most on backend %s",
			c.TTL, short(c.RenewEvery), short(c.TTL+2*c.RenewEvery), g.MaxSession, g.Name)
	case c.ClockMargin < g.ClockMargin:
		return bad("{ClockMargin} is %v, backend %s needs at least %v", c.ClockMargin, g.Name, g.ClockMargin)
	case c.RenewEvery+c.CallTimeout+c.ClockMargin >= c.TTL:
		return bad("{RenewEvery} + {CallTimeout} + {ClockMargin} = %v + %v + %v = %v, must be less than {TTL} = %v",
			short(c.RenewEvery), short(c.CallTimeout), short(c.ClockMargin), short(c.RenewEvery+c.CallTimeout+c.ClockMargin), c.TTL)
	}
	if err := backend.CheckID(c.ID); err != nil {
		return Options{}, err
	}
	if err := backend.CheckText("address", c.Address, backend.MaxAddress, false); err != nil {
		return Options{}, err
	}
	if err := backend.CheckText("metadata", c.Metadata, backend.MaxMetadata, true); err != nil {
		return Options{}, err
	}
	return c, nil
}
