package relational

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/backend/lease"
)

// DefaultPrefix and DefaultMaxTTL apply if a user names none.
const (
	DefaultPrefix = "election"
	DefaultMaxTTL = 15 * time.Second

	greatestTTL = 5 * time.Minute
)

// A Table is the name of the table, with its schema if one was given.
type Table struct{ Quote, Schema, Prefix string }

// NewTable checks names. A schema may have any printable name that a server allows; letters says which a prefix may have: a
// part of a regular expression.
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

// Preflight implements [backend.Preflighter] for a backend with this driver. It sends the statements of a change, with
// nothing to change: the server checks the rights first.
func (d *Driver) Preflight(ctx context.Context, b *lease.Backend, bids []backend.Bid) []error {
	err := b.Enter(bids[0].Candidate.Nonce)
	var v lease.View
	if err == nil {
		v, err = d.Read(ctx, nil)
	}
	if err == nil {
		_, err = d.Dialect.Change(ctx, &Batch{Epoch: v.Epoch, Rows: []Row{}, Notify: []int{}, Verify: [][3]string{},
			Inserts: true, Updates: true, Deletes: true})
		err = d.Explain(ctx, err)
	}
	if err != nil {
		err = fmt.Errorf("%s: preflight: %w", d.Name, err)
	}
	return slices.Repeat([]error{err}, len(bids))
}

// InspectTTL returns what a doctor says of a TTL.
func (d *Driver) InspectTTL(ttl time.Duration) []backend.Diagnostic {
	list := []backend.Diagnostic{clean.Diagnosticf(ttl > d.MaxTTL, "greatest TTL", "%v (max_ttl); after a failover every lease is observed for that long", d.MaxTTL)}
	if ttl > d.MaxTTL {
		list = append(list, clean.Diagnosticf(true, "TTL", "every bid is refused: the TTL is %v, and max_ttl %v", ttl, d.MaxTTL))
		list[1].Fatal = true
	}
	return list
}
