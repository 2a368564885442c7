package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-election/go-election/backend"
)

// An Error is one thing that is wrong in a configuration. Load, Validate and Open
// return all they find at once, joined; errors.As finds the first. It is of
// class backend.ErrInvalid. It never holds a value that could be a secret: of
// what stands in the section of a store, only numbers, durations and switches
// are shown, and they are cut short.
type Error struct {
	Source  string // the file, or the name of an environment variable
	Line    int    // in the file; 0: none
	Key     string // such as "mysql.dsn"; empty if it is about the whole
	Problem string // what is wrong, with the value if it may be shown, and what is allowed

	err error // what else it wraps
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
	if e.Key != "" && e.Key != e.Source {
		s += e.Key + ": "
	}
	return s + e.Problem
}

// Unwrap returns backend.ErrInvalid, and what the store's package said.
func (e *Error) Unwrap() []error {
	if e.err != nil {
		return []error{e.err}
	}
	return []error{backend.ErrInvalid}
}

// problems collects errors.
type problems []error

func (p *problems) add(at place, key, format string, args ...any) {
	*p = append(*p, &Error{Source: at.source, Line: at.line, Key: key, Problem: fmt.Sprintf(format, args...)})
}

// err joins the first of the problems: there may be one on each line of a large file.
func (p problems) err() error {
	const most = 20
	if len(p) > most {
		p = append(slices.Clone(p[:most]), &Error{Problem: fmt.Sprintf("and %d problems more", len(p)-most)})
	}
	return errors.Join(p...)
}

// A place is where a value was written.
type place struct {
	source string
	line   int
}

// show quotes a value that is not secret.
func show(value string) string {
	const most = 40
	if len(value) > most {
		return fmt.Sprintf("%.*q…", most, value)
	}
	return strconv.Quote(value)
}

var keyLike = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,39}$`)

// showKey quotes a key, or the name of a store, that nobody knows. What does not look
// like one may be a value in the wrong place.
func showKey(key string) string {
	if !keyLike.MatchString(key) {
		return "(not shown, since it does not look like a name)"
	}
	return strconv.Quote(key)
}

// nearest returns the candidate that was probably meant, or "".
func nearest(word string, candidates []string) string {
	best, least := "", 3
	for _, c := range candidates {
		if d := distance(word, c); d < least && d < len(c) {
			best, least = c, d
		}
	}
	return best
}

// distance is how many bytes must be inserted, deleted, replaced to make a into b.
func distance(a, b string) int {
	if len(a) > 60 || len(b) > 60 {
		return 60
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
