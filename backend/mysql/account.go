package mysql

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"
)

// A login is whom the server takes a connection for, the account by which it looks up
// rights, and the schema that was chosen. What is not known is empty.
type login struct{ user, host, schema string }

// loginOf asks the server whom it has denied something on this connection.
func (b *Backend) loginOf(ctx context.Context, conn *sql.Conn, denied error) login {
	var account, schema string
	err := conn.QueryRowContext(ctx, "SELECT CURRENT_USER(), COALESCE(DATABASE(), '')").Scan(&account, &schema)
	at := strings.LastIndexByte(account, '@') // nothing is quoted, and no host has an @
	if err != nil || at < 0 {
		return b.loginIn(denied)
	}
	return login{account[:at], account[at+1:], schema}
}

var deniedLogin = regexp.MustCompile(`^Access denied for user '(.*)'@'([^']*)'(?: to database '(.*)')?`)

// loginIn returns what is known where there is no connection to ask: of error 1044 the
// account, of error 1045 whom the server has seen, and else what the DSN says.
func (b *Backend) loginIn(err error) login {
	l := b.dsn
	e, _ := errors.AsType[*mysql.MySQLError](err)
	if !is(err, 1044, 1045) {
		return l
	}
	if m := deniedLogin.FindStringSubmatch(e.Message); m != nil {
		l.user, l.host = m[1], m[2]
		if l.schema == "" {
			l.schema = m[3]
		}
	}
	return l
}

// remedy is what a message about missing rights says: the statements that grant these on
// the tables. All is on one line, and no logger escapes any of it, so that it can be
// pasted. To an anonymous account, as old installations have it, nothing is granted: its
// host comes before that of 'app'@'%'.
func (l login) grantHint(rights string, tables ...string) string {
	if l.user == "" && l.host != "" {
		return "; the server takes this login for an anonymous account, which hides the user's; an administrator can remove it: DROP USER " + account("", l.host) + ";"
	}
	s := "; an administrator can grant what is needed:"
	for _, table := range tables {
		s += " " + grant(rights, table, account(l.user, l.host))
	}
	return s
}

// suspicion is what a message about a refused login says. From the server's own machine a
// right password may have been compared with that of an anonymous account.
func (l login) anonymousHint() string {
	if l.host != "localhost" {
		return ""
	}
	return "; if user and password are right, an anonymous account hides the user's; an administrator can remove it: DROP USER ''@'localhost';"
}

func grant(rights, table, account string) string {
	return "GRANT " + rights + " ON " + table + " TO " + account + ";"
}

// needed are the rights of a member, on each of the tables.
const memberRights = "SELECT, INSERT, UPDATE"

// nobody stands where an account is to be written in.
const placeholderAccount = "'user'@'host'"

// account returns an account as statements have it. Quotes are doubled, since what a
// backslash means depends on the server.
func account(user, host string) string {
	if user+host == "" || !isPlain(user) || !isPlain(host) {
		return placeholderAccount
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return quote(user) + "@" + quote(host)
}

// plain reports whether a name stands in a log as it is, which escapes what strconv.Quote
// does. Servers allow 80 characters.
func isPlain(name string) bool {
	escaped := func(r rune) bool { return r == '"' || r == '\\' || !strconv.IsPrint(r) }
	return len(name) <= 320 && utf8.ValidString(name) && !strings.ContainsFunc(name, escaped)
}

// in returns the tables with the schema that they are in, for statements that are pasted
// where none was chosen.
func (t tables) inSchema(schema string) tables {
	if t.schema != "" || schema == "" || !isPlain(schema) {
		return t
	}
	dot := "`" + strings.ReplaceAll(schema, "`", "``") + "`."
	t.schema, t.lease, t.term, t.member = schema, dot+t.lease, dot+t.term, dot+t.member
	return t
}

// oneLine makes one line of a statement.
func oneLine(statement string) string { return strings.Join(strings.Fields(statement), " ") }
