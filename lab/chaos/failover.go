//go:build linux

package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A replicated server is one of a store that copies its writes to standbys.
type replicated[S any] interface {
	comparable
	Addr() string
	CatchUp(t testing.TB, primary S) // the standby has all that the primary has written
	StopReplication(t testing.TB)    // the standby gets no further writes
	Promote(t testing.TB)            // the standby is a primary
	Kill(t testing.TB)
}

// A pair is a primary and its standby.
type pair[S replicated[S]] struct {
	primary, standby S
	another          func(t testing.TB, primary S) S // starts a standby
}

// failover replaces the primary, which members reach by an address that moves, and starts a standby
// of the new one. It calls lose when the standby has caught up. The old primary is killed before the
// new one accepts writes, and never comes back: the backends require that fence.
func (p *pair[S]) failover(site *Site, name string, lose func(r *run)) fault {
	return func(r *run) {
		p.standby.CatchUp(r, p.primary)
		r.inject(name, p.primary.Addr(), byEnd, func() {
			lose(r)
			p.primary.Kill(r)
			r.wait(0, r.TTL/4)
			p.standby.Promote(r)
			for _, proxies := range site.proxies {
				proxies[0].SetTarget(p.standby.Addr())
				proxies[0].Reset()
			}
		})
		p.primary = p.standby
		p.standby = p.another(r, p.primary)
	}
}

// failovers are all ways in which a standby can replace its primary asynchronously.
func (p *pair[S]) failovers(site *Site) map[string]fault {
	all := map[string]fault{}
	for name, lose := range map[string]func(r *run){
		"failover, nothing lost": func(r *run) { p.standby.CatchUp(r, p.primary) },
		"failover, asynchronous": func(*run) {},
		// The last writes never arrive: renewals, or a grant.
		"failover, writes lost": func(r *run) {
			p.standby.StopReplication(r)
			r.wait(r.TTL/4, r.TTL)
		},
		"failover, a grant lost": func(r *run) {
			p.standby.StopReplication(r)
			if c := r.someLeader(); c != nil {
				c.terminate(r) // another member is granted the lease, and the standby does not receive that
				r.wait(r.TTL/4, r.TTL)
			}
		},
	} {
		all[name] = p.failover(site, name, lose)
	}
	return all
}

// pairSite is a primary with a replica.
func pairSite(t testing.TB, k testbed.Kind) *Site {
	primary, replica := testbed.StartPair(t, testbed.Options{Kind: k, Args: []string{"--sync-binlog=1"}})
	d := primary.Database(t)
	makeTables(t, d)
	replica.CatchUp(t, primary)
	site := &Site{Backend: "mysql on " + string(k) + " x2", TTL: ttl, Bound: bound(greatestTTL), takesOver: true, proxies: proxiesFor(t, primary.Addr())}
	site.environ = func(i int) []string {
		return environ("mysql", "DSN", site.proxies[i][0].Config(d.User).FormatDSN(), "MAX_TTL", greatestTTL.String())
	}
	p := &pair[*testbed.Server]{primary, replica, testbed.StartReplica}
	site.faults = join(processFaults(), networkFaults(), p.failovers(site), map[string]fault{
		"failover, semi-synchronous": func(r *run) {
			if err := semiSync(p.primary, p.standby, k); err != nil {
				r.Fatalf("semi-synchronous replication: %v", err)
			}
			p.failover(site, "failover, semi-synchronous", func(*run) {})(r)
		},
	})
	return site
}

// postgresPair is a primary with a streaming standby.
func postgresPair(t testing.TB) *Site {
	primary := testbed.StartPostgres(t, testbed.PostgresOptions{})
	d := postgresDatabase(t, primary)
	standby := testbed.StartPostgresStandby(t, primary, testbed.PostgresOptions{})
	site := postgresSiteOn(t, "postgres x2", primary.Addr(), d)
	p := &pair[*testbed.PostgresServer]{primary, standby, func(t testing.TB, primary *testbed.PostgresServer) *testbed.PostgresServer {
		return testbed.StartPostgresStandby(t, primary, testbed.PostgresOptions{})
	}}
	site.faults = join(processFaults(), networkFaults(), p.failovers(site), map[string]fault{
		"failover, synchronous": func(r *run) {
			p.primary.Synchronous(r)
			p.failover(site, "failover, synchronous", func(*run) {})(r)
		},
	})
	return site
}

// redisPair is a master with a replica.
func redisPair(t testing.TB) *Site {
	master := testbed.StartRedis(t, testbed.RedisOptions{})
	replica := testbed.StartRedisReplica(t, master, testbed.RedisOptions{})
	site, _ := redisSiteOn(t, "redis x2", master)
	p := &pair[*testbed.RedisServer]{master, replica, func(t testing.TB, master *testbed.RedisServer) *testbed.RedisServer {
		return testbed.StartRedisReplica(t, master, testbed.RedisOptions{})
	}}
	site.faults = join(processFaults(), networkFaults(), p.failovers(site), map[string]fault{
		// The same process, perhaps with older data: its replica is promoted, and then it is again.
		"failover, and back": func(r *run) {
			master, replica := p.primary, p.standby
			replica.CatchUp(r, master)
			r.inject("failover, and back", master.Addr(), byEnd, func() {
				replica.StopReplication(r)
				r.wait(r.TTL/4, r.TTL)
				replica.Promote(r)
				master.Follow(r, replica)
				master.Promote(r)
				replica.Follow(r, master)
			})
		},
	})
	return site
}

// redisWaits is a master with a replica that must have each change. The replica is promoted although the
// master goes on, and some members reach the one, some the other.
func redisWaits(t testing.TB) *Site {
	master := testbed.StartRedis(t, testbed.RedisOptions{})
	replica := testbed.StartRedisReplica(t, master, testbed.RedisOptions{})
	site, _ := redisSiteOn(t, "redis x2 waits", master, "WAIT_REPLICAS", "1")
	move := func(every int) {
		for i, proxies := range site.proxies {
			if i%every == 0 {
				proxies[0].SetTarget(replica.Addr())
				proxies[0].Reset()
			}
		}
	}
	site.faults = join(processFaults(), networkFaults(), map[string]fault{
		"failover, old master goes on": func(r *run) {
			r.inject("failover, old master goes on", master.Addr(), byEnd, func() {
				replica.Promote(r)
				next := testbed.StartRedisReplica(r, replica, testbed.RedisOptions{})
				move(2)
				r.wait(r.TTL, greatestTTL+2*r.TTL)
				master.Kill(r)
				move(1)
				master, replica = replica, next
			})
		},
	})
	return site
}

// semiSync makes the primary acknowledge a commit only after the replica has received it.
func semiSync(primary *testbed.Server, replica *testbed.Server, k testbed.Kind) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	source, follower := []string{
		"SET GLOBAL rpl_semi_sync_master_timeout = 600000", "SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'", "SET GLOBAL rpl_semi_sync_master_enabled = ON",
	}, []string{"SET GLOBAL rpl_semi_sync_slave_enabled = ON"}
	status := "Rpl_semi_sync_master_clients"
	if k == testbed.MySQL {
		source = []string{
			"INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
			"SET GLOBAL rpl_semi_sync_source_timeout = 600000", "SET GLOBAL rpl_semi_sync_source_enabled = ON",
		}
		follower = []string{
			"SET GLOBAL super_read_only = OFF", "INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'",
			"SET GLOBAL super_read_only = ON", "SET GLOBAL rpl_semi_sync_replica_enabled = ON",
		}
		status = "Rpl_semi_sync_source_clients"
	}
	for _, s := range append(follower, "STOP REPLICA IO_THREAD", "START REPLICA IO_THREAD") {
		if _, err := replica.Admin().ExecContext(ctx, s); err != nil && !installed(err) {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	for _, s := range source {
		if _, err := primary.Admin().ExecContext(ctx, s); err != nil && !installed(err) {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var name, clients string
		if err := primary.Admin().QueryRowContext(ctx, "SHOW STATUS LIKE '"+status+"'").Scan(&name, &clients); err != nil {
			return err
		}
		if clients != "0" {
			return nil
		}
		<-tick.C
	}
}
