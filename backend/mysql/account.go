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

// A login has the account whose rights the server applies to a connection, and the selected
// schema. What is not known is empty.
type login struct{ user, host, schema string }

// loginOf asks the server for the account to which it has denied something on this
// connection.
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

// loginIn returns what is known without a connection. Error 1044 names the account and error
// 1045 the user that the server saw; for any other error the DSN must do.
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

// grantHint is part of an error about missing rights: the statements that grant these on the
// tables. They are on one line and contain nothing that a logger escapes, so that they can
// be pasted. An anonymous account, which old installations have, must be removed instead:
// the server prefers it to 'app'@'%'.
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

// refusedHint is part of an error about a refused login. For a login from its own machine, the
// server may have compared a correct password with that of an anonymous account, which has none
// as a rule.
func (l login) refusedHint(err error) string {
	hint := "; user, password or host are wrong"
	if l.host == "localhost" && !strings.Contains(err.Error(), "using password: NO") {
		hint += "; if they are right, an anonymous account hides the user's; an administrator can remove it: DROP USER ''@'localhost';"
	}
	return hint
}

func grant(rights, table, account string) string {
	return "GRANT " + rights + " ON " + table + " TO " + account + ";"
}

// memberRights are the rights that a member needs on each of the tables. With makerRights it
// also makes the tables.
const (
	memberRights = "SELECT, INSERT, UPDATE"
	makerRights  = "CREATE, " + memberRights
)

// placeholderAccount stands for an account that is not known.
const placeholderAccount = "'user'@'host'"

// account returns an account in the form of SQL statements. Quotes are doubled, since the
// meaning of a backslash depends on the server.
func account(user, host string) string {
	if user+host == "" || !isPlain(user) || !isPlain(host) {
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

// inSchema returns the tables with their schema, for statements that are pasted where no
// schema is selected.
func (t tables) inSchema(schema string) tables {
	if t.schema != "" || schema == "" || !isPlain(schema) {
		return t
	}
	dot := "`" + strings.ReplaceAll(schema, "`", "``") + "`."
	t.schema, t.lease, t.term, t.member = schema, dot+t.lease, dot+t.term, dot+t.member
	return t
}

// oneLine returns a statement on one line.
func oneLine(statement string) string { return strings.Join(strings.Fields(statement), " ") }
