package mysql

import (
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

func TestRowsThatOthersEditAndLock(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Shared(t, k)
		drivertest.RunSQLTable(t, func(t testing.TB) drivertest.SQLTable {
			l := newLab(t, server)
			const row = " WHERE kind = 'record' AND name = 'jobs'"
			return drivertest.SQLTable{
				Open: func(t testing.TB, greatest time.Duration) lease.Driver {
					return open(t, Options{Config: l.User, MaxTTL: greatest})
				},
				Backend: func(t testing.TB) backend.Backend { return backendOn(t, Options{Config: l.User}) },
				Exec:    l.Exec,
				Lock:    l.lock,
				Edits: map[string][]string{
					"of the value":    {"UPDATE election_item SET value = REPLACE(value, 'before', 'after')" + row},
					"of spaces":       {"UPDATE election_item SET value = CONCAT(value, ' ')" + row},
					"of the version":  {"UPDATE election_item SET version = CONCAT('x', version)" + row},
					"of the case":     {"UPDATE election_item SET version = UPPER(version)" + row},
					"a row of others": {"DELETE FROM election_item" + row, "INSERT INTO election_item SELECT kind, 'jobs', value, version, created, at FROM election_item WHERE kind = 'record' AND name = 'others'"},
				},
				Times:     []string{"1000-01-01", "9999-12-31 23:59:59"},
				Insertion: "INSERT INTO election_item (kind, name, value, version, created, at) VALUES ('record', 'taken', '{}', '', '', UTC_TIMESTAMP(6))",
			}
		})
	})
}
