package config

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-election/go-election/backend"
)

// An Error is one problem in a configuration. Load, Validate and Open return all
// problems that they find, joined; errors.As finds the first. An Error is of class backend.ErrInvalid. It
// never holds a value that could be a secret: of the values in a store's section it shows only numbers,
// durations and booleans, cut to 40 bytes.
type Error struct {
	Source  string // the file, or the name of an environment variable
	Line    int    // in the file; 0: none
	Key     string // such as "mysql.dsn"; empty if the problem concerns no single key
	Problem string // the problem, the value unless it could be secret, and what is allowed

	err error // the error of another package that it wraps
}

func (e *Error) Error() string {
	s := "config: "
	if e.Source != "" {
		s += e.Source
		if e.Line > 0 {
			s += ":" + strconv.Itoa(e.Line)
		}
		s += ": "
	}
	if e.Key != "" && e.Key != e.Source && !strings.HasPrefix(e.Problem, e.Key+" ") {
		s += e.Key + ": "
	}
	return s + e.Problem
}

// Unwrap returns the error of another package, if there is one, or backend.ErrInvalid.
func (e *Error) Unwrap() error { return cmp.Or(e.err, backend.ErrInvalid) }

// problems collects errors.
type problems []error

func (p *problems) add(at place, key, format string, args ...any) {
	*p = append(*p, &Error{Source: at.source, Line: at.line, Key: key, Problem: fmt.Sprintf(format, args...)})
}

// err joins the first 20 problems: a large file may have one on each line.
func (p problems) err() error { return errors.Join(p[:min(len(p), 20)]...) }

// A place is where a value was written.
type place struct {
	source string
	line   int
}

// show quotes the beginning of a value that is not secret.
func show(value string) string { return fmt.Sprintf("%.40q", value) }

var keyLike = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,39}$`)

// showKey quotes an unknown key or an unknown store. A text that does not look like a
// name is not shown: it may be a secret in the wrong place.
func showKey(key string) string {
	if !keyLike.MatchString(key) {
		return "(not shown, since it does not look like a name)"
	}
	return strconv.Quote(key)
}
