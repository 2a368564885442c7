package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// The classes of errors. A Backend wraps each error that it returns in one of
// them; an error of no class counts as ErrUnavailable. No error may contain a
// password, a token or a whole DSN.
var (
	// ErrUnavailable: the store could not be reached, or could not carry out the call now.
	// The outcome is unknown. Try again.
	ErrUnavailable = errors.New("store unavailable")

	// ErrDenied: credentials, rights, a missing table, a table of another shape, two servers
	// that take turns, a TTL above what an operator allows. An operator must act; the message
	// says how. The manager reports it and tries again at a slow pace.
	ErrDenied = errors.New("store denied")

	// ErrInvalid: a call that can never succeed, such as one with a TTL above what the store
	// can ever keep. Do not try it again unchanged.
	ErrInvalid = errors.New("invalid request")

	// ErrStale: the term that a request names is over. It wraps ErrInvalid.
	ErrStale error = staleError{}

	// ErrClosed: the Backend has been closed. It wraps ErrInvalid.
	ErrClosed error = closedError{}
)

type staleError struct{}

func (staleError) Error() string { return "the term is over" }
func (staleError) Unwrap() error { return ErrInvalid }

type closedError struct{}

func (closedError) Error() string { return "backend closed" }
func (closedError) Unwrap() error { return ErrInvalid }

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

// Redacted returns an error with this text that is of err's class, and matches those errors of
// this package and of package context that err matches. It drops the rest of err's chain,
// which could print a secret.
func Redacted(err error, text string) error {
	e := redacted{text: text}
	for _, kind := range []error{ErrStale, ErrClosed, ErrInvalid, ErrDenied, ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			e.kinds = append(e.kinds, kind)
		}
	}
	return e
}

// FileError returns err, about a file that a configuration names, without the path unless that
// looks like a path: people put the secret itself where the path of its file belongs.
func FileError(err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok || looksLikePath(e.Path) {
		return err
	}
	return fmt.Errorf("%s a path that is not shown, since it does not begin with / or ./: %w", e.Op, e.Err)
}

func looksLikePath(path string) bool {
	begins := strings.HasPrefix(path, "/") || strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../")
	return begins && len(path) < 1024 && !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == '@' || r == ':' })
}

type redacted struct {
	text  string
	kinds []error
}

func (e redacted) Error() string   { return e.text }
func (e redacted) Unwrap() []error { return e.kinds }
