package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The classes of errors. Each error that a Backend returns wraps one of them; an error of no class counts as
// ErrUnavailable. No error may contain a password, a token or a whole DSN.
var (
	// ErrUnavailable: the store could not be reached, or could not carry out the call now.
	// The outcome is unknown. Try again.
	ErrUnavailable = errors.New("store unavailable")

	// ErrPoolBusy: the program has handed in its own pool, which has no connection left, so the store was not
	// asked. It wraps ErrUnavailable.
	ErrPoolBusy = fmt.Errorf("%w: the program's own pool has no free connection", ErrUnavailable)

	// ErrDenied: credentials, rights, a missing table, a table of another shape, two servers
	// that take turns, a TTL above what an operator allows. An operator must act; the message
	// says how. The manager reports it and tries again at a slow pace.
	ErrDenied = errors.New("store denied")

	// ErrInvalid: a call that can never succeed, such as one with a TTL above what the store
	// can ever keep. Do not try it again unchanged.
	ErrInvalid = errors.New("invalid request")

	// ErrStale: the term that a request names is over. It wraps ErrInvalid.
	ErrStale = fmt.Errorf("%w: the term is over", ErrInvalid)

	// ErrClosed: the Backend has been closed. It wraps ErrInvalid.
	ErrClosed = fmt.Errorf("%w: the backend is closed", ErrInvalid)
)

// Class returns ErrInvalid, ErrDenied or ErrUnavailable: the class of err, or nil
// for nil. Context errors and errors without a class are ErrUnavailable.
func Class(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ErrUnavailable
	case errors.Is(err, ErrInvalid):
		return ErrInvalid
	case errors.Is(err, ErrDenied):
		return ErrDenied
	}
	return ErrUnavailable
}

// Describe returns the words of an error for a call about n elections: renew "jobs", or renew 3 leases.
func Describe(verb string, n int, first string) string {
	if n == 1 {
		return fmt.Sprintf("%s %q", verb, first)
	}
	return fmt.Sprintf("%s %d leases", verb, n)
}

// Join is errors.Join for the items of one call, of which there may be thousands: the text is one line, with
// the first errors and the number of the others.
func Join(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return &itemErrors{errs}
}

type itemErrors struct{ all []error }

// fewErrors is how many errors itemErrors shows.
const fewErrors = 3

func (e *itemErrors) Error() string {
	text := strings.ReplaceAll(errors.Join(e.all[:min(len(e.all), fewErrors)]...).Error(), "\n", "; ")
	if more := len(e.all) - fewErrors; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

func (e *itemErrors) Unwrap() []error { return e.all }
