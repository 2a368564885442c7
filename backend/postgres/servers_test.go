package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// TestConformanceThroughAFailover runs the cases that a failover interrupts: the primary is killed and its standby promoted,
// behind the same address. An asynchronous one lacks the last writes at every second failover.
func TestConformanceThroughAFailover(t *testing.T) {
	t.Parallel()
	for _, synchronous := range []bool{false, true} {
		t.Run(map[bool]string{false: "asynchronous", true: "synchronous"}[synchronous], func(t *testing.T) {
			t.Parallel()
			h := harness(func(t testing.TB) conformance.Store { return newReplicated(t, synchronous) })
			h.TTL = 3 * time.Second // a new primary answers slowly at first
			h.Only = func(c conformance.Case) bool { return c.Fault == conformance.FaultFailover }
			h.Parallel = false
			conformance.Run(t, h)
		})
	}
}

// newReplicated makes a store on a primary with a standby, behind a proxy that leads to the primary.
func newReplicated(t testing.TB, synchronous bool) conformance.Store {
	primary := testbed.StartPostgres(t, testbed.Options{})
	db := withTable(t, primary.Database(t))
	proxy := primary.Proxy(t)
	follow := func(t testing.TB, primary *testbed.PostgresServer) *testbed.PostgresServer {
		standby := testbed.StartPostgresStandby(t, primary)
		if synchronous {
			primary.Synchronous(t)
		}
		return standby
	}
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			return backendOn(t, Options{DSN: db.DSN(proxy.Addr()), MaxTTL: 5 * time.Second})
		},
		Faults: map[string]conformance.Fault{conformance.FaultFailover: drivertest.Failovers(t, proxy, primary, !synchronous, follow)},
	}
}

// A node comes back, and connections to the one that stood in for it are still open, also in the program's pool. They are
// dropped when the first answer of the node that is meant arrives, so the two do not take turns.
func TestConnectionsToTheServerOfBeforeAreDropped(t *testing.T) {
	t.Parallel()
	first, second := testbed.SharedPostgres(t), testbed.StartPostgres(t, testbed.Options{})
	db := withTable(t, first.Database(t))
	second.Exec(t, "CREATE DATABASE other", "CREATE ROLE "+db.User+" LOGIN", "CREATE DATABASE "+db.Name+" OWNER "+db.User) // it has another oid
	testbed.NoError(t, backendOn(t, Options{DSN: db.DSN(second.Addr())}).CreateTables(t.Context()))
	for way, options := range map[string]func(c *pgxpool.Config) (o Options, used func()){
		"DSN": func(c *pgxpool.Config) (Options, func()) { return Options{DSN: c.ConnString()}, func() {} },
		"Pool": func(c *pgxpool.Config) (Options, func()) {
			pool, err := pgxpool.NewWithConfig(t.Context(), c)
			testbed.NoError(t, err)
			t.Cleanup(pool.Close)
			used, err := pool.Acquire(t.Context())
			testbed.NoError(t, err)
			return Options{Pool: pool}, used.Release
		},
	} {
		t.Run(way, func(t *testing.T) {
			proxy := testbed.NewProxy(t, second.Addr())
			config, err := pgxpool.ParseConfig(db.DSN(proxy.Addr()))
			testbed.NoError(t, err)
			o, giveBack := options(config)
			d := open(t, o)
			before := drivertest.Read(t, d).Epoch
			proxy.SetTarget(first.Addr())
			drivertest.TakeAll(t, &d.conns, 2) // one of before, and a new one
			giveBack()
			drivertest.NotInTurns(t, d, before)
		})
	}
}

// A pooler, or a pool of the program's own, may lead to a standby, which refuses to write: nobody must be asked to act for that, and the
// next connection may lead to the primary.
func TestAStandbyThatIsWrittenToIsNotDenied(t *testing.T) {
	t.Parallel()
	primary := testbed.StartPostgres(t, testbed.Options{})
	db := withTable(t, primary.Database(t))
	standby, proxy := testbed.StartPostgresStandby(t, primary), testbed.NewProxy(t, primary.Addr())
	b := backendOn(t, Options{Pool: poolOf(t, db.DSN(proxy.Addr()), 3)})
	a := candidate(t, b)
	held := a.Leads("jobs")
	proxy.SetTarget(standby.Addr())
	b.driver.ServerChanged() // the next call connects
	if _, err := a.Looks("jobs"); !errors.Is(err, errStandby) {
		t.Errorf("a reading on the standby: %v", err)
	}
	proxy.SetTarget(primary.Addr())
	if _, err := a.Looks("jobs"); err != nil {
		t.Errorf("the next reading, for which the primary is there: %v", err)
	}
	proxy.SetTarget(standby.Addr())
	b.driver.ServerChanged()
	if err := a.Renews(held).Err; !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "recovery") {
		t.Errorf("a renewal on the standby: %v; want ErrUnavailable", err)
	}
	if err := b.driver.conns.Watch(t.Context(), b.driver.hear); err == nil || b.driver.Fault(err).Denied {
		t.Errorf("who listens on the standby: %v; want it unavailable", err)
	}
	proxy.SetTarget(primary.Addr())
	a.Keeps(held)
}

func backendOn(t testing.TB, o Options) *Backend {
	t.Helper()
	return testbed.Open(t, Open, o)
}

// join opens a manager that has joined the election jobs.
func join(t testing.TB, id string, ttl time.Duration, o Options) *election.Election {
	t.Helper()
	return drivertest.Join(t, id, ttl, backendOn(t, o))
}

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute

func recordKey(name string) lease.Key { return lease.Key{Kind: lease.Records, Name: name} }

// Two standbys that are promoted in turn have the same timeline. Each has an epoch of its own, and a
// change that was meant for one is refused by the other.
func TestTwoStandbysPromotedInTurnDiffer(t *testing.T) {
	t.Parallel()
	primary := testbed.StartPostgres(t, testbed.Options{})
	db := withTable(t, primary.Database(t))
	first := testbed.StartPostgresStandby(t, primary)
	second := testbed.StartPostgresStandby(t, primary)
	proxy := primary.Proxy(t)
	d := open(t, Options{DSN: db.DSN(proxy.Addr())})
	v := drivertest.Read(t, d, recordKey("jobs"))
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
	first.CatchUp(t, primary)
	second.CatchUp(t, primary)
	second.StopReplication(t)
	epochs := map[string]bool{v.Epoch: true}
	for i, next := range []*testbed.PostgresServer{first, second} {
		before := drivertest.Read(t, d, recordKey("jobs"))
		late := open(t, Options{DSN: db.DSN(next.Addr())}) // has read nothing
		if i == 0 {
			primary.Kill(t)
		} else {
			first.Kill(t)
		}
		next.Promote(t)
		proxy.SetTarget(next.Addr())
		proxy.Reset()
		for what, d := range map[string]*driver{"one that has read another server": d, "one that has read nothing": late} {
			if _, err := drivertest.Put(t, d, &before, &lease.Record{Election: "jobs", Term: 9}); !errors.Is(err, lease.ErrEpoch) {
				t.Fatalf("a change of %s, meant for another server: %v, want ErrEpoch", what, err)
			}
		}
		now := drivertest.Read(t, d, recordKey("jobs"))
		if epochs[now.Epoch] {
			t.Fatalf("the epoch %s comes again", now.Epoch)
		}
		epochs[now.Epoch] = true
		if r := now.Items[0].Value.(*lease.Record); r.Term != 1 || !now.Items[0].Old {
			t.Errorf("the record on promoted server %d: %+v", i, now.Items[0])
		}
	}
	timelines := map[string]bool{}
	for epoch := range epochs {
		timelines[strings.Split(epoch, ".")[1]] = true
	}
	if len(epochs) != 3 || len(timelines) != 2 {
		t.Errorf("epochs %v; want three, of two timelines", epochs)
	}
}

// A standby answers, but not as the store. With several hosts in the DSN the primary is found, whatever that prefers.
func TestAStandbyIsNotTheStore(t *testing.T) {
	t.Parallel()
	primary := testbed.StartPostgres(t, testbed.Options{})
	db := withTable(t, primary.Database(t))
	want := drivertest.Read(t, open(t, Options{DSN: db.DSN("")}))
	standby := testbed.StartPostgresStandby(t, primary)
	for what, dsn := range map[string]string{"the default": db.DSN(standby.Addr()), "any server is accepted": db.DSN(standby.Addr()) + "&target_session_attrs=any"} {
		_, err := open(t, Options{DSN: dsn}).Read(t.Context(), []lease.Key{recordKey("jobs")})
		if !errors.Is(err, backend.ErrUnavailable) || errors.Is(err, backend.ErrDenied) {
			t.Errorf("a reading of a standby, %s: %v; want ErrUnavailable", what, err)
		}
	}
	for _, attrs := range []string{"any", "prefer-standby", "standby", "read-only", "read-write"} {
		two := db.DSN(standby.Addr()+","+primary.Addr()) + "&target_session_attrs=" + attrs
		if v := drivertest.Read(t, open(t, Options{DSN: two})); v.Epoch != want.Epoch {
			t.Errorf("%s: epoch %s, want that of the primary, %s", attrs, v.Epoch, want.Epoch)
		}
	}
}

// An older copy of the data is put back. Its timeline and its epoch are the same, and it counts
// transactions anew. A process that has seen more notices that, and its changes are refused.
func TestAnOlderCopyIsNoticed(t *testing.T) {
	t.Parallel()
	server := testbed.StartPostgres(t, testbed.Options{})
	db := withTable(t, server.Database(t))
	d := open(t, Options{DSN: db.DSN("")})
	v := drivertest.Read(t, d, recordKey("jobs"))
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 1})
	server.Terminate(t)
	saved := server.SaveData(t)
	server.Start(t)
	v = drivertest.Read(t, d, recordKey("jobs"))
	if v.WentBack != 0 || v.Items[0].Old {
		t.Fatalf("after a restart: %+v", v)
	}
	drivertest.MustPut(t, d, &v, &lease.Record{Election: "jobs", Term: 2})
	v = drivertest.Read(t, d, recordKey("jobs"))
	server.Terminate(t)
	server.ReplaceData(t, saved)
	server.Start(t)
	if _, err := drivertest.Put(t, d, &v, &lease.Record{Election: "other", Term: 1}); !errors.Is(err, lease.ErrEpoch) {
		t.Errorf("a change by what was read before: %v, want ErrEpoch", err)
	}
	now := drivertest.Read(t, d, recordKey("jobs"), recordKey("other"))
	if now.WentBack == 0 || !now.Items[0].Old || now.Items[0].Value.(*lease.Record).Term != 1 || now.Items[1].Version != "" {
		t.Errorf("an older copy is read as %+v", now)
	}
	drivertest.MustPut(t, d, &now, &lease.Record{Election: "jobs", Term: 3})
	if now = drivertest.Read(t, d, recordKey("jobs")); now.Items[0].Old || now.WentBack != 1 {
		t.Errorf("after a write: %+v", now)
	}
}
