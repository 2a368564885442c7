package mysql

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/clean"
)

var errReadOnly = fmt.Errorf("%w: the server is read-only: a replica, or a primary that is being replaced", backend.ErrUnavailable)

// errUnseen is one of two reasons why a table is not found; the other is that it does not
// exist.
var errUnseen = errors.New("this account has no right to see it")

// Errors of the server, by number (dev.mysql.com/doc/mysql-errors).
const (
	errChanged       = 1020 // the row has changed since the transaction began
	errDuplicate     = 1062
	errLockTimeout   = 1205
	errDeadlock      = 1213
	errUnknownColumn = 1054
	errManyRows      = 1104
	errNoTable       = 1146
	errNoSchema      = 1049
	errNoSchemaSet   = 1046
	errUnknownVar    = 1193
	errStatementLog  = 1665
	errUnsupported   = 1235
	errInsecure      = 3159
	errNoFunction    = 1305
	errSyntax        = 1064
	errInterrupted   = 1317
)

// readOnly are the errors of a server that has become read-only.
var readOnly = []uint16{1290, 1792, 1836}

// rights are the errors about missing rights and refused credentials: 1045, 1698 and 1251
// are about the login, 1044 is about the schema, the others are about tables.
var rights = []uint16{1044, 1045, 1142, 1143, 1227, 1251, 1370, 1410, 1698, 1820, 1862, 3118, 4151}

// number returns the server's number of err, or 0.
func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

func is(err error, numbers ...uint16) bool {
	n := number(err)
	for _, m := range numbers {
		if n == m && n != 0 {
			return true
		}
	}
	return false
}

// fail wraps err for the caller with the operation, the class of the error and, if an
// administrator must act, the statements to paste.
func (b *Backend) fail(op string, err error) error { return b.failAs(b.loginIn(err), op, err) }

// failAs is fail for a known account.
func (b *Backend) failAs(account login, op string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrInvalid) {
		return fmt.Errorf("mysql: %s: %w", op, b.redact(err)) // already has a class
	}
	class, hint, t := backend.ErrUnavailable, "", b.tables.inSchema(account.schema)
	switch {
	case is(err, errNoTable):
		class, hint = backend.ErrDenied, createTablesHint
	case errors.Is(err, errUnseen), is(err, 1044): // whether the tables exist is not known: only a GRANT with CREATE needs none
		class, hint = backend.ErrDenied, createTablesHint+account.grantHint(makerRights, t.lease, t.term, t.member)
	case is(err, errNoSchema):
		class, hint = backend.ErrDenied, "; make that schema (CREATE DATABASE), or correct its name in the DSN"
	case is(err, errNoSchemaSet):
		class, hint = backend.ErrDenied, "; name the schema: "+schemaHint
	case is(err, errUnknownColumn):
		class, hint = backend.ErrDenied, "; the tables are not those of layout 1, which \"elect schema\" prints"
	case is(err, 1045):
		class, hint = backend.ErrDenied, account.refusedHint(err)
	case is(err, 1251, 1698, 1820, 1862, 3118, 4151):
		class = backend.ErrDenied
	case is(err, errInsecure):
		class, hint = backend.ErrDenied, "; set tls=true in the DSN"
	case is(err, rights...):
		class, hint = backend.ErrDenied, account.grantHint(memberRights, t.lease, t.term, t.member)
	case is(err, errStatementLog):
		class, hint = backend.ErrDenied, "; binlog_format STATEMENT cannot log what this backend writes; set it to MIXED or ROW: SET GLOBAL binlog_format = 'ROW';"
	case is(err, readOnly...):
		hint = " (the connection is dropped)"
	case isAuthProblem(err):
		class = backend.ErrDenied
	}
	return fmt.Errorf("mysql: %s: %w: %w%s", op, class, b.redact(err), hint)
}

// isAuthProblem reports whether err is one of the driver's own errors about credentials and
// TLS, which an administrator must resolve.
func isAuthProblem(err error) bool {
	for _, e := range []error{mysql.ErrUnknownPlugin, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrNoTLS} {
		if errors.Is(err, e) {
			return true
		}
	}
	s := err.Error()
	return strings.Contains(s, "x509: ") || strings.Contains(s, "tls: ")
}

// redact removes the password from the text. Class and number of the error do not change.
func (b *Backend) redact(err error) error {
	safe := clean.Secrets(err, b.password)
	if safe.Error() == err.Error() {
		return err
	}
	return redacted{safe, number(err)}
}

// A redacted error keeps the server's number.
type redacted struct {
	error
	number uint16
}

func (e redacted) Unwrap() []error { return []error{e.error, &mysql.MySQLError{Number: e.number}} }

// unusable reports whether a connection must be dropped after err: it leads to a server that
// has become read-only, or that has another dialect.
func unusable(err error) bool {
	return errors.Is(err, errReadOnly) || is(err, append(readOnly, errUnknownVar)...)
}

// nothingSent reports whether err means that nothing was sent: the connection broke while
// it was idle.
func nothingSent(err error) bool { return errors.Is(err, sqldriver.ErrBadConn) }
