package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// everyVariable has all variables of a session: name, value, least and greatest value, and the values if they have names.
var everyVariable = map[testbed.Kind]string{
	testbed.MariaDB: `SELECT LOWER(VARIABLE_NAME), COALESCE(SESSION_VALUE, ''), COALESCE(NUMERIC_MIN_VALUE, ''), COALESCE(NUMERIC_MAX_VALUE, ''), COALESCE(IF(VARIABLE_TYPE = 'ENUM', ENUM_VALUE_LIST, ''), '')
 FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_SCOPE LIKE 'SESSION%' AND READ_ONLY = 'NO'`,
	testbed.MySQL: `SELECT s.VARIABLE_NAME, s.VARIABLE_VALUE, IF(i.MAX_VALUE <> '0', COALESCE(i.MIN_VALUE, ''), ''), IF(i.MAX_VALUE <> '0', COALESCE(i.MAX_VALUE, ''), ''), ''
 FROM performance_schema.session_variables s JOIN performance_schema.variables_info i USING (VARIABLE_NAME)`,
}

// moreValues are values of variables that are text, and small ones of limits.
var moreValues = map[string][]string{
	"sql_mode":             {"NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH,IGNORE_SPACE,HIGH_NOT_PRECEDENCE,REAL_AS_FLOAT,NO_UNSIGNED_SUBTRACTION", "ANSI", "TRADITIONAL", "ORACLE", "EMPTY_STRING_IS_NULL"},
	"old_mode":             {"NO_DUP_KEY_WARNINGS_WITH_IGNORE,NO_PROGRESS_INFO,ZERO_DATE_TIME_CAST,UTF8_IS_UTF8MB3"},
	"character_set_client": {"latin1", "sjis"}, "character_set_connection": {"utf16", "ucs2", "latin1"}, "character_set_results": {"utf16", "latin1"},
	"character_set_database": {"utf16"}, "character_set_server": {"utf16", "utf32"}, "character_set_filesystem": {"utf16"},
	"collation_connection": {"utf8mb4_general_ci", "utf16_general_ci", "latin1_swedish_ci"}, "collation_database": {"utf16_general_ci"}, "collation_server": {"utf16_general_ci"},
	"character_set_collations": {"utf8mb4=utf8mb4_unicode_ci"}, "default_collation_for_utf8mb4": {"utf8mb4_general_ci"},
	"lc_time_names": {"ja_JP"}, "lc_messages": {"ja_JP"}, "time_zone": {"+05:45"}, "timestamp": {"1"},
	"tx_isolation": {"SERIALIZABLE", "READ-UNCOMMITTED"}, "transaction_isolation": {"SERIALIZABLE", "READ-UNCOMMITTED"}, "completion_type": {"1", "2"},
	"default_storage_engine": {"MEMORY", "MyISAM"}, "default_tmp_storage_engine": {"MEMORY"}, "enforce_storage_engine": {"MyISAM"}, "use_stat_tables": {"never", "preferably"},
	"max_statement_time": {"0.0001"}, "max_execution_time": {"1"}, "max_sort_length": {"8"}, "tmp_table_size": {"1024"}, "join_cache_level": {"8"}, "sql_if_exists": {"1"}, "system_versioning_asof": {"2000-01-01 00:00:00"},
	"session_track_system_variables": {"*"}, "session_track_transaction_info": {"CHARACTERISTICS"}, "group_replication_consistency": {"BEFORE_AND_AFTER"}, "terminology_use_previous": {"BEFORE_8_0_26"},
}

// These are refused by name, by the server: of whatever statement, or of this package's.
var refusedByName = map[string]string{"binlog_format": "binlog_format STATEMENT", "max_session_mem_used": "--max-session-mem-used", "require_row_format": "require_row_format"}

// Whatever a session was told, variable by variable, statements mean the same.
func TestNoVariableMattersToAnyStatement(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Start(t, k, testbed.Options{}))
		rows, err := l.admin.QueryContext(t.Context(), everyVariable[k])
		testbed.NoError(t, err)
		defer rows.Close()
		for round := uint64(0); rows.Next(); round++ {
			var name, value, least, greatest, names string
			testbed.NoError(t, rows.Scan(&name, &value, &least, &greatest, &names))
			for _, value := range append(otherValues(value, least, greatest, names), moreValues[name]...) {
				c := clone(l.Admin, func(c *mysql.Config) { c.Params = map[string]string{name: value} })
				if strings.ContainsFunc(value, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }) {
					c.Params[name] = "'" + value + "'"
				}
				if !l.settable(t, name, c.Params[name]) {
					continue
				}
				err := changes(t, Options{Config: c}, round)
				if err == nil && name != "max_statement_time" && name != "completion_type" { // which end the program's own statements, or connections
					db := testbed.OpenDB(t, c)
					err = fences(t, db)
					db.Close()
				}
				if says := refusedByName[name]; err != nil && (says == "" || !strings.Contains(err.Error(), says)) {
					t.Errorf("%s=%s: %v", name, value, err)
				}
			}
		}
		testbed.NoError(t, rows.Err())
	})
}

// settable reports whether a session may set a variable to a value.
func (l *lab) settable(t *testing.T, name, value string) bool {
	c, err := l.admin.Conn(t.Context())
	testbed.NoError(t, err)
	defer c.Close()
	if _, err := c.ExecContext(t.Context(), "SET SESSION "+name+" = "+value); err != nil {
		return false
	}
	client.DropConn(c)
	return true
}

// otherValues returns those that differ from the usual one.
func otherValues(value, least, greatest, names string) []string {
	switch {
	case value == "ON" || value == "OFF":
		return []string{"0", "1"}
	case strings.Contains(value, "=on,"): // switches of the optimizer
		return []string{strings.ReplaceAll(value, "=off", "=on"), strings.Replace(strings.ReplaceAll(value, "=on", "=off"), "in_to_exists=off", "in_to_exists=on", 1)}
	case names != "":
		return strings.Split(names, ",")
	case greatest != "":
		return []string{least, greatest}
	}
	return nil
}

// changes uses a driver under some setting.
func changes(t *testing.T, o Options, term uint64) error {
	d, err := newDriver(o)
	if err != nil {
		return err
	}
	defer d.Close()
	return drivertest.WorksUnder(t.Context(), d, term)
}

// fences asks for the leader of its record, in transactions of the program.
func fences(t *testing.T, db *sql.DB) error {
	return drivertest.FencedUnder(ErrFenced, func(election string, term uint64) error {
		return Fence{}.Do(t.Context(), db, election, term, func(*sql.Tx) error { return nil })
	})
}

// Whatever a server or schema has by default, statements mean the same. The server takes no message of more than 1 MiB, and
// MariaDB keeps names of tables in lower case.
func TestAnySettingsOfTheServerWillDo(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		args := []string{"--character-set-server=latin1", "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES", "--autocommit=0", "--transaction-isolation=SERIALIZABLE",
			"--default-storage-engine=MyISAM", "--default-time-zone=+05:45", "--big-tables=1", "--group-concat-max-len=4", "--innodb-lock-wait-timeout=1", "--explicit-defaults-for-timestamp=0",
			"--init-connect=SET sql_safe_updates=1, sql_select_limit=1, collation_connection='utf16_general_ci', character_set_results='utf16'", "--max-allowed-packet=1M"}
		if k == testbed.MariaDB {
			args = append(args, "--sql-mode=ORACLE,EMPTY_STRING_IS_NULL,NO_BACKSLASH_ESCAPES", "--lower-case-table-names=1", "--query-cache-type=1", "--query-cache-size=1M", "--innodb-snapshot-isolation=ON", "--tmp-disk-table-size=1024")
		}
		server := testbed.Start(t, k, testbed.Options{Args: args})
		leasetest.Run(t, leasetest.Harness{NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			l := newLab(t, server)
			l.withTable(t, "App")
			return func(t testing.TB) lease.Driver { return open(t, Options{Config: l.User, Prefix: "App"}) }
		}})
		for _, set := range []string{"utf16", "utf16le", "utf32", "ucs2", "latin1", "sjis", "gbk", "binary", "utf8mb3", "utf8mb4 COLLATE utf8mb4_unicode_ci", "swe7"} {
			d := server.Database(t)
			d.Exec(t, "ALTER DATABASE "+d.Name+" CHARACTER SET "+set)
			if err := CreateTables(context.Background(), testbed.OpenDB(t, d.Admin), "", ""); err != nil {
				t.Errorf("a table in a schema in %s: %v", set, err)
			} else if err = errors.Join(changes(t, Options{Config: d.User}, 1), fences(t, testbed.OpenDB(t, d.User))); err != nil {
				t.Errorf("a schema in %s: %v", set, err)
			}
		}
	})
}
