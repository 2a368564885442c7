package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// A program's own pool, or connector, serves as well as a DSN, with and without multiStatements. Close leaves
// the pool open, and no connection of the pool has the settings of this package.
func TestAPoolOrConnectorOfTheProgramServes(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		for what, options := range map[string]func(t *testing.T, c *mysql.Config) Options{
			"connector": func(t *testing.T, c *mysql.Config) Options { return Options{Connector: connectorOf(t, c)} },
			"DB": func(t *testing.T, c *mysql.Config) Options {
				db := testbed.OpenDB(t, c)
				db.SetMaxOpenConns(maxConns + 2)
				return Options{DB: db}
			},
		} {
			for _, several := range []bool{true, false} {
				t.Run(what, func(t *testing.T) {
					t.Parallel()
					l := newLab(t, testbed.Shared(t, k))
					servesAs(t, l, options(t, clone(l.User, func(c *mysql.Config) { c.MultiStatements = several })))
				})
			}
		}
	})
}

// servesAs takes part beside a process with a DSN, and follows and leads.
func servesAs(t *testing.T, l *lab, o Options) {
	a, b := join(t, "a", 10*time.Second, o), join(t, "b", 10*time.Second, Options{DSN: l.User.FormatDSN()})
	testbed.HandsOver(t, b, a, 5*time.Second, func() error {
		if n := len(l.waiters(t)); n != 1 {
			return fmt.Errorf("%d wait, want 1", n)
		}
		return nil
	})
	if o.DB == nil {
		return
	}
	untouched(t, o.DB)
	used := backendOn(t, o)
	observe(t, used, "jobs")
	used.Close()
	if err := o.DB.PingContext(t.Context()); err != nil {
		t.Errorf("after Close: %v", err)
	}
	untouched(t, o.DB)
}

// untouched checks the connections that a program gets from its pool.
func untouched(t testing.TB, db *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var same bool
	if err := c.QueryRowContext(ctx, "SELECT @@SESSION.wait_timeout = @@GLOBAL.wait_timeout AND @@SESSION.sql_mode = @@GLOBAL.sql_mode AND @@SESSION.innodb_lock_wait_timeout = @@GLOBAL.innodb_lock_wait_timeout AND @@SESSION.time_zone = @@GLOBAL.time_zone").Scan(&same); err != nil || !same {
		t.Errorf("the pool has a connection with settings of this package: %v", err)
	}
}

// A pool without a free connection is named as the cause.
func TestAPoolThatIsUsedUpIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.Shared(t, testbed.MariaDB))
	l.withTable(t, "")
	db := testbed.OpenDB(t, l.User)
	db.SetMaxOpenConns(maxConns + 2)
	var used []*sql.Conn
	for range maxConns + 2 {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		used = append(used, c)
	}
	b := backendOn(t, Options{DB: db, Schema: l.Name})
	look := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Observe(ctx, []backend.Lease{{Election: "jobs"}})
		return err
	}
	if err := look(); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "the program's own pool has no free connection: all") {
		t.Errorf("the program uses all connections: %v", err)
	}
	for _, c := range used {
		c.Close()
	}
	testbed.Eventually(t, patience, "the pool serves again", look)
}
