package relational

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

const (
	defaultPrefix = "election"
	defaultMaxTTL = 15 * time.Second
	greatestTTL   = 5 * time.Minute
	maxName       = 64 // characters of a schema's name; servers allow 63 and 64
)

// A Table is the name of the table, with its schema if one was given.
type Table struct{ Quote, Schema, Prefix string }

// NewTable checks names. A schema may have any printable name that a server allows; letters says which a
// prefix may have: a part of a regular expression.
func NewTable(quote, letters, schema, prefix string) (Table, error) {
	t := Table{quote, schema, cmp.Or(prefix, defaultPrefix)}
	if clean.Text(schema, maxName, false) != schema {
		return t, fmt.Errorf("schema is %.80q; it must be up to %d printable characters", schema, maxName)
	}
	if !regexp.MustCompile("^[" + letters + "_][" + letters + "0-9_]{0,47}$").MatchString(t.Prefix) {
		return t, fmt.Errorf("prefix is %.60q; it must be 1 to 48 ASCII letters (%s), digits and "+
			"underscores and not begin with a digit", t.Prefix, letters)
	}
	return t, nil
}

// String returns the quoted name.
func (t Table) String() string {
	name := Quoted(t.Name(), t.Quote)
	if t.Schema != "" {
		name = Quoted(t.Schema, t.Quote) + "." + name
	}
	return name
}

// Name returns the name without the schema.
func (t Table) Name() string { return t.Prefix + "_item" }

// Quoted returns a name as statements have it.
func Quoted(name, quote string) string {
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}

// Begin returns what is wrong with the greatest TTL, or if not just one of the sources is given.
func (d *Driver) Begin(maxTTL time.Duration, sources string, given ...bool) error {
	count := len(slices.DeleteFunc(given, func(is bool) bool { return !is }))
	d.MaxTTL, d.former = cmp.Or(maxTTL, defaultMaxTTL), map[string]time.Time{}
	d.Context, d.End = context.WithCancel(context.Background())
	switch {
	case count != 1:
		return fmt.Errorf("set dsn or dsn_file, in a program exactly one of %s; %d are set", sources, count)
	case d.MaxTTL < d.MinTTL || d.MaxTTL > greatestTTL:
		return fmt.Errorf("max_ttl is %v, it must be %v to %v", d.MaxTTL, d.MinTTL, greatestTTL)
	}
	return nil
}

// A Survey is what a server says about where the table is.
type Survey struct {
	Where   string   // the server or database that was asked, for errors
	Default string   // the schema that a connection leads to if nobody has told it another; "": none
	Found   []string // the schemas that have a table of this name, and to which connections may lead
	Doubt   string   // why Default may be somebody else's choice; "": it is not
	Other   string   // a schema that has such a table, and to which nobody is led; "": none
	Account string   // as statements have it; "": it is not known
	Hint    string   // what an administrator can do about a missing or unusable table: "; …", or ""
}

// Elsewhere says in which other schemas there is a table of the name: "; …", or "".
func (s *Survey) Elsewhere(t Table) string {
	others := slices.DeleteFunc(slices.Concat(s.Found, []string{s.Other}), func(schema string) bool {
		return schema == "" || schema == t.Schema
	})
	if len(others) == 0 {
		return ""
	}
	return "; there is one in the schema " + names(others) +
		": correct the configuration, or start this process again if it was moved there"
}

func names(schemas []string) string { return clean.Text(strings.Join(schemas, ", "), 8*maxName, false) }

// Place returns the table with its schema. If no schema was named, the first answer of a server settles it
// for as long as the Driver is used, whatever connections are told afterwards.
func (d *Driver) Place(ctx context.Context) (Table, error) {
	t := d.Settled()
	if t.Schema != "" {
		return t, nil
	}

	s, err := d.Dialect.Survey(ctx)
	if err == nil {
		t, err = d.meant(&s)
	}
	if err == nil && len(s.Found) == 0 {
		err = fmt.Errorf("%w: there is no table %s in %s%s", backend.ErrDenied, d.Table, s.Where, s.Hint)
	}
	if err == nil {
		d.settled.CompareAndSwap(nil, &t)
	}
	return d.Settled(), err
}

// Settled is the table as it stands in statements. Place has returned it before.
func (d *Driver) Settled() Table {
	return *cmp.Or(d.settled.Load(), &d.Table)
}

// meant returns the table with the schema in which it is, or is to be made. That is only beyond doubt if no
// other schema has one: two processes whose connections lead to two schemas would have a leader each.
func (d *Driver) meant(s *Survey) (Table, error) {
	t, hint := d.Table, s.Hint
	why := fmt.Sprintf("there is no table %s in %s, and ", t, s.Where)
	switch {
	case t.Schema != "":
		return t, nil
	case len(s.Found) > 1 || len(s.Found) == 1 && s.Found[0] != s.Default:
		why = fmt.Sprintf("it is not certain which table %s is meant: in %s these schemas have one: %s; "+
			"and the connection leads to the schema %q", t, s.Where, names(s.Found), s.Default)
	case s.Other != "":
		why += "none is made beside that of the schema " + names([]string{s.Other})
		hint = "" // it would have the statement that makes a second one
	case s.Default == "":
		why += "the connection leads to no schema that is there and may be used"
	case len(s.Found) == 0 && s.Doubt != "":
		why += "none is made by itself, since it is not certain where: " + s.Doubt
	default:
		t.Schema = s.Default
		return t, nil
	}
	const name = "name the schema in the configuration, the same for all processes"
	return t, fmt.Errorf("%w: %s; %s%s", backend.ErrDenied, why, name, hint)
}

// create creates the table if it is not there, unless it is in doubt where.
func (d *Driver) create(ctx context.Context, s *Survey) error {
	t, err := d.meant(s)
	if err == nil {
		err = d.Dialect.CreateTable(ctx, t)
	}
	return err
}

// CreateTables creates the table if it does not exist. The account needs CREATE. Whoever calls it means the
// schema to which the account's connections lead, unless another one has a table already.
func (b *Backend) CreateTables(ctx context.Context) error {
	d := b.driver
	s, err := d.Dialect.Survey(ctx)
	s.Doubt = ""
	if err == nil {
		err = d.create(ctx, &s)
	}
	if err != nil {
		return fmt.Errorf("%s: create tables: %w", d.Name, d.FailWith(err, &s))
	}
	return nil
}

// Prepare implements [backend.Preparer]. It creates a missing table if the account may, there is no doubt
// where it belongs, and KeepSchema of the Options is not set.
func (b *Backend) Prepare(ctx context.Context) error {
	d := b.driver
	if d.KeepSchema {
		return nil
	}
	if _, err := d.Read(ctx, nil); err == nil {
		return nil // there is one
	}
	err := d.prepare(ctx)
	if err == nil || d.Dialect.Fault(err).Lacks || errors.Is(err, backend.ErrDenied) {
		return nil // who may not create it, or does not know where, is told by readings what is to be done
	}
	return fmt.Errorf("%s: prepare: %w", d.Name, d.Fail(err)) // it may succeed when it is tried again
}

// prepare creates the table, unless this process has found one. While it cannot, readings try it again.
func (d *Driver) prepare(ctx context.Context) error {
	s, err := d.Dialect.Survey(ctx)
	missing := len(s.Found) == 0 || d.Table.Schema != "" && !slices.Contains(s.Found, d.Table.Schema)
	if err == nil && missing {
		err = d.create(ctx, &s)
	}
	d.unmade.Store(err != nil)
	return err
}
