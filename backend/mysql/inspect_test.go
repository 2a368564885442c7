package mysql

import (
	"errors"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

func TestInspectReportsWhatLeasesDependOn(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		b := backendOn(t, Options{Config: newLab(t, testbed.Shared(t, k)).User})
		for ttl, fatal := range map[time.Duration]bool{DefaultMaxTTL: false, DefaultMaxTTL + 1: true} {
			list, err := b.Inspect(t.Context(), ttl, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, f := range list {
				text += f.What + ": " + f.Text + "\n"
			}
			for _, want := range []string{"server: ", "durability: ", "replication: ", "connections: ", "greatest TTL: 15s"} {
				if !strings.Contains(text, want) {
					t.Errorf("no diagnostic of %q:\n%s", want, text)
				}
			}
			if last := list[len(list)-1]; last.Fatal != fatal || strings.Contains(text, "every bid is refused") != fatal {
				t.Errorf("with a TTL of %v: fatal %v, want %v\n%s", ttl, last.Fatal, fatal, text)
			}
		}
	})
}

// Inspect warns of settings that cost time after a restart or a failover, and cleans what the server says.
func TestInspectWarnsOfWeakSettings(t *testing.T) {
	d := open(t, Options{Config: clone(mysql.NewConfig(), func(c *mysql.Config) { c.DBName = "app" })})
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
		{"rpl_semi_sync_source_enabled", "ON", true}, // without AFTER_SYNC
		{"group_replication_group_name", "g", true},  // without a single primary
		{"max_allowed_packet", "1048576", false},
		{"max_allowed_packet", "524288", true},
	} {
		vars := maps.Clone(sound)
		vars[x.name] = x.value
		warned := false
		for _, f := range d.diagnostics(vars) {
			warned = warned || f.Warning
		}
		if warned != x.warning {
			t.Errorf("%s=%s: warning %v, want %v", x.name, x.value, warned, x.warning)
		}
	}
}

// Error 1044 names the account, error 1045 the user that the server saw; for others the DSN must do.
func TestTheDeniedAccountIsInTheErrorOrTheDSN(t *testing.T) {
	dsn := login{user: "app", host: "%", schema: "app"}
	for _, c := range []struct {
		dsn     login
		number  uint16
		message string
		says    string
	}{
		{dsn, 1044, "Access denied for user 'app'@'10.0.%' to database 'app'", "ON `app`.`election_item` TO 'app'@'10.0.%';"},
		{dsn, 1044, "Benutzer 'app'@'10.0.%' hat keine Zugriffsberechtigung für Datenbank 'app'", "ON `app`.`election_item` TO 'app'@'%';"},
		{dsn, 1044, "Access denied for user ''@'localhost' to database 'app'", "ON `app`.`election_item` TO 'user'@'host';"}, // an anonymous account
		{login{}, 1044, "Access denied for user 'app'@'10.0.%' to database 'app'", "ON `app`.`election_item` TO 'app'@'10.0.%';"},
		{login{}, 1044, "", "ON `election_item` TO 'user'@'host';"},
		{dsn, 1142, "INSERT command denied to user 'app'@'10.0.0.7' for table `app`.`election_item`", "GRANT SELECT, INSERT, UPDATE, DELETE ON `app`.`election_item` TO 'app'@'%';"},
		{dsn, 1045, "Access denied for user 'app'@'10.0.0.7' (using password: YES)", "(''@'localhost', which an administrator can drop) hides the user's"},
		{dsn, errUnknownColumn, "Unknown column", "the table is not the one that \"elect schema\" prints"},
		{dsn, errInsecure, "Connections using insecure transport are prohibited", "; set tls=true in the DSN"},
	} {
		d := unconnected(defaultTable)
		d.dsn = c.dsn
		if err := d.Fail(&mysql.MySQLError{Number: c.number, Message: c.message}); !errors.Is(err, backend.ErrDenied) || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%d %s: %v; want it to end in %s", c.number, c.message, err, c.says)
		}
	}
}

var defaultTable, _ = newTable("", "")

var inQuotes = regexp.MustCompile("'(?:[^']|'')*'|`(?:[^`]|``)*`")

// Whatever the server and the DSN contain, nothing ends its quotes early, and a log writes the text unchanged.
func FuzzAccountsAndSchemasStayInTheirQuotes(f *testing.F) {
	for _, s := range []string{"app", "", "o'brien", "'; DROP USER root; --", "`", `\`, `\'`, `"`, "a\nb", "\x1b]0;x\x07", "\u202e", "\xff", "\u00a0", "@", "%", strings.Repeat("x", 400)} {
		f.Add(s, "%", "app")
		f.Add("app", s, "app")
		f.Add("app", "%", s)
	}
	f.Fuzz(func(t *testing.T, user, host, schema string) {
		s := login{user: user, host: host, schema: schema}.grantHint(memberRights, defaultTable)
		if strconv.Quote(s) != `"`+s+`"` || len(s) > 2000 {
			t.Errorf("a log changes the text: %q", s)
		}
		quoted := inQuotes.FindAllString(s, -1)
		switch rest := inQuotes.ReplaceAllString(s, "_"); rest {
		case "; an administrator can grant what is needed: GRANT SELECT, INSERT, UPDATE, DELETE ON _ TO _@_;",
			"; an administrator can grant what is needed: GRANT SELECT, INSERT, UPDATE, DELETE ON _._ TO _@_;":
			if got := quoted[len(quoted)-2:]; got[0]+"@"+got[1] != placeholderAccount && (unquoted(got[0]) != user || unquoted(got[1]) != host) {
				t.Errorf("the account %q, %q has become %q", user, host, got)
			}
			if len(quoted) == 4 && unquoted(quoted[0]) != schema {
				t.Errorf("the schema %q has become %q", schema, quoted[0])
			}
		default:
			t.Errorf("unexpected text: %s", rest)
		}
	})
}

func unquoted(s string) string {
	quote := s[:1]
	return strings.ReplaceAll(s[1:len(s)-1], quote+quote, quote)
}
