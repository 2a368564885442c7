package mysql

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/internal/relational"
)

var (
	errReadOnly = fmt.Errorf("%w: the server is read-only: a replica, or a primary that is being replaced",
		backend.ErrUnavailable)
	errEngine = fmt.Errorf("%w: the engine of the table is not InnoDB; others keep no row locked, so two "+
		"processes could lead; an administrator can alter it: ALTER TABLE … ENGINE=InnoDB", backend.ErrDenied)
	errGreeting = errors.New("what answers at this address does not speak MySQL's protocol; its port is " +
		"3306 as a rule, and 33060 is that of the X protocol")
)

// Errors of the server, by number (dev.mysql.com/doc/mysql-errors).
const (
	errChanged       = 1020 // the row has changed since the transaction began
	errNoSchemaSet   = 1046
	errNoSchema      = 1049
	errUnknownColumn = 1054
	errDuplicate     = 1062
	errSyntax        = 1064
	errNoTable       = 1146
	errLockTimeout   = 1205
	errInterrupted   = 1317
	errStatementLog  = 1665
	errInsecure      = 3159
)

// Errors of a server that is read-only, and about missing rights: to tables, to log in, to a schema (1044).
var (
	readOnly    = []uint16{1290, 1792, 1836}
	tableRights = []uint16{1142, 1143, 1370, 1410}
	rights      = append([]uint16{1044, 1045, 1227, 1251, 1698, 1820, 1862, 3118, 3955, 4151}, tableRights...)
)

// Errors about which an administrator must act, by class of their SQLSTATE or, if that says nothing, number.
var (
	deniedClasses = []string{
		"21", "22", "42", // another table, another server, or variables that the DSN sets
		"23", "44", "45", // somebody's constraints and triggers
		"28", "3D", // the login, and no schema
	}
	deniedCodes = slices.Concat([]uint16{
		errNoTable, errNoSchema, errNoSchemaSet, errUnknownColumn, 1812, 1814, 1932, // no table, or another
		errSyntax, 1193, 1229, 1238, 1273, 1298, 1649, // another server, or variables that the DSN sets
		1129, 1130, 1184, 1275, 1524, // the host, and how it logs in
		1021, 1026, 1030, 1034, 1036, 1114, 1194, 1195, 1874, 1881, // the disk, and a damaged table or server
		1267, 1270, 1271, 1366, // text
		167, 1265, 1364, 1442, 1449, 1644, 3819, // somebody's columns, constraints and triggers
		1153, errInsecure, errStatementLog, 3098, 3161, 3185, 4082, 4501, // settings of the server or Router
	}, rights)

	// These are of such a class, and go away: another process has made the row, or a limit is reached.
	transient = []uint16{1022, errDuplicate, 1586, 1203, 1226, 1461}
)

// code returns the server's number of err, or 0.
func code(err error) uint16 {
	e, _ := errors.AsType[*mysql.MySQLError](err)
	return cmp.Or(e, &mysql.MySQLError{}).Number
}

func is(err error, codes ...uint16) bool { return slices.Contains(codes, code(err)) }

// isFull reports whether there is no place for another connection. Other limits of accounts are of an hour.
func isFull(err error) bool {
	return is(err, 1040, 1203) || is(err, 1226) && strings.Contains(err.Error(), "max_user_connections")
}

func (*driver) Fault(err error) relational.Fault {
	soon := is(err, errDuplicate, errLockTimeout, errChanged, 1213) // somebody has the row or made it
	return relational.Fault{
		Denied:      isDenied(err),
		MayNotWrite: is(err, rights...),
		Lacks:       is(err, errNoTable) || is(err, tableRights...),
		OfOneChange: soon || is(err, 1153, 1366, 1406, 3024, 1969), // too large, text, running time
		Soon:        soon,
	}
}

// isDenied reports whether an administrator must act.
func isDenied(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number != 0 {
		class := slices.Contains(deniedClasses, string(e.SQLState[:2]))
		set := e.Number == 1290 && !strings.Contains(strings.ToLower(e.Message), "read") // not --read-only
		return class && !slices.Contains(transient, e.Number) || set || slices.Contains(deniedCodes, e.Number)
	}
	return slices.ContainsFunc(deniedLogins, func(e error) bool { return errors.Is(err, e) }) ||
		err != nil && (client.RefusesTLS(err.Error()) || strings.HasPrefix(err.Error(), "unknown collation"))
}

var deniedLogins = []error{backend.ErrDenied, errGreeting, mysql.ErrUnknownPlugin, mysql.ErrPktTooLarge,
	mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrNoTLS}

// deniedLogin is the text of error 1044, which names the account, and mostly the database, in any language
// that the server has before a session is set up: a name begins after no letter, as in "l'utilisateur", or
// after a Chinese one, and MySQL's French host with an @. Error 1045 has the host that the server saw.
var deniedLogin = regexp.MustCompile(`(?:^|\P{Latin})'(.*)'@'@?([^']*)'(?:.*?'(.*)')?`)

func (d *driver) Hint(err error, s *relational.Survey) string {
	who, table := cmp.Or(s.Account, placeholderAccount), d.Settled()
	if m := deniedLogin.FindStringSubmatch(err.Error()); m != nil && is(err, 1044) {
		who = account(m[1], m[2])
		if table.Schema == "" && isPlain(m[3]) {
			table.Schema = m[3] // statements are pasted where none is selected
		}
	}
	const make = "; an account that may CREATE makes the table by \"elect schema --apply\""
	lacks := func(r string) bool { return is(err, 1142) && strings.Contains(err.Error(), r+" command") }
	switch {
	case is(err, errNoTable):
		return s.Elsewhere(table) + make + ", or with this: " + createSQL(table)
	case is(err, 1044) || lacks("SELECT"): // there may be no table, and only a GRANT with CREATE needs none
		return s.Elsewhere(table) + make + grantHint(makerRights, table, who)
	case is(err, errNoSchema):
		return "; make that schema (CREATE DATABASE), or correct its name in the DSN"
	case is(err, errNoSchemaSet):
		return "; name the schema: " + schemaHint
	case is(err, errUnknownColumn, 1176, 1267): // or key, or collation
		return "; the table is not the one that \"elect schema\" prints"
	case is(err, 1045):
		return "; user, password or host are wrong, the account or the server wants TLS (tls=true in the " +
			"DSN), or an anonymous account (''@'localhost', which an administrator can drop) hides the user's"
	case is(err, errSyntax, 1305):
		return "; the server must be MySQL 8.0 or MariaDB 10.6, or later, and the table the one " +
			"that \"elect schema\" prints"
	case is(err, 1153):
		return "; the server's max_allowed_packet must be at least 1048576"
	case is(err, errInsecure):
		return "; set tls=true in the DSN"
	case lacks("CREATE"):
		return grantHint(makerRights, table, who)
	case is(err, tableRights...):
		return grantHint(memberRights, table, who)
	case is(err, errStatementLog):
		return "; binlog_format STATEMENT cannot log what is written: SET GLOBAL binlog_format = 'ROW';"
	case is(err, 4501):
		return "; use a port of MySQL Router that shares no connections: 6446 as a rule"
	}
	return ""
}
