package relational

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

// maxName is how many characters a schema's name may have. Servers allow 63 and 64.
const maxName = 64

// A Survey is what a server says about where the table is.
type Survey struct {
	Where   string   // the server or database that was asked, for errors
	Default string   // the schema that a connection leads to if nobody has told it another; "": none
	Found   []string // the schemas that have a table of this name, and to which connections may lead
	Doubt   string   // why Default may be somebody else's choice; "": it is not
	Other   string   // a schema that has such a table, and to which nobody is led; "": none
	Account string   // as statements have it; "": it is not known
	Hint    string   // what an administrator can do about a table that is not there, or cannot be used: "; …", or ""
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

func names(schemas []string) string {
	shown := make([]string, len(schemas))
	for i, schema := range schemas {
		shown[i] = clean.Text(schema, maxName, false)
	}
	return strings.Join(shown, ", ")
}

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
	if err != nil {
		return d.Table, err
	}

	d.settled.CompareAndSwap(nil, &t)
	return d.Settled(), nil
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

// CreateTables creates the table if it is not there. Who calls it takes the default for what is meant, unless
// some schema has a table already.
func (d *Driver) CreateTables(ctx context.Context) error {
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

// Prepare implements [backend.Preparer]. Where a missing table belongs is in doubt, it makes none.
func (d *Driver) Prepare(ctx context.Context) error {
	if d.KeepSchema {
		return nil
	}
	s, err := d.Dialect.Survey(ctx)
	if err != nil || len(s.Found) > 0 && (d.Table.Schema == "" || slices.Contains(s.Found, d.Table.Schema)) {
		return nil
	}
	if err := d.create(ctx, &s); err != nil && !d.Dialect.Fault(err).Denied {
		return fmt.Errorf("%s: prepare: %w", d.Name, d.Fail(err))
	}
	return nil
}
