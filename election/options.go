package election

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// DefaultTTL is the TTL of a manager that sets none.
const DefaultTTL = 10 * time.Second

// Options configures a [Manager]. The zero value is ready to use: zero fields get their defaults.
// [New] checks all values and changes none. The timings must satisfy
//
//	RenewEvery + CallTimeout + ClockMargin < TTL
//
// so that after a renewal that hung for CallTimeout another one can be sent. The rest, 2.5 s by
// default, is the time that the second renewal has.
type Options struct {
	// ID is this candidate's name: 1 to 255 bytes of printable UTF-8. It may outlive the process: a restarted
	// leader with the same ID has the IncumbentGrace. Two live processes in one election must have different
	// IDs. If they share one, the election stays safe, and watchers get a notice (ReasonSameID). Default:
	// hostname:pid-xxxx with four random hexadecimal digits.
	ID string

	// Address and Metadata appear wherever the leader or the members are shown. Anyone who can read the store
	// can read them: put no secret there. Up to 255 bytes and 4 KiB of text. Default: empty.
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
	// at chrony's default limit of 83,333 ppm need 0.154 of the TTL. At least TTL/20. Default: TTL/6.
	ClockMargin time.Duration

	// FailoverDelay is how long nobody may lead after a leader has failed, beyond the TTL. In
	// that time the work that the failed leader left running can end. An orderly release skips
	// it. All members must have the same value. Default: 0.
	FailoverDelay time.Duration

	// IncumbentGrace is how long other candidates wait after a leader has failed, so that a
	// candidate with the failed leader's ID can lead again. It is added to FailoverDelay. All
	// members must have the same value. Default: 0.
	IncumbentGrace time.Duration

	// Priority orders the candidates of an election. When nobody leads, those of a lower priority
	// let a higher one bid first, for 2 * (RenewEvery + CallTimeout) at most. Equal ones are in no order.
	// 0 to 2,147,483,647. With 0 and no Reclaim, this process lets nobody bid first: set one of the
	// two in all members. Default: 0, the lowest.
	Priority int

	// Reclaim is how long this process must have been ready to lead before it asks for a leadership
	// of a lower priority, and that one steps down in order. After each claim that has not made it
	// a lasting leader it waits twice as long, up to 64 times Reclaim. 0, or at least TTL. Default: 0, never.
	Reclaim time.Duration

	// StepDownTimeout is how long a leader that steps down waits for its function to return, and renews the
	// lease meanwhile. After that time the lease is not released: it expires. Default: 30 s.
	StepDownTimeout time.Duration

	// Health, if set, is called every RenewEvery, on a goroutine of its own, with a context
	// that ends after CallTimeout. This process does not campaign before the first check has
	// passed. An error, or a check that outlasts its context, makes the process step down from
	// everything it leads; it campaigns again when a check passes. Default: nil, always healthy.
	Health func(context.Context) error

	// Guard, if set, releases what this process leads when the process crashes: see package
	// electionguard, which starts one. The manager closes it. Default: nil, a crash costs a TTL.
	Guard Guard

	// Observer makes a manager that never campaigns and never writes to the store; read access
	// is enough. Default: false.
	Observer bool

	// Logger receives log records on a goroutine of its own. A logger that hangs delays no
	// lease: records beyond 256 are dropped and counted. Default: warnings and errors go to
	// slog.Default, as it is when New is called.
	Logger *slog.Logger
}

// A Guard knows what this process holds, and outlives it: *electionguard.Guard. The manager tells it of bids
// before they are sent and of their answers before it acts on them.
type Guard interface {
	Bidding(bids []backend.Bid)
	Answered(bids []backend.Bid, answers []backend.Answer)
	Released(held []backend.Held)
	Close() error // when nothing is held any more
}

// noGuard is the guard of a manager without one.
type noGuard struct{}

func (noGuard) Bidding([]backend.Bid)                    {}
func (noGuard) Answered([]backend.Bid, []backend.Answer) {}
func (noGuard) Released([]backend.Held)                  {}
func (noGuard) Close() error                             { return nil }

// An OptionError says which option has a value that is not allowed, and why. It is of class
// backend.ErrInvalid.
type OptionError struct {
	// Option is the field of [Options], such as "TTL", or of config.Options.
	Option string

	// Value is the option's value, set or by default: a time.Duration, a string or an int.
	Value any

	// Must is the rule that a duration breaks: "at least", "at most" or "more than" Bound. Else it is empty.
	Must  string
	Bound time.Duration

	// Reason says where Bound comes from, such as other options, or is empty; without Bound it says what is
	// wrong, and what is allowed.
	Reason string
}

// Error returns the value, what is allowed and the reason, with the names of the fields.
func (e *OptionError) Error() string {
	return fmt.Sprintf("%v: option %s", backend.ErrInvalid, e.Text(func(name string) string { return name }))
}

// Unwrap returns backend.ErrInvalid.
func (e *OptionError) Unwrap() error { return backend.ErrInvalid }

var optionName = regexp.MustCompile(`\b(TTL|RenewEvery|CallTimeout|ClockMargin)\b`)

// Text returns the text with other names of options: name returns the name for a field of [Options]. Package
// config passes the names of its keys.
func (e *OptionError) Text(name func(option string) string) string {
	if e.Must == "" {
		return name(e.Option) + " " + e.Reason
	}
	text := fmt.Sprintf("%s is %v, must be %s %v", name(e.Option), e.Value, e.Must, short(e.Bound))
	if e.Reason == "" {
		return text
	}
	return text + ": " + optionName.ReplaceAllStringFunc(e.Reason, name)
}

// short rounds a duration for a text: a third of 10s is 3.333s.
func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// Complete checks o and returns it with all defaults but Logger filled in, as [New] uses it. g has the
// store's limits. The error is an [*OptionError].
func (o Options) Complete(g backend.Guarantees) (Options, error) {
	if o.ID == "" {
		host, _ := os.Hostname()
		host = clean.Text(cmp.Or(host, "unknown-host"), 200, false)
		o.ID = fmt.Sprintf("%s:%d-%s", host, os.Getpid(), backend.NewNonce().Short())
	}
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.RenewEvery = cmp.Or(o.RenewEvery, o.TTL/3)
	o.CallTimeout = cmp.Or(o.CallTimeout, o.TTL/4)
	o.ClockMargin = cmp.Or(o.ClockMargin, o.TTL/6)
	o.StepDownTimeout = cmp.Or(o.StepDownTimeout, 30*time.Second)

	if e := cmp.Or(o.checkDurations(), o.checkNumbers(g), o.checkText()); e != nil {
		return Options{}, e
	}
	return o, nil
}

// checkDurations checks each duration by itself.
func (o *Options) checkDurations() *OptionError {
	for _, d := range []struct {
		name     string
		v, least time.Duration
	}{
		{"TTL", o.TTL, 1}, {"RenewEvery", o.RenewEvery, 1}, {"CallTimeout", o.CallTimeout, 1},
		{"ClockMargin", o.ClockMargin, 0}, {"FailoverDelay", o.FailoverDelay, 0}, {"Reclaim", o.Reclaim, 0},
		{"IncumbentGrace", o.IncumbentGrace, 0}, {"StepDownTimeout", o.StepDownTimeout, 1},
	} {
		switch most := maxDuration / 20; {
		case d.v < d.least:
			return &OptionError{d.name, d.v, "at least", d.least, ""}
		case d.v > most:
			return &OptionError{d.name, d.v, "at most", most, ""}
		}
	}
	return nil
}

// checkNumbers checks the priority, and compares the durations with each other and with the store's limits.
func (o *Options) checkNumbers(g backend.Guarantees) *OptionError {
	onStore := "a limit of backend " + g.Name
	switch sum := o.RenewEvery + o.CallTimeout + o.ClockMargin; {
	case o.TTL < g.MinTTL:
		return &OptionError{"TTL", o.TTL, "at least", g.MinTTL, onStore}
	case g.MaxTTL > 0 && o.TTL > g.MaxTTL:
		return &OptionError{"TTL", o.TTL, "at most", g.MaxTTL, onStore}
	case o.ClockMargin < o.TTL/20:
		return &OptionError{"ClockMargin", o.ClockMargin, "at least", o.TTL / 20, "a twentieth of TTL"}
	case sum >= o.TTL:
		v := fmt.Sprintf("%v + %v + %v", short(o.RenewEvery), short(o.CallTimeout), short(o.ClockMargin))
		return &OptionError{"TTL", o.TTL, "more than", sum, "RenewEvery + CallTimeout + ClockMargin = " + v}
	case o.Reclaim > 0 && o.Reclaim < o.TTL:
		return &OptionError{"Reclaim", o.Reclaim, "at least", o.TTL, "TTL, or 0 for never"}
	case o.Priority < 0 || o.Priority > maxPriority:
		reason := fmt.Sprintf("is %d, must be 0 to %d", o.Priority, maxPriority)
		return &OptionError{Option: "Priority", Value: o.Priority, Reason: reason}
	}
	return nil
}

// checkText checks the texts that the store shows to others.
func (o *Options) checkText() *OptionError {
	check := func(name, v string, limit int) *OptionError {
		err := backend.CheckText(name, v, limit, name == "Metadata")
		if err == nil {
			return nil
		}
		_, reason, _ := strings.Cut(err.Error(), name+" ")
		return &OptionError{Option: name, Value: v, Reason: reason}
	}
	return cmp.Or(
		check("ID", o.ID, backend.MaxID),
		check("Address", o.Address, backend.MaxAddress),
		check("Metadata", o.Metadata, backend.MaxMetadata),
	)
}
