package mysql

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend/clean"
	"github.com/go-election/go-election/internal/relational"
)

// A login has the account whose rights the server applies to a connection, the selected schema, and another
// schema with a table like ours that the account may see. What is not known is empty.
type login struct{ user, host, schema, other string }

// A denial is an error of a connection about rights, with the account.
type denial struct {
	error
	login
}

func (e denial) Unwrap() error { return e.error }

// loginSQL asks who is logged in, and where else there is a table like ours.
const loginSQL = `SELECT CURRENT_USER(), COALESCE(DATABASE(), ''), COALESCE((SELECT MIN(c.TABLE_SCHEMA) FROM information_schema.COLUMNS c
 WHERE c.TABLE_NAME = {name} AND c.COLUMN_NAME = 'version' AND c.TABLE_SCHEMA <> {schema}), '')`

// denied asks the server for the account to which it has denied something on this connection, or for which there is no table.
func (d *driver) denied(ctx context.Context, c conn, err error) error {
	var account, schema, other string
	t := d.Settled()
	ask := strings.NewReplacer("{name}", hexText(t.Prefix+"_item"), "{schema}", hexText(t.Schema)).Replace(loginSQL)
	failed := c.QueryRowContext(ctx, ask).Scan(&account, &schema, &other)
	at := strings.LastIndexByte(account, '@') // nothing is quoted, and no host has an @
	if failed != nil || at < 0 {
		return err
	}
	return denial{err, login{account[:at], account[at+1:], schema, other}}
}

var deniedLogin = regexp.MustCompile(`^Access denied for user '(.*)'@'([^']*)'(?: to database '(.*)')?`)

// loginIn returns what is known of the account that an error is about. Error 1044 names the account and
// error 1045 the user that the server saw; for any other error the DSN must do.
func (d *driver) loginIn(err error) login {
	if known, ok := errors.AsType[denial](err); ok {
		return known.login
	}
	l := d.dsn
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && is(err, 1044, 1045) {
		if m := deniedLogin.FindStringSubmatch(e.Message); m != nil {
			l.user, l.host = m[1], m[2]
			if l.schema == "" {
				l.schema = m[3]
			}
		}
	}
	return l
}

// grantHint is part of an error about missing rights: the statement that grants these on the
// table. It is on one line and contains nothing that a logger escapes, so that it can be pasted.
func (l login) grantHint(rights string, t relational.Table) string {
	return "; an administrator can grant what is needed: " + grant(rights, l.within(t).String(), account(l.user, l.host))
}

// elsewhere says in which other schema there is a table: "; …", or "".
func (l login) elsewhere() string {
	if l.other == "" {
		return ""
	}
	return "; the schema " + clean.Text(l.other, 64, false) + " has one: if that is the one that is meant, correct the DSN"
}

// within returns t with its schema: statements are pasted where none is selected.
func (l login) within(t relational.Table) relational.Table {
	if t.Schema == "" && isPlain(l.schema) {
		t.Schema = l.schema
	}
	return t
}

func grant(rights, table, account string) string {
	return "GRANT " + rights + " ON " + table + " TO " + account + ";"
}

// placeholderAccount stands for an account that is not known, or anonymous: nobody should grant that one anything.
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

// isPlain reports whether a log shows a name unchanged: logs escape what strconv.Quote
// escapes. Servers allow 80 characters.
func isPlain(name string) bool {
	escaped := func(r rune) bool { return r == '"' || r == '\\' || !strconv.IsPrint(r) }
	return len(name) <= 320 && utf8.ValidString(name) && !strings.ContainsFunc(name, escaped)
}
