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

// tableSQL has names as VARBINARY, so that they are compared byte by byte. kind is record, session, meta or
// origin.
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

// The rights of a member, and of one who also makes the table.
const (
	memberRights = "SELECT, INSERT, UPDATE, DELETE"
	makerRights  = "CREATE, " + memberRights
)

// SchemaSQL returns the statements that create the table and grant the rights, as a text for people.
// schema and prefix are those of [Options]; both may be empty.
func SchemaSQL(schema, prefix string) (string, error) {
	t, err := newTable(schema, prefix)
	if err != nil {
		return "", fmt.Errorf("mysql: %w: %w", backend.ErrInvalid, err)
	}
	return fill(tableSQL, t) + "\n\n-- The rights that members need, and those of observers; write the accounts in.\n" +
		grant(memberRights, t.String(), placeholderAccount) + "\n" + grant("SELECT", t.String(), "'observer'@'host'") + "\n", nil
}

// Grant implements [relational.Dialect]. An account is app or app@host; the host is % if none is named.
func (d *driver) Grant(ctx context.Context, t relational.Table, name string) error {
	to := accountOf(name)
	if !strings.Contains(name, "@") {
		to = account(name, "%")
	}
	if to == placeholderAccount {
		return fmt.Errorf("%w: it must be user@host, of printable characters", backend.ErrInvalid)
	}
	_, err := d.query(ctx, strings.TrimSuffix(grant(memberRights, t.String(), to), ";"))
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

// grantHint is part of an error about missing rights: the statement that grants these on the
// table. It is on one line and contains nothing that a logger escapes, so that it can be pasted.
func grantHint(rights string, t relational.Table, account string) string {
	return "; an administrator can grant what is needed: " + grant(rights, t.String(), account)
}

func grant(rights, table, account string) string {
	return "GRANT " + rights + " ON " + table + " TO " + account + ";"
}

// placeholderAccount stands for an account that is not known, or anonymous: nobody should grant that one
// anything.
const placeholderAccount = "'user'@'host'"

// account returns an account in the form of SQL statements. Quotes are doubled, since the
// meaning of a backslash depends on the server.
func account(user, host string) string {
	if user == "" || !isPlain(user) || !isPlain(host) {
		return placeholderAccount
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return quote(user) + "@" + quote(host)
}

// accountOf is account of user@host, as CURRENT_USER() has it: nothing is quoted, and no host has an @.
func accountOf(who string) string {
	at := max(0, strings.LastIndexByte(who, '@'))
	return account(who[:at], strings.TrimPrefix(who[at:], "@"))
}

// isPlain reports whether a log shows a name unchanged: logs escape what strconv.Quote
// escapes. Servers allow 80 characters.
func isPlain(name string) bool { return len(name) <= 320 && strconv.Quote(name) == `"`+name+`"` }
