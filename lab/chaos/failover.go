//go:build linux

package chaos

import (
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// A pair is a primary and its standby.
type pair[S drivertest.Replicated[S]] struct {
	primary, standby S
	another          func(t testing.TB, primary S) S // starts a standby
}

// failover replaces the primary, which members reach by an address that moves, and starts a standby
// of the new one. It calls lose when the standby has caught up. The old primary is killed before the
// new one accepts writes, and never comes back: the backends require that fence.
func (p *pair[S]) failover(lose func(r *run)) fault {
	return func(r *run) {
		p.standby.CatchUp(r, p.primary)
		r.inject(p.primary.Addr(), byEnd, func() {
			lose(r)
			p.primary.Kill(r)
			r.wait(0, ttl/4)
			p.standby.Promote(r)
			r.lead(p.standby.Addr(), 1)
		})
		p.primary = p.standby
		p.standby = p.another(r, p.primary)
	}
}

// lead leads every member, or every second one, to another server.
func (r *run) lead(addr string, every int) {
	for i, proxies := range r.proxies {
		if i%every == 0 {
			proxies[0].SetTarget(addr)
			proxies[0].Reset()
		}
	}
}

// failovers are all ways in which a standby can replace its primary asynchronously.
func (p *pair[S]) failovers() map[string]fault {
	return map[string]fault{
		"failover, nothing lost": p.failover(func(r *run) { p.standby.CatchUp(r, p.primary) }),
		"failover, asynchronous": p.failover(func(*run) {}),
		// The last writes never arrive: renewals, or a grant.
		"failover, writes lost": p.failover(func(r *run) {
			p.standby.StopReplication(r)
			r.wait(ttl/4, ttl)
		}),
		"failover, a grant lost": p.failover(func(r *run) {
			p.standby.StopReplication(r)
			r.someLeader().Resign() // another is granted the lease, and the standby does not receive that
			r.wait(ttl/4, ttl)
		}),
	}
}

// pairSite is a primary with a replica.
func pairSite(t testing.TB, k testbed.Kind) *Site {
	o := testbed.Options{Args: []string{"--sync-binlog=1"}}
	if k == testbed.MySQL { // MariaDB has it built in
		o.Args = append(o.Args, "--plugin-load-add=semisync_source.so;semisync_replica.so")
	}
	primary := testbed.StartPrimary(t, k, o)
	replica := testbed.StartReplica(t, primary)
	d := primary.Database(t)
	makeTables(t, d, "")
	replica.CatchUp(t, primary)
	p := &pair[*testbed.Server]{primary, replica, testbed.StartReplica}
	site := newSite(t, "mysql on "+string(k)+" x2", greatestTTL, mysqlEnviron("mysql", d), primary.Addr())
	return site.with(p.failovers(), map[string]fault{
		"failover, semi-synchronous": func(r *run) {
			semiSync(r, p.primary, p.standby)
			p.failover(func(*run) {})(r)
		},
	})
}

// semiSync makes the primary acknowledge a commit only after the replica has received it.
func semiSync(r *run, primary, replica *testbed.Server) {
	source, sink := "rpl_semi_sync_master", "rpl_semi_sync_slave"
	if primary.Kind() == testbed.MySQL {
		source, sink = "rpl_semi_sync_source", "rpl_semi_sync_replica"
	}
	replica.Exec(r, "SET GLOBAL "+sink+"_enabled = ON", "STOP REPLICA IO_THREAD", "START REPLICA IO_THREAD")
	for _, setting := range []string{"timeout = 600000", "wait_point = 'AFTER_SYNC'", "enabled = ON"} {
		primary.Exec(r, "SET GLOBAL "+source+"_"+setting)
	}
	testbed.Eventually(r, 2*time.Minute, "the replica acknowledges commits", func() error {
		var name, clients string
		err := primary.Admin().QueryRow("SHOW STATUS LIKE '"+source+"_clients'").Scan(&name, &clients)
		if err == nil && clients == "0" {
			err = errors.New("it does not")
		}
		return err
	})
}

// postgresPair is a primary with a streaming standby.
func postgresPair(t testing.TB) *Site {
	primary := testbed.StartPostgres(t, testbed.Options{})
	d := postgresDatabase(t, primary)
	another := testbed.StartPostgresStandby
	p := &pair[*testbed.PostgresServer]{primary, another(t, primary), another}
	site := newSite(t, "postgres x2", greatestTTL, postgresEnviron(d), primary.Addr())
	return site.with(p.failovers(), map[string]fault{
		"failover, synchronous": func(r *run) {
			p.primary.Synchronous(r)
			p.failover(func(*run) {})(r)
		},
	})
}

// redisPair is a master with a replica.
func redisPair(t testing.TB) *Site {
	master := testbed.StartRedis(t, testbed.Options{})
	p := &pair[*testbed.RedisServer]{master, testbed.StartRedisReplica(t, master), testbed.StartRedisReplica}
	site := newSite(t, "redis x2", greatestTTL, redisEnviron(), master.Addr())
	return site.with(p.failovers(), map[string]fault{
		// The same process, perhaps with older data: its replica is promoted, and then it is again.
		"failover, and back": func(r *run) {
			master, replica := p.primary, p.standby
			replica.CatchUp(r, master)
			r.inject(master.Addr(), byEnd, func() {
				replica.StopReplication(r)
				r.wait(ttl/4, ttl)
				replica.Promote(r)
				master.Follow(r, replica)
				master.Promote(r)
				replica.Follow(r, master)
			})
		},
	})
}

// redisWaits is a master with a replica that must have each change. The replica is promoted although the
// master goes on, and some members reach the one, some the other.
func redisWaits(t testing.TB) *Site {
	master := testbed.StartRedis(t, testbed.Options{})
	replica := testbed.StartRedisReplica(t, master)
	site := newSite(t, "redis x2 waits", greatestTTL, redisEnviron("WAIT_REPLICAS", "1"), master.Addr())
	return site.with(map[string]fault{
		"failover, old master goes on": func(r *run) {
			r.inject(master.Addr(), byEnd, func() {
				replica.Promote(r)
				next := testbed.StartRedisReplica(r, replica)
				r.lead(replica.Addr(), 2)
				r.wait(ttl, greatestTTL+2*ttl)
				master.Kill(r)
				r.lead(replica.Addr(), 1)
				master, replica = replica, next
			})
		},
	})
}
