package mysql

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// tenant makes a schema in which the user may make tables.
func (l *lab) tenant(t *testing.T) (schema string) {
	schema = l.Name + "_tenant"
	l.Exec(t, "CREATE DATABASE "+schema, fmt.Sprintf("GRANT ALL ON %s.* TO %s", schema, l.userAtHost(t)))
	t.Cleanup(func() { l.admin.Exec("DROP DATABASE " + schema) })
	return schema
}

// userAtHost is the user as GRANT names it.
func (l *lab) userAtHost(t *testing.T) string {
	var host string
	testbed.NoError(t, l.admin.QueryRowContext(t.Context(), "SELECT Host FROM mysql.user WHERE User = ?", l.User.User).Scan(&host))
	return fmt.Sprintf("'%s'@'%s'", l.User.User, host)
}

func (l *lab) tables(t *testing.T) int64 {
	return l.number(t, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 'election_item' AND TABLE_SCHEMA LIKE ?", l.Name+"%")
}

// A table that is put in the place of another one is another store on MySQL, though its rows are a copy. MariaDB has nothing
// that tells them apart and stays the same: see placeSQL.
func TestATableInThePlaceOfAnotherIsAnotherStore(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		if l.kind == testbed.MariaDB {
			sameAfterItsFileWasTouched(t, l)
			return
		}
		drivertest.IsAnotherStore(t, func() lease.Driver { return open(t, Options{Config: l.User}) }, func() {
			l.copied(t, "election_item", "copied")
			l.Exec(t, "RENAME TABLE election_item TO former, copied TO election_item")
		}, func() { l.Exec(t, "RENAME TABLE election_item TO copied, former TO election_item") })
	})
}

// A copy of all rows is put in the place of the table under a leader, at once and for everybody. Nothing is lost, and the leader
// leads on. A copy that lacks its grant is noticed by the leader and by whoever has seen it: they wait for the greatest TTL.
func TestACopyInThePlaceOfTheTableMakesNoSecondLeader(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for _, older := range []bool{false, true} {
			t.Run(fmt.Sprintf("older %v", older), func(t *testing.T) {
				t.Parallel()
				l, o := newLab(t, testbed.Shared(t, k)), Options{MaxTTL: 5 * time.Second}
				o.Config = l.User
				old, knew := join(t, "old", 3*time.Second, o), join(t, "knew", 3*time.Second, o)
				led, err := old.Campaign(t.Context())
				if err == nil && older {
					if err = led.Resign(t.Context()); err == nil {
						l.copied(t, "election_item", "copied")
						led, err = old.Campaign(t.Context())
					}
				}
				if err == nil {
					err = knew.Lead(nil)
				}
				testbed.NoError(t, err)
				testbed.Eventually(t, patience, "knew has seen the grant", func() error {
					if who, term, known := knew.Leader(); !known || who.ID != "old" || term != led.Term {
						return errors.New(knew.Current().String())
					}
					return nil
				})
				if !older {
					l.copied(t, "election_item", "copied")
				}
				l.Exec(t, "RENAME TABLE election_item TO former, copied TO election_item")
				for began := time.Now(); time.Since(began) < 4*time.Second; <-time.After(time.Millisecond) {
					if led.Leading() && knew.Leading() {
						t.Fatalf("two processes lead after %v", time.Since(began))
					}
				}
				testbed.Eventually(t, patience, "one of them leads", func() error {
					if old.Leading() || knew.Leading() {
						return nil
					}
					return errors.New(knew.Current().String())
				})
			})
		}
	})
}

// sameAfterItsFileWasTouched checks that what changes a file of a table, and no row, makes no other store.
func sameAfterItsFileWasTouched(t *testing.T, l *lab) {
	d := open(t, Options{Config: l.User})
	before := drivertest.Read(t, d, recordKey("jobs"))
	l.Exec(t, "RENAME TABLE election_item TO moved", "RENAME TABLE moved TO election_item")
	if after := drivertest.Read(t, d, recordKey("jobs")); after.Epoch != before.Epoch || after.WentBack != before.WentBack {
		t.Errorf("the epoch is %s, was %s", after.Epoch, before.Epoch)
	}
}

// copied makes a copy of a table with its rows, at a later second.
func (l *lab) copied(t *testing.T, table, as string) {
	testbed.Eventually(t, patience, "a copy is younger", func() error {
		l.Exec(t, "DROP TABLE IF EXISTS "+as, fmt.Sprintf("CREATE TABLE %s LIKE %s", as, table), fmt.Sprintf("INSERT INTO %s SELECT * FROM %s", as, table))
		if l.number(t, "SELECT COUNT(DISTINCT CREATE_TIME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN (?, ?)", table, as) != 2 {
			return errors.New("it is of the same second")
		}
		return nil
	})
}

// A fence without a schema uses that of the DSN, and no other: after USE it needs a name.
func TestAFenceFindsTheTableOfTheDSN(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		tenant := l.tenant(t)
		l.Exec(t, "CREATE TABLE "+tenant+".election_item LIKE election_item")
		d := open(t, Options{Config: l.User})
		v := drivertest.Read(t, d, recordKey("jobs"))
		drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 7, Nonce: "n"})
		check := func(f Fence, statement string) error {
			return f.Do(t.Context(), testbed.OpenDB(t, l.User), "jobs", 7, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(context.Background(), statement)
				return err
			})
		}
		if err := check(Fence{}, "DO 0"); err != nil {
			t.Errorf("beside a table of another schema: %v", err)
		}
		if err := check(Fence{}, "USE "+tenant); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "name the schema") {
			t.Errorf("after USE: %v, want ErrDenied", err)
		}
		if err := check(Fence{Schema: l.Name}, "USE "+tenant); err != nil {
			t.Errorf("after USE, with a schema: %v", err)
		}
	})
}

// A temporary table of the session hides the table from a fence, which must not believe a term that somebody has written there.
func TestAFenceDoesNotReadATemporaryTable(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		l.Exec(t, fmt.Sprintf("GRANT CREATE TEMPORARY TABLES ON %s.* TO %s", l.Name, l.userAtHost(t)))
		d := open(t, Options{Config: l.User})
		lead(t, d, 7, "n")
		db := testbed.OpenDB(t, l.User)
		db.SetMaxOpenConns(1)
		var value []byte
		testbed.NoError(t, db.QueryRowContext(t.Context(), "SELECT value FROM election_item WHERE kind = 'record'").Scan(&value))
		lead(t, d, 8, "m")
		_, err := db.ExecContext(t.Context(), "CREATE TEMPORARY TABLE election_item SELECT X'7265636f7264' AS kind, X'6a6f6273' AS name, CONVERT(X'"+hex.EncodeToString(value)+"' USING utf8mb4) AS value")
		testbed.NoError(t, err)
		for _, f := range []Fence{{}, {Schema: l.Name}} {
			for term := range uint64(9) {
				err := f.Do(t.Context(), db, "jobs", term+1, func(*sql.Tx) error { return nil })
				if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "a temporary table") {
					t.Errorf("term %d: %v, want ErrDenied", term+1, err)
				}
			}
		}
		db.ExecContext(t.Context(), "DROP TEMPORARY TABLE election_item")
		if err := (Fence{}).Do(t.Context(), db, "jobs", 8, func(*sql.Tx) error { return nil }); err != nil {
			t.Errorf("without the temporary table: %v", err)
		}
	})
}
