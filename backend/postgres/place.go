package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-election/go-election/internal/relational"
)

// surveySQL asks for the search path of the connection, which it may have been told, for that with which it
// began, where that leads, for the role, for all tables that may be meant, and for the schema that was named.
const surveySQL = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ` + limitSQL + encodingSQL +
	`SELECT pg_catalog.current_setting('search_path'), pg_catalog.pg_backend_pid() <> {pid}; ` + settingsSQL +
	`SET LOCAL search_path TO DEFAULT; SELECT pg_catalog.current_setting('search_path'),
 pg_catalog.current_database(), pg_catalog.current_schema(),
 (SELECT p.s FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS p(s, i)
 JOIN pg_catalog.pg_namespace n ON n.nspname = p.s
 JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = '{name}' ORDER BY p.i LIMIT 1),
 current_user;
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT n.nspname, has_schema_privilege(n.oid, 'USAGE') ` + tablesSQL + `ORDER BY n.nspname;
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = {schema}),
 (SELECT min(n.nspname::text) ` + oursSQL + `); COMMIT`

// oursSQL has all tables of the name in the database that have our columns.
const oursSQL = `FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname = '{name}' AND c.relpersistence <> 't' AND ` + columnSQL

const columnSQL = `EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'written')`

// tablesSQL has the tables of the name to which the search path may lead, with which this connection began:
// this account, and others if "$user" is in it, which stands for as many schemas as there are roles. No right
// hides a table in pg_class. Temporary ones, which are of one connection, do not count.
const tablesSQL = `FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 JOIN pg_settings p ON p.name = 'search_path'
 WHERE c.relname = '{name}' AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't'
 AND (n.nspname IN (SELECT btrim(s, '" ') FROM regexp_split_to_table(p.reset_val, ',') AS s)
 OR p.reset_val LIKE '%$user%' AND n.nspname IN (SELECT rolname FROM pg_roles) AND ` + columnSQL + `) `

func (d *driver) Survey(ctx context.Context) (s relational.Survey, err error) {
	results, err := d.exec(ctx, d.named(surveySQL))
	if err != nil {
		return s, err
	}
	told, begun, tables, there := results[0], results[1], results[2], results[3]
	s.Account = account(text(begun, 0, 4))
	s.Where = fmt.Sprintf("the database %q", text(begun, 0, 1))
	s.Default = cmp.Or(text(begun, 0, 3), text(begun, 0, 2))
	for i := range tables.Rows {
		s.Found = append(s.Found, text(tables, i, 0))
	}
	if len(s.Found) == 0 {
		s.Other = text(there, 0, 1)
	}
	t := d.Table
	t.Schema = cmp.Or(t.Schema, s.Default)
	schema := relational.Quoted(t.Schema, `"`)
	switch {
	case d.Table.Schema != "" && text(there, 0, 0) != "t":
		s.Hint = "; it has no such schema"
		if len(s.Found) == 0 && s.Other == "" {
			s.Hint += "; an administrator makes it for this account: CREATE SCHEMA " + schema +
				" AUTHORIZATION " + s.Account + ";"
		}
	case len(s.Found) == 0 && t.Schema != "", d.Table.Schema != "" && !slices.Contains(s.Found, t.Schema):
		s.Hint = hintToMake(t, s.Account)
	case len(s.Found) == 1 && text(tables, 0, 1) != "t":
		s.Hint = "; the account may not use that schema: GRANT USAGE ON SCHEMA " +
			relational.Quoted(s.Found[0], `"`) + " TO " + s.Account + ";"
	}
	if text(told, 0, 0) != text(begun, 0, 0) || text(told, 0, 1) == "t" {
		s.Doubt = "others may set the search_path of this connection: it is of a pool, or behind a pooler"
	}
	return s, nil
}

// CreateTable implements [relational.Dialect]. Unless a schema was named, none is made beside another one.
func (d *driver) CreateTable(ctx context.Context, t relational.Table) error {
	make := createSQL(ascii(t))
	if d.Table.Schema == "" {
		make = d.named("DO $go_election$ BEGIN IF NOT EXISTS (SELECT " + oursSQL + ") THEN " + make +
			" END IF; END $go_election$;")
	}
	_, err := d.exec(ctx, writingSQL+"SELECT pg_advisory_xact_lock(1701603692, 0); "+make+" COMMIT")
	return err
}

// hintToMake says how an administrator makes a missing table. The statements end it, to be pasted.
func hintToMake(t relational.Table, account string) string {
	return "; if it is in another database, correct the dsn; an administrator, with a dsn of their own, " +
		"makes the table and grants the rights by \"elect schema --apply --grant-to " +
		strings.Trim(account, `"`) + "\", or with these statements: " +
		createSQL(t.String()) + " " + grantSQL(t, account)
}

// named completes the text of a statement that looks for the table by its name.
func (d *driver) named(text string) string {
	return strings.NewReplacer("{name}", d.Table.Name(), "{schema}", textSQL(d.Table.Schema)).Replace(text)
}
