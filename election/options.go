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

// Options configures a [Manager]. The zero value is ready to use: zero fields get their defaults.
// [New] checks all values and changes none. The timings must satisfy
//
//	RenewEvery + CallTimeout + ClockMargin < TTL
//
// so that after a renewal that hung for CallTimeout another one can be sent. The rest, 1.5 s by
// default, is the time that the second renewal has.
type Options struct {
	// ID is this candidate's name: 1 to 255 bytes of printable UTF-8. It may outlive the
	// process: a restarted leader with the same ID has the IncumbentGrace. Two live processes
	// in one election must have different IDs. If they share one, the election stays safe, and
	// watchers get a notice (ReasonSameID).
	// Default: hostname:pid-xxxx with four random hexadecimal digits.
	ID string

	// Address and Metadata appear wherever the leader or the members are shown. Anyone who can
	// read the store can read them: put no secret there. Up to 255 bytes and 4 KiB of text.
	// Default: empty.
	Address, Metadata string

	// TTL is the duration of a lease that is not renewed, and so about the longest time without
	// a leader after a crash. The store limits it (backend.Guarantees). Default: 10 s.
	TTL time.Duration

	// RenewEvery is the time between two renewals of a leader. Followers of a store without
	// push notifications read once in that time. Default: TTL/3.
	RenewEvery time.Duration

	// CallTimeout limits each call of the store and of Health. Default: TTL/4.
	CallTimeout time.Duration

	// ClockMargin is how long before the end of the TTL a leader stops trusting its lease. It
	// allows for clocks that tick at different rates: two hosts slewed in opposite directions
	// at chrony's default limit of 83,333 ppm need 0.154 of the TTL. At least TTL/20, and at
	// least what the store demands (backend.Guarantees). Default: TTL/6, or the store's demand
	// if that is greater.
	ClockMargin time.Duration

	// FailoverDelay is how long nobody may lead after a leader has failed, beyond the TTL. In
	// that time the work that the failed leader left running can end. An orderly release skips
	// it. All members must have the same value. Default: 0.
	FailoverDelay time.Duration

	// IncumbentGrace is how long other candidates wait after a leader has failed, so that a
	// candidate with the failed leader's ID can lead again. It is added to FailoverDelay. All
	// members must have the same value. Default: 0.
	IncumbentGrace time.Duration

	// StepDownTimeout is how long a leader that steps down waits for its function to return.
	// It renews the lease meanwhile. After that time the lease is not released: it expires.
	// Default: 30 s.
	StepDownTimeout time.Duration

	// Health, if set, is called every RenewEvery, on a goroutine of its own, with a context
	// that ends after CallTimeout. This process does not campaign before the first check has
	// passed. An error, or a check that outlasts its context, makes the process step down from
	// everything it leads; it campaigns again when a check passes. Default: nil, always healthy.
	Health func(context.Context) error

	// Observer makes a manager that never campaigns and never writes to the store; read access
	// is enough. Default: false.
	Observer bool

	// Logger receives log records on a goroutine of its own. A logger that hangs delays no
	// lease: records beyond 256 are dropped and counted. Default: warnings and errors go to
	// slog.Default, as it is when New is called.
	Logger *slog.Logger
}

// An OptionError names the options that contradict each other or the store, with their values.
// It is of class backend.ErrInvalid.
type OptionError struct {
	text string // with the names of options in braces
}

var optionName = regexp.MustCompile(`\{(\w+)\}`)

// Error returns the text with the names of the fields of [Options].
func (e *OptionError) Error() string {
	return fmt.Sprintf("%v: election options: %s", backend.ErrInvalid, e.Text(func(option string) string { return option }))
}

// Unwrap returns backend.ErrInvalid.
func (e *OptionError) Unwrap() error { return backend.ErrInvalid }

// Options returns the names of the fields concerned, such as "RenewEvery", in the order in
// which the text mentions them.
func (e *OptionError) Options() (names []string) {
	for _, m := range optionName.FindAllStringSubmatch(e.text, -1) {
		names = append(names, m[1])
	}
	return names
}

// Text returns the text with other names for the options: name returns the name for a field of
// [Options]. Package config passes the names of its keys.
func (e *OptionError) Text(name func(option string) string) string {
	return optionName.ReplaceAllStringFunc(e.text, func(s string) string { return name(s[1 : len(s)-1]) })
}

// Complete checks o and returns it with all defaults filled in, as [New] uses it. g has the
// store's limits. The error is an [*OptionError], or concerns the ID, the address or the
// metadata; both are of class backend.ErrInvalid.
func (o Options) Complete(g backend.Guarantees) (Options, error) {
	if o.ID == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "unknown-host"
		}
		o.ID = fmt.Sprintf("%s:%d-%s", backend.Clean(host, 200, false), os.Getpid(), backend.NewNonce()[:4])
	}
	if o.Logger == nil {
		o.Logger = slog.New(warnings{slog.Default().Handler()})
	}
	setDefault := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	setDefault(&o.TTL, DefaultTTL)
	setDefault(&o.RenewEvery, o.TTL/3)
	setDefault(&o.CallTimeout, o.TTL/4)
	setDefault(&o.ClockMargin, max(o.TTL/6, g.ClockMargin))
	setDefault(&o.StepDownTimeout, 30*time.Second)

	bad := func(format string, args ...any) (Options, error) {
		return Options{}, &OptionError{text: fmt.Sprintf(format, args...)}
	}
	short := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) } // a third of 10s is 3.333s
	for _, d := range []struct {
		name string
		v    time.Duration
		min  time.Duration
	}{
		{"TTL", o.TTL, 1}, {"RenewEvery", o.RenewEvery, 1}, {"CallTimeout", o.CallTimeout, 1}, {"ClockMargin", o.ClockMargin, o.TTL / 20},
		{"FailoverDelay", o.FailoverDelay, 0}, {"IncumbentGrace", o.IncumbentGrace, 0}, {"StepDownTimeout", o.StepDownTimeout, 1},
	} {
		if d.v < d.min {
			return bad("{%s} is %v, must be at least %v", d.name, d.v, d.min)
		}
		if most := maxDuration / 20; d.v > most {
			return bad("{%s} is %v, must be at most %v", d.name, d.v, most)
		}
	}
	switch {
	case o.TTL < g.MinTTL:
		return bad("{TTL} is %v, the least that backend %s can keep is %v", o.TTL, g.Name, g.MinTTL)
	case g.MaxTTL > 0 && o.TTL > g.MaxTTL:
		return bad("{TTL} is %v, the greatest that backend %s can keep is %v", o.TTL, g.Name, g.MaxTTL)
	case g.MaxSession > 0 && o.TTL+2*o.RenewEvery > g.MaxSession:
		return bad("{TTL} + 2 * {RenewEvery} = %v + 2 * %v = %v, must be %v at most on backend %s",
			o.TTL, short(o.RenewEvery), short(o.TTL+2*o.RenewEvery), g.MaxSession, g.Name)
	case o.ClockMargin < g.ClockMargin:
		return bad("{ClockMargin} is %v, backend %s needs at least %v", o.ClockMargin, g.Name, g.ClockMargin)
	case o.RenewEvery+o.CallTimeout+o.ClockMargin >= o.TTL:
		return bad("{RenewEvery} + {CallTimeout} + {ClockMargin} = %v + %v + %v = %v, must be less than {TTL} = %v",
			short(o.RenewEvery), short(o.CallTimeout), short(o.ClockMargin), short(o.RenewEvery+o.CallTimeout+o.ClockMargin), o.TTL)
	}
	if err := backend.CheckID(o.ID); err != nil {
		return Options{}, err
	}
	if err := backend.CheckText("address", o.Address, backend.MaxAddress, false); err != nil {
		return Options{}, err
	}
	if err := backend.CheckText("metadata", o.Metadata, backend.MaxMetadata, true); err != nil {
		return Options{}, err
	}
	return o, nil
}
