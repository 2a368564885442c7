package mysql

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
)

var errReadOnly = fmt.Errorf("%w: the server is read-only: a replica, or a primary that is being replaced", backend.ErrUnavailable)

// Errors of the server, by number (dev.mysql.com/doc/mysql-errors).
const (
	errChanged       = 1020 // the row has changed since the transaction began
	errNoSchemaSet   = 1046
	errNoSchema      = 1049
	errUnknownColumn = 1054
	errDuplicate     = 1062
	errSyntax        = 1064
	errNoTable       = 1146
	errNoKey         = 1176
	errLockTimeout   = 1205
	errDeadlock      = 1213
	errInterrupted   = 1317
	errStatementLog  = 1665
	errInsecure      = 3159
)

// readOnly are the errors of a server that has become read-only.
var readOnly = []uint16{1290, 1792, 1836}

// rights are the errors about missing rights and refused credentials: 1045, 1698 and 1251
// are about the login, 1044 is about the schema, the others are about tables.
var rights = []uint16{1044, 1045, 1142, 1143, 1227, 1251, 1370, 1410, 1698, 1820, 1862, 3118, 4151}

// Errors about which an administrator must act, by class of their SQLSTATE and, if that says nothing, by number.
var (
	deniedClasses = []string{
		"21", "22", "42", // another table, another server, or variables that the DSN sets
		"23", "44", "45", // somebody's constraints and triggers
		"28", "3D", // the login, and no schema
	}
	deniedCodes = slices.Concat([]uint16{
		errNoTable, errNoSchema, errNoSchemaSet, errUnknownColumn, 1812, 1814, 1932, // no table, or another one
		errSyntax,              // another server
		1193,                   // variables that the DSN sets
		1129, 1130, 1275, 1524, // the host, and how it logs in
		1021, 1026, 1030, 1034, 1036, 1114, 1194, 1195, 1874, 1881, // the disk, and a damaged table or server
		1267, 1270, 1271, 1366, // text
		167, 1265, 1364, 1442, 1644, 3819, // somebody's columns, constraints and triggers
		1153, errInsecure, errStatementLog, 3098, // settings of the server
	}, rights)

	// These are of such a class, and go away by themselves: another process has made the row, or a limit of the account or
	// server is reached.
	transient = []uint16{1022, errDuplicate, 1586, 1203, 1226, 1461}
)

// code returns the server's number of err, or 0.
func code(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

func is(err error, codes ...uint16) bool { return slices.Contains(codes, code(err)) }

// OfOneChange implements [relational.Dialect].
func (*driver) OfOneChange(err error) bool {
	return is(err, errDuplicate, errLockTimeout, errDeadlock, errChanged, 1153, 1366, 1406, 3024, 1969) // too large, text, running time
}

// Soon implements [relational.Dialect]: somebody has just made the row, or holds it.
func (*driver) Soon(err error) bool {
	return is(err, errDuplicate, errLockTimeout, errDeadlock, errChanged)
}

// MayNotWrite implements [relational.Dialect].
func (*driver) MayNotWrite(err error) bool { return is(err, rights...) }

// Denied implements [relational.Dialect].
func (*driver) Denied(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number != 0 {
		return slices.Contains(deniedCodes, e.Number) || slices.Contains(deniedClasses, string(e.SQLState[:2])) && !slices.Contains(transient, e.Number)
	}
	for _, e := range []error{backend.ErrDenied, mysql.ErrUnknownPlugin, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrNoTLS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return err != nil && (strings.Contains(err.Error(), "x509: ") || strings.Contains(err.Error(), "tls: "))
}

// Hint implements [relational.Dialect].
func (d *driver) Hint(err error) string {
	account, table := d.loginIn(err), d.Settled()
	const make = "; an account that may CREATE makes the table by \"elect schema --apply\""
	switch {
	case is(err, errNoTable):
		return account.elsewhere() + make + ", or with this: " + createSQL(account.within(table))
	case is(err, 1044) || is(err, 1142) && strings.Contains(err.Error(), "SELECT command"): // whether the table exists is not known: only a GRANT with CREATE needs none
		return account.elsewhere() + make + account.grantHint(makerRights, table)
	case is(err, errNoSchema):
		return "; make that schema (CREATE DATABASE), or correct its name in the DSN"
	case is(err, errNoSchemaSet):
		return "; name the schema: " + schemaHint
	case is(err, errUnknownColumn, errNoKey):
		return "; the table is not the one that \"elect schema\" prints"
	case is(err, 1045):
		return "; user, password or host are wrong, or an anonymous account (''@'localhost', which an administrator can drop) hides the user's"
	case is(err, 1129):
		return "; an administrator can let it in again: FLUSH HOSTS (mysqladmin flush-hosts)"
	case is(err, 1251, 1698, 1820, 1862, 3118, 4151):
		return ""
	case is(err, errSyntax, 1305):
		return "; the server must be MySQL 8.0 or MariaDB 10.6, or later, and the table the one that \"elect schema\" prints"
	case is(err, 1153):
		return "; the server's max_allowed_packet must be at least 1048576"
	case is(err, errInsecure):
		return "; set tls=true in the DSN"
	case is(err, 1142) && strings.Contains(err.Error(), "CREATE command"):
		return account.grantHint(makerRights, table)
	case is(err, rights...):
		return account.grantHint(memberRights, table)
	case is(err, errStatementLog):
		return "; binlog_format STATEMENT cannot log what this backend writes; set it to MIXED or ROW: SET GLOBAL binlog_format = 'ROW';"
	}
	return ""
}

// off reports whether a switch is off; newer servers have more than two values for it.
func off(v string) bool { return v == "" || v == "0" || strings.EqualFold(v, "OFF") }
