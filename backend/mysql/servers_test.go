package mysql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A server that keeps every commit is the same one after a restart, also after kill -9; its leader goes on. One that does
// not, or once did not, is another one: it may have lost a grant.
func TestOnlyADurableServerIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Run("durable, and then volatile", func(t *testing.T) {
			t.Parallel()
			server := testbed.Start(t, k, testbed.Options{Args: []string{"--log-bin=binlog", "--server-id=7", "--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"}})
			l := newLab(t, server)
			d := open(t, Options{Config: l.User})
			first := drivertest.Read(t, d)
			for _, end := range []func(testing.TB){server.Terminate, server.Kill} {
				if now := restarted(t, server, d, end, nil); now.Epoch != first.Epoch || now.WentBack != 0 {
					t.Fatalf("after a restart: epoch %s (went back %d), before %s", now.Epoch, now.WentBack, first.Epoch)
				}
			}

			epochs := map[string]bool{first.Epoch: true}
			for _, weak := range []string{"innodb_flush_log_at_trx_commit = 2", "sync_binlog = 0"} { // recovery rolls back what the binary log does not have
				l.Exec(t, "SET GLOBAL innodb_flush_log_at_trx_commit = 1, GLOBAL sync_binlog = 1", "SET GLOBAL "+weak)
				if now := drivertest.Read(t, d); now.Epoch == first.Epoch {
					t.Errorf("with %s: epoch %s", weak, now.Epoch)
				}
			}
			epochs[drivertest.Read(t, d).Epoch] = true
			if now := restarted(t, server, d, server.Terminate, lease.ErrEpoch); epochs[now.Epoch] { // it is durable again
				t.Errorf("after a restart: epoch %s, before %v", now.Epoch, epochs)
			}
		})
		t.Run("volatile", func(t *testing.T) {
			t.Parallel()
			server := testbed.Start(t, k, testbed.Options{Args: []string{"--innodb-flush-log-at-trx-commit=2"}})
			d := open(t, Options{Config: newLab(t, server).User})
			before := drivertest.Read(t, d)
			if now := restarted(t, server, d, server.Kill, lease.ErrEpoch); now.Epoch == before.Epoch || now.WentBack != 1 {
				t.Errorf("after a restart: epoch %s (went back %d), before %s", now.Epoch, now.WentBack, before.Epoch)
			}
		})
	})
}

// restarted ends a server and starts it again. A change by what was read before must end with want.
func restarted(t *testing.T, server *testbed.Server, d *driver, end func(testing.TB), want error) lease.View {
	t.Helper()
	before := drivertest.Read(t, d, recordKey("jobs"))
	drivertest.MustPut(t, d, &before, &lease.Record{Election: "jobs", Term: 1})
	before = drivertest.Read(t, d, recordKey("jobs"))
	end(t)
	if _, err := drivertest.Put(t, d, &before, &lease.Record{Election: "jobs", Term: 9}); !errors.Is(err, backend.ErrUnavailable) {
		t.Errorf("a change without a server: %v", err)
	}

	server.Start(t)
	now := drivertest.Read(t, d)
	if _, err := drivertest.Put(t, d, &before, &lease.Record{Election: "jobs", Term: 2}); !errors.Is(err, want) {
		t.Errorf("a change by what was read before the restart: %v, want %v", err, want)
	}
	return now
}

// A table that is dropped and made again has another epoch: a change by what was read before is refused.
func TestATableMadeAgainIsAnotherStore(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		d, other := open(t, Options{Config: l.User}), open(t, Options{Config: l.User})
		before := drivertest.Read(t, d, recordKey("jobs"))
		l.Exec(t, "DROP TABLE election_item")
		if _, err := d.Read(t.Context(), nil); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "CREATE TABLE") {
			t.Errorf("a dropped table: %v", err)
		}
		l.withTable(t, "")
		drivertest.Read(t, other)
		for what, d := range map[string]*driver{"one that has read the old table": d, "one that has read nothing": open(t, Options{Config: l.User})} {
			if _, err := drivertest.Put(t, d, &before, &lease.Record{Election: "jobs", Term: 1}); !errors.Is(err, lease.ErrEpoch) {
				t.Errorf("a change of %s: %v, want ErrEpoch", what, err)
			}
		}
		if now := drivertest.Read(t, d); now.Epoch == before.Epoch || now.WentBack != 1 {
			t.Errorf("epoch %s (went back %d), before %s", now.Epoch, now.WentBack, before.Epoch)
		}
	})
}

// Two processes that find a new server at once agree on its epoch.
func TestTheFirstReadersAgreeOnAnEpoch(t *testing.T) {
	each(t, func(t *testing.T, l *lab) {
		for range 5 {
			epochs := make(chan string)
			for range 8 {
				d := open(t, Options{Config: l.User})
				go func() {
					v, err := d.Read(context.Background(), nil)
					epochs <- fmt.Sprint(v.Epoch, err)
				}()
			}
			first := <-epochs
			for range 7 {
				if other := <-epochs; other != first || !strings.HasSuffix(first, "<nil>") {
					t.Errorf("epochs %s and %s", first, other)
				}
			}
			l.Exec(t, "DELETE FROM election_item WHERE kind = 'origin'")
		}
	})
}

// A server that becomes read-only is left: calls fail, and the next connection finds the new primary. That was a replica,
// and has an epoch of its own, though it has a copy of the row with the epoch. A process that has read nothing yet cannot
// change it by what was read on the primary.
func TestAPromotedReplicaIsAnotherServer(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		primary := testbed.StartPrimary(t, k, testbed.Options{Args: []string{"--sync-binlog=1"}})
		replica := testbed.StartReplica(t, primary)
		l, proxy := newLab(t, primary), primary.Proxy(t)
		d := open(t, Options{Config: proxy.Config(l.User)})
		before := drivertest.Read(t, d, recordKey("jobs"))
		drivertest.MustPut(t, d, &before, &lease.Record{Election: "jobs", Term: 1})
		before = drivertest.Read(t, d, recordKey("jobs"))
		replica.CatchUp(t, primary)
		toReplica := clone(l.User, func(c *mysql.Config) { c.Addr = replica.Addr() })
		if _, err := open(t, Options{Config: toReplica}).Read(t.Context(), nil); !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) {
			t.Errorf("a reading of a replica: %v, want ErrUnavailable", err)
		}
		late := open(t, Options{Config: toReplica})

		primary.ReadOnly(t, true)
		if _, err := d.Read(t.Context(), nil); !errors.Is(err, backend.ErrUnavailable) || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("a reading: %v; want ErrUnavailable", err)
		}
		if _, err := drivertest.Put(t, d, &before, &lease.Record{Election: "jobs", Term: 9}); err == nil {
			t.Error("a read-only server has accepted a change")
		}

		replica.Promote(t)
		proxy.SetTarget(replica.Addr()) // connections to the old primary stay open
		drivertest.Read(t, d)
		for what, d := range map[string]*driver{"one that has read the primary": d, "one that has read nothing": late} {
			if _, err := drivertest.Put(t, d, &before, &lease.Record{Election: "jobs", Term: 9}); !errors.Is(err, lease.ErrEpoch) {
				t.Errorf("a change of %s: %v, want ErrEpoch", what, err)
			}
		}
		now := drivertest.Read(t, d, recordKey("jobs"))
		if now.Epoch == before.Epoch || now.WentBack != 1 || now.Items[0].Value.(*lease.Record).Term != 1 {
			t.Errorf("on the promoted replica: %+v", now)
		}
		drivertest.MustPut(t, d, &now, &lease.Record{Election: "jobs", Term: 2})
	})
}

// Behind one address is one server, and then another one.
func TestTwoServersBehindOneAddress(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		one, two := testbed.Shared(t, k), testbed.Start(t, k, testbed.Options{})
		l := newLab(t, one)
		two.Exec(t, "CREATE DATABASE "+l.Name, fmt.Sprintf("CREATE USER '%s'@'127.0.0.1' IDENTIFIED BY '%s'", l.User.User, l.User.Passwd),
			fmt.Sprintf("GRANT ALL ON %s.* TO '%s'@'127.0.0.1'", l.Name, l.User.User))
		testbed.NoError(t, backendOn(t, Options{Config: clone(l.User, func(c *mysql.Config) { c.Addr = two.Addr() })}).CreateTables(t.Context()))

		t.Run("that take turns are reported", func(t *testing.T) {
			proxy := one.Proxy(t)
			d := open(t, Options{Config: proxy.Config(l.User)})
			epochs := []string{drivertest.Read(t, d).Epoch}
			turn := func(to *testbed.Server) {
				proxy.SetTarget(to.Addr())
				proxy.Reset()
			}
			turn(two)
			epochs = append(epochs, drivertest.Read(t, d).Epoch) // this may be a failover
			turn(one)
			_, err := d.Read(t.Context(), nil)
			if !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), serverOf(epochs[0])) || !strings.Contains(err.Error(), serverOf(epochs[1])) {
				t.Errorf("servers that take turns: %v; want ErrDenied with %q", err, epochs)
			}
		})

		// A node comes back, and connections to the one that stood in for it are still open, also in the program's pool.
		// They are dropped when the first answer of the node that is meant arrives, so the two do not take turns.
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("connections of before are dropped, pool %v", own), func(t *testing.T) {
				proxy := two.Proxy(t)
				pool := testbed.OpenDB(t, proxy.Config(l.User))
				o := Options{DB: pool}
				if !own {
					o = Options{Config: proxy.Config(l.User)}
				}
				d := open(t, o)
				before := drivertest.Read(t, d).Epoch
				used, err := pool.Conn(t.Context())
				testbed.NoError(t, err)
				proxy.SetTarget(one.Addr())
				drivertest.TakeAll(t, &d.conns, 2) // one of before, and a new one
				used.Close()
				drivertest.NotInTurns(t, d, before)
			})
		}
	})
}

// What does not fit in is refused by the server's limits, not lost: too many connections, and a binary log
// that cannot hold the statements.
func TestLimitsOfTheServerAreErrors(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		l := newLab(t, testbed.Start(t, k, testbed.Options{Args: []string{"--log-bin=binlog", "--server-id=7", "--binlog-format=STATEMENT", "--max-connections=20"}}))
		d := open(t, Options{Config: l.User})
		_, err := d.Read(t.Context(), nil)
		if err == nil {
			v := drivertest.Read(t, d)
			_, err = drivertest.Put(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
		}
		l.paste(t, err)
		l.Exec(t, "SET GLOBAL binlog_format = 'ROW'")
		d = open(t, Options{Config: l.User})
		v := drivertest.Read(t, d)
		drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
		for open := true; open; {
			c, err := testbed.OpenDB(t, l.User).Conn(t.Context())
			if open = err == nil; open {
				defer c.Close()
			}
		}
		if _, err := open(t, Options{Config: l.User}).Read(t.Context(), nil); !errors.Is(err, backend.ErrUnavailable) {
			t.Errorf("a server without free connections: %v", err)
		}
	})
}

// A step of the server's clock changes neither its epoch nor what is granted.
func TestAClockStepChangesNothing(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Start(t, k, testbed.Options{Clock: true})
		l := newLab(t, server)
		leader := join(t, "a", 4*time.Second, Options{Config: l.User})
		lead, err := leader.Campaign(t.Context())
		testbed.NoError(t, err)
		d := open(t, Options{Config: l.User})
		before := drivertest.Read(t, d)
		for i, step := range []time.Duration{time.Hour, -2 * time.Hour} {
			server.Step(t, step)
			now := drivertest.Read(t, d, recordKey("jobs"))
			if now.Epoch != before.Epoch || now.WentBack != 0 || now.Items[0].Age < 0 {
				t.Errorf("after a step of %v: %+v, before %+v", step, now, before)
			}
			drivertest.MustPut(t, d, &now, &lease.Record{Election: fmt.Sprint("other", i), Term: 1})
			<-time.After(5 * time.Second)
			if !lead.Leading() {
				t.Errorf("a step of %v has ended a leadership", step)
			}
		}
	})
}

// serverOf returns the server of an epoch.
func serverOf(epoch string) string { return epoch[:strings.LastIndexByte(epoch, '.')] }
