package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

const uniqueViolation = "23505"

// code returns the server's code of an error; "" for none.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && len(e.Code) == 5 {
		return e.Code
	}
	return ""
}

// standby reports whether the server can only be read.
func standby(err error) bool {
	return errors.Is(err, errStandby) || code(err) == "25006" || code(err) == "55000" && strings.Contains(err.Error(), "recovery is in progress")
}

// ofOneChange reports whether one change of a transaction may have failed the others: by a lock or a
// deadlock, text of another encoding, its size, or because it was cancelled.
func ofOneChange(err error) bool {
	return slices.Contains([]string{uniqueViolation, "55P03", "40P01", "22P05", "54000", "57014"}, code(err))
}

// isDenied reports whether an administrator must act: because of credentials, TLS, a missing or
// other table, rights, the encoding, a full disk or a row that is too large.
func isDenied(err error) bool {
	c := code(err)
	if c == "" {
		text := err.Error()
		return strings.Contains(text, "x509: ") || strings.Contains(text, "tls: ") || strings.Contains(text, "refused TLS") || errors.Is(err, backend.ErrDenied)
	}
	return slices.Contains([]string{"28", "3D", "3F"}, c[:2]) || slices.Contains([]string{"42501", "42P01", "42703", "42804", "42883", "22P05", "53100", "54000"}, c)
}

// fail adds to err its class and what an operator must do, and removes the password.
func (d *driver) fail(err error) error {
	if err == nil {
		return nil
	}
	class, hint := backend.Class(err), ""
	if isDenied(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		class = backend.ErrDenied
		switch code(err) {
		case "42P01", "3F000", "42703", "42804":
			hint = "; an account that may CREATE makes the table by \"elect schema --apply\", or with this: " + d.table.createSQL()
		case "42501":
			hint = "; an administrator can grant what is needed: " + d.table.grantSQL(d.account())
			if strings.Contains(err.Error(), "pg_control_system") {
				hint = "; an administrator can grant what is needed: GRANT EXECUTE ON FUNCTION pg_control_system() TO " + d.account() + ";"
			}
		case "22P05":
			hint = "; the encoding of the database must be UTF8"
		}
	}
	if err = clean.Secrets(err, d.password); errors.Is(err, class) {
		return fmt.Errorf("%w%s", err, hint)
	}
	return fmt.Errorf("%w: %w%s", class, err, hint)
}

// account returns the name of the account as a statement has it.
func (d *driver) account() string {
	if d.user == "" || clean.Text(d.user, 63, false) != d.user {
		return `"account"`
	}
	return `"` + strings.ReplaceAll(d.user, `"`, `""`) + `"`
}
