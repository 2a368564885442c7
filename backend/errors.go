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
	// ErrUnavailable: the store could not be reached or could not do it now. Try
	// again. The outcome is unknown.
	ErrUnavailable = errors.New("store unavailable")

	// ErrDenied: credentials, rights, a missing table, a table of another shape,
	// two servers that take turns, a TTL above what an operator allows. Somebody must act; the message says what to
	// do. The manager says so loudly and tries again at a slow pace.
	ErrDenied = errors.New("store denied")

	// ErrInvalid: a request that can never succeed, such as a TTL above
	// what the store can ever keep. Never try again unchanged.
	ErrInvalid = errors.New("invalid request")

	// ErrStale: a request whose term is over. It wraps ErrInvalid.
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

// Redacted returns an error that says text and is what err is: of the same class, and of
// those errors of this package and of package context that err is. The rest of err's
// chain, which would print a secret again, is gone.
func Redacted(err error, text string) error {
	e := redacted{text: text}
	for _, kind := range []error{ErrStale, ErrClosed, ErrInvalid, ErrDenied, ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, kind) {
			e.kinds = append(e.kinds, kind)
		}
	}
	return e
}

// FileError returns err, of a file that a configuration names, and leaves the path out
// unless it looks like one: some put the secret itself where the path of its file belongs.
func FileError(err error) error {
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok || looksLikePath(e.Path) {
		return err
	}
	return fmt.Errorf("%s a path that is not shown, since it does not begin as /… or ./…: %w", e.Op, e.Err)
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
