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
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A server has no place for other connections, or refuses a login that it accepted before.
func TestALeaderLeadsOnWhileItsServerIsFull(t *testing.T) {
	t.Parallel()
	t.Run("max_connections of MariaDB", func(t *testing.T) {
		t.Parallel()
		db := startMySQL(t)
		b, err := mysql.Open(mysql.Options{Config: db.User})
		l := lead(t, join(t, "a", 6*time.Second, b, err))
		for full := false; !full; {
			c, err := testbed.OpenDB(t, db.User).Conn(t.Context())
			if full = err != nil; !full {
				defer c.Close()
			}
		}
		drivertest.KeepsLeading(t, l, 80*time.Second)
	})
	t.Run("CONNECTION LIMIT of a role of PostgreSQL", func(t *testing.T) {
		t.Parallel()
		server, db := startPostgres(t, testbed.Options{})
		b, err := postgres.Open(postgres.Options{DSN: db.DSN("")})
		l := lead(t, join(t, "a", 6*time.Second, b, err))
		server.Exec(t, "ALTER ROLE "+db.User+" CONNECTION LIMIT 0")
		drivertest.KeepsLeading(t, l, 80*time.Second)
	})
	for what, command := range map[string][]any{
		"another password of Redis": {"ACL", "SETUSER", "app", "resetpass", ">another"},
		"maxclients of Redis":       {"CONFIG", "SET", "maxclients", "1"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := testbed.StartRedis(t, testbed.Options{})
			server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
			b, err := redis.Open(redis.Options{Addresses: []string{server.Addr()}, Username: "app", Password: "secret"})
			l := lead(t, join(t, "a", 6*time.Second, b, err))
			server.Do(t, command...)
			drivertest.KeepsLeading(t, l, 80*time.Second)
		})
	}
}

// A process leads one election and follows another. All it has left is the connection that waits for changes, and the
// server has no place for a second one. The renewal gets that place.
func TestAListenerGivesItsPlaceToARenewal(t *testing.T) { // not beside the others: a renewal has seconds
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		db := startMySQL(t)
		admin := testbed.OpenDB(t, db.Admin)
		b, err := mysql.Open(mysql.Options{Config: db.User})
		other, failed := mysql.Open(mysql.Options{Config: db.Admin})
		l := leadAndFollow(t, b, err, other, failed)
		of := "FROM information_schema.PROCESSLIST WHERE USER = '" + db.User.User + "' AND "
		testbed.Eventually(t, patience, "it waits for changes", func() error {
			return isOne(admin.QueryRowContext(t.Context(), "SELECT COUNT(*) "+of+"INFO LIKE '%GET_LOCK%'"))
		})
		db.Exec(t, fmt.Sprintf("ALTER USER '%s'@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1", db.User.User))
		rows, err := admin.QueryContext(t.Context(), "SELECT ID "+of+"COALESCE(INFO, '') NOT LIKE '%GET_LOCK%'")
		testbed.NoError(t, err)
		for rows.Next() {
			var id int
			rows.Scan(&id)
			admin.ExecContext(t.Context(), fmt.Sprint("KILL ", id)) // it may have ended
		}
		drivertest.KeepsLeading(t, l, 20*time.Second)
	})
	t.Run("postgres", func(t *testing.T) { // it listens on the connection of its calls
		t.Parallel()
		server, db := startPostgres(t, testbed.Options{})
		b, err := postgres.Open(postgres.Options{DSN: db.DSN("")})
		other, failed := postgres.Open(postgres.Options{DSN: server.AdminDSN(db.Name)})
		l := leadAndFollow(t, b, err, other, failed)
		db.Exec(t, "ALTER ROLE "+db.User+" CONNECTION LIMIT 1")
		db.Disconnect(t)
		drivertest.KeepsLeading(t, l, 20*time.Second)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server := testbed.StartRedis(t, testbed.Options{})
		server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
		b, err := redis.Open(redis.Options{Addresses: []string{server.Addr()}, Username: "app", Password: "secret"})
		other, failed := redis.Open(redis.Options{Addresses: []string{server.Addr()}})
		l := leadAndFollow(t, b, err, other, failed)
		testbed.Eventually(t, patience, "it waits for changes", func() error {
			if text := fmt.Sprint(server.Do(t, "CLIENT", "LIST", "TYPE", "pubsub")); !strings.Contains(text, "user=app") {
				return fmt.Errorf("subscribers: %s", text)
			}
			return nil
		})
		// All but the connections of its calls have a place. The other process keeps those that it has, or it could take
		// the place that is given.
		others := 0
		for line := range strings.Lines(fmt.Sprint(server.Do(t, "CLIENT", "LIST"))) {
			if !strings.Contains(line, "user=app") || strings.Contains(line, " sub=1 ") {
				others++
			}
		}
		server.Do(t, "CONFIG", "SET", "maxclients", others)
		server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "USER", "app")
		drivertest.KeepsLeading(t, l, 20*time.Second)
	})
}

// leadAndFollow makes the process of b lead an election and follow another one, which the process of other leads.
func leadAndFollow(t *testing.T, b backend.Backend, err error, other backend.Backend, failed error) *election.Leadership {
	t.Helper()
	lead(t, join(t, "b", 6*time.Second, other, failed, "other"))
	return lead(t, join(t, "a", 6*time.Second, b, err, "mine", "other"))
}

func isOne(row interface{ Scan(...any) error }) error {
	var n int
	err := row.Scan(&n)
	if err == nil && n != 1 {
		err = fmt.Errorf("there are %d", n)
	}
	return err
}
