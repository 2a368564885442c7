package mysql

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/relational"
)

// Inspect warns of settings that cost time after a restart or a failover, and cleans what the server says.
func TestInspectWarnsOfWeakSettings(t *testing.T) {
	sound := map[string]string{"innodb_flush_log_at_trx_commit": "1", "log_bin": "ON", "sync_binlog": "1", "version": "9.1.0"}
	for _, x := range []struct {
		name, value string
		warning     bool
	}{
		{"version", "8.0", false},
		{"innodb_flush_log_at_trx_commit", "2", true},
		{"sync_binlog", "0", true},
		{"log_bin", "OFF", false},
		{"wsrep_on", "ON", true},
		{"group_replication_group_name", "g", true}, // without a single primary
		{"max_allowed_packet", "1048576", false},
		{"max_allowed_packet", "524288", true},
	} {
		vars := maps.Clone(sound)
		vars[x.name] = x.value
		warned := false
		for _, f := range diagnostics(vars) {
			warned = warned || f.Warning
		}
		if warned != x.warning {
			t.Errorf("%s=%s: warning %v, want %v", x.name, x.value, warned, x.warning)
		}
	}
}

// Error 1044 names the account, error 1045 the user that the server saw; for others the server is asked.
func TestTheDeniedAccountIsInTheErrorOrTheSurvey(t *testing.T) {
	const dsn, nothing = "app", ""
	for _, c := range []struct {
		dsn     string // user and schema of the connection
		number  uint16
		message string
		says    string
	}{
		{dsn, 1044, "Access denied for user 'app'@'10.0.%' to database 'app'", "ON `app`.`election_item` TO 'app'@'10.0.%';"},
		{dsn, 1044, "Benutzer 'app'@'10.0.%' hat keine Zugriffsberechtigung für Datenbank 'app'", "ON `app`.`election_item` TO 'app'@'10.0.%';"},
		{nothing, 1044, "Accès refusé pour l'utilisateur: 'o'brien'@'10.0.%'. Base 'app'", "ON `app`.`election_item` TO 'o''brien'@'10.0.%';"},
		{nothing, 1044, "用户'app'@'10.0.%'无权访问数据库'app'", "ON `app`.`election_item` TO 'app'@'10.0.%';"},
		{dsn, 1044, "Användare 'app'@'10.0.%' är ej berättigad att använda databasen app", "ON `app`.`election_item` TO 'app'@'10.0.%';"},
		{dsn, 1044, "Access denied for user ''@'localhost' to database 'app'", "ON `app`.`election_item` TO 'user'@'host';"}, // an anonymous account
		{nothing, 1044, "Access denied for user 'app'@'10.0.%' to database 'app'", "ON `app`.`election_item` TO 'app'@'10.0.%';"},
		{nothing, 1044, "", "ON `election_item` TO 'user'@'host';"},
		{dsn, 1142, "INSERT command denied to user 'app'@'10.0.0.7' for table `app`.`election_item`", "GRANT SELECT, INSERT, UPDATE, DELETE ON `app`.`election_item` TO 'app'@'%';"},
		{dsn, 1045, "Access denied for user 'app'@'10.0.0.7' (using password: YES)", "(''@'localhost', which an administrator can drop) hides the user's"},
		{dsn, 1227, "Access denied; you need SUPER for this operation", "for this operation"}, // of a variable: no right to the table mends it
		{dsn, 1267, "Illegal mix of collations", "the table is not the one that \"elect schema\" prints"},
		{dsn, 3955, "Account is blocked for 1 day(s) due to 3 consecutive failed logins.", "failed logins."},
		{dsn, 3161, "Storage engine InnoDB is disabled", "is disabled"},
		{dsn, 3185, "Can't find master key from keyring", "keyring"},
		{dsn, 4082, "Connection closed. Connection memory limit 2097152 bytes exceeded.", "exceeded."},
		{dsn, 1290, "The MariaDB server is running with the NO_ENGINE_SUBSTITUTION option so it cannot execute this statement", "this statement"},
		{dsn, 1290, "The MySQL server is running with the --skip-grant-tables option so it cannot execute this statement", "this statement"},
		{dsn, 4501, "Multi-Statements are forbidden if connection-sharing is enabled.", "; use a port of MySQL Router that shares no connections: 6446 as a rule"},
		{dsn, 1184, "Aborted connection 7 (init_connect command failed)", "(init_connect command failed)"},
		{dsn, errUnknownColumn, "Unknown column", "the table is not the one that \"elect schema\" prints"},
		{dsn, errInsecure, "Connections using insecure transport are prohibited", "; set tls=true in the DSN"},
	} {
		d, _ := unconnected(c.dsn, "")
		s := &relational.Survey{Account: account(c.dsn, "%")}
		if err := d.FailWith(&mysql.MySQLError{Number: c.number, Message: c.message}, s); !errors.Is(err, backend.ErrDenied) || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%d %s: %v; want it to end in %s", c.number, c.message, err, c.says)
		}
	}
	for _, option := range []string{"--read-only", "--super-read-only", "--read-only (super)", "READ_ONLY"} { // which a failover ends
		if isDenied(&mysql.MySQLError{Number: 1290, Message: "The server is running with the " + option + " option"}) {
			t.Errorf("%s is denied; want ErrUnavailable", option)
		}
	}
}

// A name that a log escapes is in no statement to paste: the account is left open, and the schema is not named.
func TestNamesThatALogChangesAreNotPasted(t *testing.T) {
	for _, s := range []string{"a\nb", "\x1b]0;x\x07", "\u202e", "\xff", "\u00a0", `"`, `\`, `\'`, strings.Repeat("x", 400)} {
		for _, got := range []string{account(s, "%"), account("app", s), accountOf(s + "@%"), accountOf(s)} {
			if got != placeholderAccount {
				t.Errorf("%q: %q", s, got)
			}
		}
		d, _ := unconnected("", "")
		err := d.Fail(&mysql.MySQLError{Number: 1044, Message: "Access denied for user 'app'@'%' to database '" + s + "'"})
		if !strings.Contains(err.Error(), " ON `election_item` TO '") {
			t.Errorf("the schema %q: %v", s, err)
		}
	}
	if got := accountOf("o'brien@%"); got != "'o''brien'@'%'" {
		t.Errorf("a quote: %s", got)
	}
}
