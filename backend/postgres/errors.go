package postgres

import (
	"context"
	"errors"
	"fmt"
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

// ofOneChange reports whether one change of a transaction may have failed the others.
func ofOneChange(err error) bool {
	switch code(err) {
	case uniqueViolation, "55P03", "40P01", "22P05", "54000", "57014": // a lock, a deadlock, another encoding, too large, cancelled
		return true
	}
	return false
}

// isTLS reports whether the two sides do not agree on TLS.
func isTLS(err error) bool {
	text := err.Error()
	return strings.Contains(text, "x509: ") || strings.Contains(text, "tls: ") || strings.Contains(text, "refused TLS")
}

// isDenied reports whether an administrator must act.
func isDenied(err error) bool {
	c := code(err)
	switch {
	case c == "":
		return isTLS(err) || errors.Is(err, backend.ErrDenied)
	case c[:2] == "28", c[:2] == "3D", c[:2] == "3F", c == "42501", c == "42P01", c == "42703", c == "42804", c == "42883", c == "22P05", c == "53100", c == "54000":
		return true
	}
	return false
}

// fail adds to err its class and what an operator must do, and removes the password.
func (d *driver) fail(err error) error {
	if err == nil {
		return nil
	}
	class, hint := backend.Class(err), ""
	text := err.Error()
	switch c := code(err); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case isDenied(err):
		class = backend.ErrDenied
		switch {
		case c == "42P01", c == "3F000", c == "42703", c == "42804":
			hint = "; an account that may CREATE makes the table by \"elect schema --apply\", or with this: " + d.table.createSQL()
		case c == "42501" && strings.Contains(text, "pg_control_system"):
			hint = "; an administrator can grant what is needed: GRANT EXECUTE ON FUNCTION pg_control_system() TO " + d.account() + ";"
		case c == "42501":
			hint = "; an administrator can grant what is needed: " + d.table.grantSQL(d.account())
		case c == "22P05":
			hint = "; the encoding of the database must be UTF8"
		}
	}
	err = clean.Secrets(err, d.password)
	if errors.Is(err, class) {
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
