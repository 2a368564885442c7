package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-election/go-election/backend"
)

// Schema is the text of schema.sql: the tables with the prefix "election".
//
//go:embed schema.sql
var Schema string

// layout is the holder in the table's own row.
const layout = "layout 1"

// CreateTables creates the tables that do not exist yet. It needs the right to CREATE, which
// the Backend itself does not need. schema and prefix are those of [Options]; both may be
// empty.
func CreateTables(ctx context.Context, db *sql.DB, schema, prefix string) error {
	t, err := newTables(schema, prefix)
	if err != nil {
		return err
	}
	return (&Backend{tables: t}).createTables(ctx, db)
}

// CreateTables is like the function of this name, for this Backend's tables and with its
// account, which needs the right to CREATE besides those of a member.
func (b *Backend) CreateTables(ctx context.Context) error { return b.createTables(ctx, b.db) }

func (b *Backend) createTables(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if is(err, 1044) {
		return b.createDenied(b.loginIn(err), err)
	} else if err != nil {
		return b.fail("create tables", err)
	}
	defer conn.Close()
	identity, err := identityOf(ctx, conn)
	if err != nil {
		return b.fail("create tables", err)
	}
	return b.createTablesOn(ctx, conn, identity)
}

// Prepare implements [backend.Preparer]. It creates the tables if there are none, the account
// may create them, and [Options].KeepSchema is not set. It does not record the server in them:
// the tables may have been dropped while a leader trusts its lease, so the first election
// waits for the greatest TTL (15 s), as after a failover. See docs/design/mysql.md, "Tables
// that a candidate creates".
func (b *Backend) Prepare(ctx context.Context) error {
	if b.keepSchema || b.tableCheck.found.Load() != nil {
		return nil
	}
	conn, err := b.db.Conn(ctx)
	if err != nil {
		return b.fail("prepare", err)
	}
	defer conn.Close()
	err = b.tableCheck.check(ctx, &session{b.statements.Load(), b, conn, false})
	if !errors.Is(err, errUnseen) {
		return nil // the next call says what is wrong, if anything is
	}
	if err := b.createTablesOn(ctx, conn, "''"); err != nil && backend.Class(err) != backend.ErrDenied {
		return err
	}
	return nil
}

// createTablesOn creates the tables. identity is an expression for the server that is recorded
// in a new table: if it is known, this server knows every election that was ever made, and the
// first one need not wait.
func (b *Backend) createTablesOn(ctx context.Context, conn *sql.Conn, identity string) error {
	for _, statement := range b.tables.createStatements() {
		statement = strings.Replace(statement, noServerValues, noServerValues[:len(noServerValues)-len("''")]+identity, 1)
		statement = strings.Replace(statement, noNonceValues, "'"+layout+"', '"+string(backend.NewNonce())+"'", 1)
		if _, err := conn.ExecContext(ctx, statement); is(err, rights...) {
			return b.createDenied(b.loginOf(ctx, conn, err), err)
		} else if err != nil && !is(err, errDuplicate) {
			return b.fail("create tables", err)
		}
	}
	// Without autocommit the row is not committed yet.
	_, err := conn.ExecContext(ctx, "COMMIT")
	return b.fail("create tables", err)
}

// createDenied is failAs for CreateTables, for which the rights of a member are not enough.
func (b *Backend) createDenied(account login, err error) error {
	t := b.tables.inSchema(account.schema)
	return fmt.Errorf("mysql: create tables: %w: %w; the account needs CREATE and INSERT on them%s", backend.ErrDenied, b.redact(err),
		account.grantHint(makerRights, t.lease, t.term, t.member))
}

// SchemaSQL returns the statements that create the tables with these names and grant the
// rights, as a text for people. schema and prefix are those of [Options]; both may be empty.
// [CreateTables] also records the server, so that the first election need not wait for the
// greatest TTL.
func SchemaSQL(schema, prefix string) (string, error) {
	t, err := newTables(schema, prefix)
	if err != nil {
		return "", err
	}
	return t.schemaSQL() + "\n-- The rights that members need; write the account in.\n" +
		grant(memberRights, t.lease, placeholderAccount) + "\n" + grant(memberRights, t.term, placeholderAccount) + "\n" + grant(memberRights, t.member, placeholderAccount) + "\n", nil
}

// createTablesHint is part of an error about missing tables. It has no statements to paste,
// because those would not record the server: see [SchemaSQL].
const createTablesHint = "; an account that may CREATE and INSERT makes the tables by \"elect schema --apply\", or mysql.CreateTables"

// In noServerValues schema.sql says that no server made the last election; in noNonceValues
// it leaves the tables without a nonce.
const (
	noServerValues = "0, 0, 15000000, 0, ''"
	noNonceValues  = "'" + layout + "', ''"
)

// identityOf returns the identity expression in the server's dialect.
func identityOf(ctx context.Context, conn *sql.Conn) (string, error) {
	rows, err := conn.QueryContext(ctx, showVariables)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	vars := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return "", err
		}
		vars[strings.ToLower(name)] = value
	}
	return dialect(vars), rows.Err()
}

// schemaSQL returns schema.sql with the names of these tables.
func (t tables) schemaSQL() string {
	return strings.NewReplacer("`election_lease`", t.lease, "`election_term`", t.term, "`election_member`", t.member).Replace(Schema)
}

// createStatements returns the statements of schema.sql, without comments.
func (t tables) createStatements() []string {
	var list []string
	var text strings.Builder
	for line := range strings.Lines(t.schemaSQL()) {
		if !strings.HasPrefix(line, "--") {
			text.WriteString(line)
		}
	}
	for s := range strings.SplitSeq(text.String(), ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// missingOwnRow returns the error about a missing row of the table itself.
func (b *Backend) missingOwnRow() error {
	t := b.named()
	list := t.createStatements()
	return fmt.Errorf("%w: the row of the table itself is missing in %s; call mysql.CreateTables or run this: %s;", backend.ErrDenied, t.lease, oneLine(list[len(list)-1]))
}

// A tableCheck checks the columns of the tables with the first call, and again after a call
// that failed. found has the tables with their schema once they have passed.
type tableCheck struct{ found atomic.Pointer[tables] }

// named returns the tables, with their schema once it is known.
func (b *Backend) named() tables {
	if t := b.tableCheck.found.Load(); t != nil {
		return *t
	}
	return b.tables
}

const columnsSQL = `SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.COLUMN_TYPE, c.COLUMN_KEY, t.ENGINE FROM information_schema.COLUMNS c
 JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
 WHERE c.TABLE_SCHEMA = IF(? = '', DATABASE(), ?) AND c.TABLE_NAME IN (?, ?, ?)`

func (p *tableCheck) check(ctx context.Context, s *session) error {
	if p.found.Load() != nil {
		return nil
	}
	t, err := s.checkTables(ctx)
	if err != nil {
		return err
	}
	p.found.Store(&t)
	return nil
}

var (
	columnLine = regexp.MustCompile("(?m)^  `(\\w+)` +([A-Z]+(?:\\(\\d+\\))?(?: UNSIGNED)?) +NOT NULL")
	width      = regexp.MustCompile(`^bigint\(\d+\)`) // MariaDB shows a display width
)

func (s *session) checkTables(ctx context.Context) (t tables, err error) {
	t = s.backend.tables
	rows, err := s.query(ctx, columnsSQL, t.schema, t.schema, t.plainLease, t.plainTerm, t.plainMember)
	if err != nil {
		return t, err
	}
	defer rows.Close()
	found := make(map[string]string) // "table.column" → type
	for rows.Next() {
		var schema, table, column, kind, key string
		var engine sql.NullString
		if err := rows.Scan(&schema, &table, &column, &kind, &key, &engine); err != nil {
			return t, err
		}
		t = t.inSchema(schema)
		found[table] = engine.String
		found[table+"."+column] = strings.TrimSpace(width.ReplaceAllString(strings.ToLower(kind), "bigint") + " " + strings.ToLower(key))
	}
	if err := rows.Err(); err != nil {
		return t, err
	}
	texts := t.createStatements()
	for i, plain := range []string{t.plainLease, t.plainTerm, t.plainMember} {
		quoted, text := []string{t.lease, t.term, t.member}[i], texts[i]
		if _, ok := found[plain]; !ok {
			plain = strings.ToLower(plain) // as lower_case_table_names=1 keeps it
		}
		engine, ok := found[plain]
		if !ok {
			return t, fmt.Errorf("there is no table %s, or %w", quoted, errUnseen)
		}
		var wrong []string
		if !strings.EqualFold(engine, "InnoDB") {
			wrong = append(wrong, fmt.Sprintf("its engine is %.20q, not InnoDB", engine))
		}
		for n, m := range columnLine.FindAllStringSubmatch(text, -1) {
			want := strings.ToLower(m[2])
			if n == 0 {
				want += " pri"
			}
			switch is, ok := found[plain+"."+m[1]]; {
			case !ok:
				wrong = append(wrong, fmt.Sprintf("column %s is missing", m[1]))
			case is != want:
				wrong = append(wrong, fmt.Sprintf("column %s is %.60q, not %q", m[1], is, want))
			}
		}
		if wrong != nil {
			slices.Sort(wrong)
			return t, fmt.Errorf("%w: table %s is not the one of layout 1: %s; choose another prefix, or rename that table and run this: %s;",
				backend.ErrDenied, quoted, strings.Join(wrong, "; "), oneLine(text))
		}
	}
	return t, nil
}
