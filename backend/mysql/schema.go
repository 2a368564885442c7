package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/relational"
)

// tableSQL compares names byte by byte, as VARBINARY. kind is record, session, meta or origin.
const tableSQL = `CREATE TABLE IF NOT EXISTS {table} (
  kind    VARBINARY(7)   NOT NULL,
  name    VARBINARY(255) NOT NULL,
  value   LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  version VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  created VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  at      DATETIME(6)    NOT NULL,
  PRIMARY KEY (kind, name)
) ENGINE=InnoDB;`

func fill(text string, t relational.Table) string {
	return strings.ReplaceAll(text, "{table}", t.String())
}

func createSQL(t relational.Table) string {
	return strings.Join(strings.Fields(fill(tableSQL, t)), " ")
}

const (
	memberRights = "SELECT, INSERT, UPDATE, DELETE"
	makerRights  = "CREATE, " + memberRights
)

// SchemaSQL returns the statements that create the table and grant the rights, as a text for people.
// schema and prefix are those of [Options]; both may be empty.
func SchemaSQL(schema, prefix string) (string, error) {
	d, err := unconnected(schema, prefix)
	if err != nil {
		return "", fmt.Errorf("mysql: %w: %w", backend.ErrInvalid, err)
	}
	t := d.Table
	const rights = "\n\n-- The rights that members need, and those of observers; write the accounts in.\n"
	return fill(tableSQL, t) + rights + grant(memberRights, t, placeholderAccount) + "\n" +
		grant("SELECT", t, "'observer'@'host'") + "\n", nil
}

// Grant implements [relational.Dialect]. An account is app or app@host; the host is % if none is named.
func (d *driver) Grant(ctx context.Context, t relational.Table, name string) error {
	if !strings.Contains(name, "@") {
		name += "@%"
	}
	to := accountOf(name)
	if to == placeholderAccount {
		return fmt.Errorf("%w: it must be user@host, of printable characters", backend.ErrInvalid)
	}
	_, err := d.query(ctx, strings.TrimSuffix(grant(memberRights, t, to), ";"))
	return err
}

// CreateTables is like the method of this name, for a program's own pool, as in [Options].
func CreateTables(ctx context.Context, db *sql.DB, schema, prefix string) error {
	b, err := Open(Options{DB: db, Schema: schema, Prefix: prefix, Poll: true})
	if err != nil {
		return err
	}
	defer b.Close()
	return b.CreateTables(ctx)
}

// grantHint is part of an error about missing rights: the statement that grants them. It is one line, with
// nothing that a logger escapes, so that it can be pasted.
func grantHint(rights string, t relational.Table, account string) string {
	return "; an administrator can grant what is needed: " + grant(rights, t, account)
}

func grant(rights string, t relational.Table, account string) string {
	return "GRANT " + rights + " ON " + t.String() + " TO " + account + ";"
}

// placeholderAccount stands for an account that is not known, or anonymous, which is granted nothing.
const placeholderAccount = "'user'@'host'"

// account returns an account as statements have it. Quotes are doubled: what a backslash means depends.
func account(user, host string) string {
	if user == "" || !isPlain(user) || !isPlain(host) {
		return placeholderAccount
	}
	return relational.Quoted(user, "'") + "@" + relational.Quoted(host, "'")
}

// accountOf is account of user@host, as CURRENT_USER() has it: nothing is quoted, and no host has an @.
func accountOf(who string) string {
	at := max(0, strings.LastIndexByte(who, '@'))
	return account(who[:at], strings.TrimPrefix(who[at:], "@"))
}

// isPlain reports whether a log shows a name unchanged, as strconv.Quote does. Servers allow 80 characters.
func isPlain(name string) bool { return len(name) <= 320 && strconv.Quote(name) == `"`+name+`"` }
