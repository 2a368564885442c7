package connections

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/backend/redis"
	"github.com/go-election/go-election/lab/testbed"
)

// limited start a server, and return how a backend is opened there, and a function that leaves room for few connections.
var limited = map[string]func(t *testing.T) (open func() (backend.Backend, error), limit func()){
	"mysql": func(t *testing.T) (func() (backend.Backend, error), func()) {
		db := startMySQL(t)
		return func() (backend.Backend, error) { return mysql.Open(mysql.Options{Config: db.User}) },
			func() {
				db.Exec(t, fmt.Sprintf("ALTER USER '%s'@'127.0.0.1' WITH MAX_USER_CONNECTIONS 5", db.User.User))
			}
	},
	"postgres": func(t *testing.T) (func() (backend.Backend, error), func()) {
		_, db := startPostgres(t, testbed.Options{})
		return func() (backend.Backend, error) { return postgres.Open(postgres.Options{DSN: db.DSN("")}) },
			func() { db.Exec(t, "ALTER ROLE "+db.User+" CONNECTION LIMIT 4") }
	},
	"redis": func(t *testing.T) (func() (backend.Backend, error), func()) {
		server := testbed.StartRedis(t, testbed.Options{})
		return func() (backend.Backend, error) { return redis.Open(redis.Options{Addresses: []string{server.Addr()}}) },
			func() { server.Do(t, "CONFIG", "SET", "maxclients", 9) }
	},
}

// The doctor says how many connections the processes have, and how many the server has left for more.
func TestTheDoctorCountsConnections(t *testing.T) {
	t.Parallel()
	for name, start := range limited {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open, limit := start(t)
			b, err := open()
			lead(t, join(t, "a", 6*time.Second, b, err))
			connections := func() string {
				b, err := open()
				testbed.NoError(t, err)
				defer b.Close()
				all, err := b.(backend.Inspector).Inspect(t.Context(), 6*time.Second, 2*time.Second)
				testbed.NoError(t, err)
				for _, d := range all {
					if d.What == "connections" {
						return d.String()
					}
				}
				return ""
			}
			if text := connections(); strings.Contains(text, "WARNING") || !strings.Contains(text, "; processes seen lately: 1. ") {
				t.Errorf("the doctor says %q", text)
			}
			limit()
			testbed.Eventually(t, patience, "the doctor warns", func() error {
				if text := connections(); !strings.Contains(text, "WARNING connections: ") || !strings.Contains(text, "That is little") {
					return fmt.Errorf("it says %q", text)
				}
				return nil
			})
		})
	}
}
