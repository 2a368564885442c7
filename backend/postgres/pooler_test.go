package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// Behind PgBouncer in transaction mode all but notifications works, and the doctor says so.
func TestPgBouncerInTransactionMode(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{})
	t.Run("driver", func(t *testing.T) {
		leasetest.Run(t, leasetest.Harness{NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
			db := withTable(t, server.Database(t))
			bouncer := testbed.StartPgBouncer(t, db, "transaction")
			return func(t testing.TB) lease.Driver { return silent{open(t, Options{DSN: db.DSN(bouncer.Addr())})} }
		}})
	})
	db := withTable(t, server.Database(t))
	bouncer := testbed.StartPgBouncer(t, db, "transaction")
	for addr, warned := range map[string]bool{bouncer.Addr(): true, "": false} {
		found, err := backendOn(t, Options{DSN: db.DSN(addr)}).Inspect(t.Context(), 10*time.Second, 3*time.Second)
		text := ""
		for _, d := range found {
			text += d.String() + "\n"
		}
		if err != nil || strings.Contains(text, "WARNING notifications: none") != warned {
			t.Errorf("with pooler %v the doctor says:\n%s%v", warned, text, err)
		}
	}
	o := Options{DSN: db.DSN(bouncer.Addr())}
	a, b := join(t, "a", 2*time.Second, o), join(t, "b", 2*time.Second, o)
	drivertest.HandsOver(t, a, b, patience, func() error { return nil })
}

// silent is a driver without its notifications.
type silent struct{ lease.Driver }

// The doctor names what a server lacks.
func TestTheDoctorNamesBadSettings(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{Args: []string{"--fsync=off"}})
	db := server.Database(t)
	server.Exec(t, "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
	if _, err := backendOn(t, Options{DSN: db.DSN("")}).Inspect(t.Context(), time.Second, time.Second); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "elect schema") {
		t.Errorf("without a table: %v", err)
	}
	latin := backendOn(t, Options{DSN: server.AdminDSN("latin"), MaxTTL: 10 * time.Second})
	testbed.NoError(t, latin.CreateTables(t.Context()))
	server.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'one'", "SELECT pg_reload_conf()")
	testbed.Eventually(t, patience, "the doctor names all", func() error {
		found, err := latin.Inspect(t.Context(), 11*time.Second, time.Second)
		text := ""
		for _, d := range found {
			text += d.String() + "\n"
		}
		for _, want := range []string{"WARNING encoding: that of the database is LATIN1", "WARNING durability: fsync is off", "WARNING replication: synchronous (one), and no standby is connected",
			"WARNING TTL: every bid is refused: the TTL is 11s, and max_ttl 10s", "encryption: the connection has no TLS"} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("there is nothing like %q:\n%s%v", want, text, err)
			}
		}
		return nil
	})
	server.Exec(t, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
	_, err := latin.Observe(t.Context(), []backend.Lease{{Election: "€"}})
	if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "must be UTF8") {
		t.Errorf("a name that LATIN1 lacks: %v", err)
	}
	for _, encoding := range []string{"SQL_ASCII", "MULE_INTERNAL"} { // which the server converts nothing to
		server.Exec(t, "CREATE DATABASE no"+encoding+" ENCODING "+encoding+" LOCALE 'C' TEMPLATE template0")
		b := backendOn(t, Options{DSN: server.AdminDSN("no" + strings.ToLower(encoding))})
		err := b.CreateTables(t.Context())
		if err == nil {
			_, err = b.Observe(t.Context(), []backend.Lease{{Election: "\u2028"}})
		}
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "must be UTF8") {
			t.Errorf("a database in %s: %v", encoding, err)
		}
	}
}
