package clean

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/go-election/go-election/backend"
)

var lineBreak = regexp.MustCompile(`\s*[\r\n]\s*`) // libraries put each address that they tried into its line

// Secrets returns err with *** in place of these secrets, which a server or a client library may have put
// into its text. It leaves alone secrets of less than four bytes, which are words of many texts. The text is
// one line, too. If a secret was there, the new error has the class of err, and matches those errors of
// packages backend and context that err matches. It drops err's chain, which could print a secret.
func Secrets(err error, secrets ...string) error {
	text := err.Error()
	for _, secret := range secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	line := strings.ReplaceAll(lineBreak.ReplaceAllString(strings.TrimRight(text, "\r\n"), "; "), ":; ", ": ")
	switch {
	case line == err.Error():
		return err
	case text == err.Error():
		return redacted{line, []error{err}}
	}
	e := redacted{text: line}
	for _, kind := range []error{
		backend.ErrStale, backend.ErrClosed, backend.ErrInvalid, backend.ErrDenied, backend.ErrUnavailable,
		context.Canceled, context.DeadlineExceeded,
	} {
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
	odd := func(r rune) bool { return r < ' ' || r == '@' || r == ':' }
	return begins && len(path) < 1024 && !strings.ContainsFunc(path, odd)
}

type redacted struct {
	text  string
	kinds []error
}

func (e redacted) Error() string   { return e.text }
func (e redacted) Unwrap() []error { return e.kinds }
