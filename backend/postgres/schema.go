package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-election/go-election/backend"
)

// tableSQL has the collation in which package lease lists names. kind is record, session, meta or origin.
const tableSQL = `CREATE TABLE IF NOT EXISTS {table} (
  kind    text COLLATE "C" NOT NULL,
  name    text COLLATE "C" NOT NULL,
  value   text NOT NULL,
  written xid8 NOT NULL,
  created xid8 NOT NULL,
  at      timestamptz NOT NULL,
  PRIMARY KEY (kind, name)
) WITH (fillfactor = 70);`

func (t table) createSQL() string {
	return strings.Join(strings.Fields(t.statement(tableSQL, nil)), " ")
}

func (t table) grantSQL(account string) (text string) {
	if t.schema != "" {
		text = `GRANT USAGE ON SCHEMA "` + t.schema + `" TO ` + account + "; "
	}
	return text + "GRANT SELECT, INSERT, UPDATE, DELETE ON " + t.String() + " TO " + account + ";"
}

// SchemaSQL returns the statements that create the table and grant the rights, as a text for people.
// schema and prefix are those of [Options]; both may be empty.
func SchemaSQL(schema, prefix string) (string, error) {
	t, err := newTable(schema, prefix)
	if err != nil {
		return "", fmt.Errorf("postgres: %w: %w", backend.ErrInvalid, err)
	}
	return t.statement(tableSQL, nil) + "\n\n-- The rights that members need, and those of observers; write the accounts in.\n" +
		strings.ReplaceAll(t.grantSQL(`"account"`), "; ", ";\n") + "\nGRANT SELECT ON " + t.String() + " TO \"observer\";\n", nil
}

// CreateTables creates the table if it does not exist. The account needs CREATE in the schema.
func (b *Backend) CreateTables(ctx context.Context) error {
	if err := b.driver.createTable(ctx); err != nil {
		return fmt.Errorf("postgres: create tables: %w", b.driver.fail(err))
	}
	return nil
}

// Prepare implements [backend.Preparer]. It creates the table if there is none, the account may
// create it, and [Options].KeepSchema is not set.
func (b *Backend) Prepare(ctx context.Context) error {
	d := b.driver
	if d.keepSchema {
		return nil
	}
	if _, err := d.exec(ctx, d.table.statement("SELECT FROM {table} LIMIT 0", nil)); err == nil || code(err) != "42P01" {
		return nil // the next call says what is wrong, if anything is
	}
	if err := d.createTable(ctx); err != nil && !isDenied(err) {
		return fmt.Errorf("postgres: prepare: %w", d.fail(err))
	}
	return nil
}

func (d *driver) createTable(ctx context.Context) error {
	_, err := d.exec(ctx, beginSQL+"SELECT pg_advisory_xact_lock(1701603692, 0); "+d.table.createSQL()+" COMMIT")
	return err
}
