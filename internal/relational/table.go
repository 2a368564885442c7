package relational

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend/clean"
)

// DefaultPrefix and DefaultMaxTTL apply if a user names none.
const (
	DefaultPrefix = "election"
	DefaultMaxTTL = 15 * time.Second

	greatestTTL = 5 * time.Minute
)

// A Table is the name of the table, with its schema if one was given.
type Table struct{ Quote, Schema, Prefix string }

// NewTable checks names. A schema may have any printable name that a server allows; letters says which a
// prefix may have: a part of a regular expression.
func NewTable(quote, letters, schema, prefix string) (Table, error) {
	t := Table{quote, schema, cmp.Or(prefix, DefaultPrefix)}
	if clean.Text(schema, maxName, false) != schema {
		return Table{}, fmt.Errorf("schema is %.80q; it must be up to %d printable characters", schema, maxName)
	}
	if !regexp.MustCompile("^[" + letters + "_][" + letters + "0-9_]{0,47}$").MatchString(t.Prefix) {
		return Table{}, fmt.Errorf("prefix is %.60q; it must be 1 to 48 ASCII letters (%s), digits and underscores and not begin with a digit", t.Prefix, letters)
	}
	return t, nil
}

// String returns the quoted name.
func (t Table) String() string {
	quoted := t.Quote + t.Prefix + "_item" + t.Quote
	if t.Schema != "" {
		quoted = t.Quote + strings.ReplaceAll(t.Schema, t.Quote, t.Quote+t.Quote) + t.Quote + "." + quoted
	}
	return quoted
}

// CheckOptions returns what is wrong with a greatest TTL, and with the number of sources: only one of
// them may be given.
func (d *Driver) CheckOptions(sources string, given ...bool) error {
	count := len(slices.DeleteFunc(given, func(is bool) bool { return !is }))
	d.MaxTTL = cmp.Or(d.MaxTTL, DefaultMaxTTL)
	switch {
	case count != 1:
		return fmt.Errorf("set dsn or dsn_file, in a program exactly one of %s; %d are set", sources, count)
	case d.MaxTTL < d.MinTTL || d.MaxTTL > greatestTTL:
		return fmt.Errorf("max_ttl is %v, it must be %v to %v", d.MaxTTL, d.MinTTL, greatestTTL)
	}
	return nil
}
