package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A program's own pool serves as well as a DSN: it follows and leads. Close leaves the pool open, and no connection of the
// pool has the settings of this package.
func TestAPoolOfTheProgramServes(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		db := testbed.OpenDB(t, l.User)
		db.SetMaxOpenConns(maxConns + 2)
		o := Options{DB: db}
		a, b := join(t, "a", 10*time.Second, o), join(t, "b", 10*time.Second, Options{DSN: l.User.FormatDSN()})
		drivertest.HandsOver(t, b, a, 5*time.Second, func() error {
			if n := len(l.waiters(t)); n != 1 {
				return fmt.Errorf("%d wait, want 1", n)
			}
			return nil
		})
		untouched(t, db)
		used := backendOn(t, o)
		candidate(t, used).Sees("jobs")
		used.Close()
		untouched(t, db)
	})
}

// With the greatest TTL a leader is silent for a third of it. Its connection must last, since the server may take no other.
func TestAConnectionOutlivesTheLongestPauseBetweenRenewals(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		rows, err := open(t, Options{Config: l.User}).query(t.Context(), "SELECT @@SESSION.wait_timeout")
		if err != nil || number(rows[0][0]) < 300 {
			t.Errorf("the server closes it after %s s without a message, %v", rows, err)
		}
	})
}

// A change must be one message, or a process that is stopped between two statements keeps rows locked.
func TestAPoolThatTakesOneStatementIsDenied(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		db, err := sql.Open("mysql", l.User.FormatDSN())
		testbed.NoError(t, err)
		t.Cleanup(func() { db.Close() })
		_, err = open(t, Options{DB: db}).Read(t.Context(), nil)
		if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "multiStatements=true") {
			t.Errorf("%v; want ErrDenied that says what to set", err)
		}
	})
}

// untouched checks the connections that a program gets from its pool.
func untouched(t testing.TB, db *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := db.Conn(ctx)
	testbed.NoError(t, err)
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
		testbed.NoError(t, err)
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
