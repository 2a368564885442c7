//go:build linux

package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A pair is a primary and its standby.
type pair struct {
	addr    func() string              // of the primary
	catchUp func(r *run)               // waits until the standby has all writes
	detach  func(r *run)               // the standby gets no further writes
	kill    func(r *run)               // kills the primary
	promote func(r *run) (addr string) // makes the standby a primary
	follow  func(r *run)               // starts a standby of the new primary
}

// failover replaces the primary, which members reach by an address that moves, and starts a standby
// of the new one. It calls lose when the standby has caught up. The old primary is killed before the
// new one accepts writes, and never comes back: the backends require that fence.
func (p *pair) failover(site *Site, name string, lose func(r *run)) fault {
	return func(r *run) {
		p.catchUp(r)
		r.inject(name, p.addr(), byEnd, func() {
			lose(r)
			p.kill(r)
			r.wait(0, r.TTL/4)
			addr := p.promote(r)
			for _, proxies := range site.proxies {
				proxies[0].SetTarget(addr)
				proxies[0].Reset()
			}
		})
		p.follow(r)
	}
}

// failovers are all ways in which a standby can replace its primary asynchronously.
func (p *pair) failovers(site *Site) map[string]fault {
	all := map[string]fault{}
	for name, lose := range map[string]func(r *run){
		"failover, nothing lost": p.catchUp,
		"failover, asynchronous": func(*run) {},
		// The last writes never arrive: renewals, or a grant.
		"failover, writes lost": func(r *run) {
			p.detach(r)
			r.wait(r.TTL/4, r.TTL)
		},
		"failover, a grant lost": func(r *run) {
			p.detach(r)
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
	replica.WaitCaughtUp(t)
	site := &Site{Backend: "mysql on " + string(k) + " x2", TTL: ttl, Bound: bound(greatestTTL), takesOver: true, proxies: proxiesFor(t, primary.Addr())}
	site.environ = func(i int) []string {
		return environ("mysql", "DSN", site.proxies[i][0].Config(d.User).FormatDSN(), "MAX_TTL", greatestTTL.String())
	}
	p := &pair{
		addr:    func() string { return primary.Addr() },
		catchUp: func(r *run) { replica.WaitCaughtUp(r) },
		detach:  func(r *run) { replica.StopReplication(r) },
		kill:    func(r *run) { primary.Kill(r) },
		promote: func(r *run) string {
			replica.Promote(r)
			return replica.Addr()
		},
		follow: func(r *run) {
			primary = replica.Server
			replica = testbed.StartReplica(r, primary)
		},
	}
	site.faults = join(processFaults(), networkFaults(), p.failovers(site), map[string]fault{
		"failover, semi-synchronous": func(r *run) {
			if err := semiSync(primary, replica, k); err != nil {
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
	p := &pair{
		addr:    func() string { return primary.Addr() },
		catchUp: func(r *run) { standby.CatchUp(r, primary) },
		detach:  func(r *run) { standby.StopReplication(r) },
		kill:    func(r *run) { primary.Kill(r) },
		promote: func(r *run) string {
			standby.Promote(r)
			return standby.Addr()
		},
		follow: func(r *run) {
			primary = standby
			standby = testbed.StartPostgresStandby(r, primary, testbed.PostgresOptions{})
		},
	}
	site.faults = join(processFaults(), networkFaults(), p.failovers(site), map[string]fault{
		"failover, synchronous": func(r *run) {
			primary.Synchronous(r)
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
	p := &pair{
		addr:    func() string { return master.Addr() },
		catchUp: func(r *run) { replica.CatchUp(r, master) },
		detach:  func(r *run) { replica.StopReplication(r) },
		kill:    func(r *run) { master.Kill(r) },
		promote: func(r *run) string {
			replica.Promote(r)
			return replica.Addr()
		},
		follow: func(r *run) {
			master = replica
			replica = testbed.StartRedisReplica(r, master, testbed.RedisOptions{})
		},
	}
	site.faults = join(processFaults(), networkFaults(), p.failovers(site), map[string]fault{
		// The same process, perhaps with older data: its replica is promoted, and then it is again.
		"failover, and back": func(r *run) {
			p.catchUp(r)
			r.inject("failover, and back", p.addr(), byEnd, func() {
				p.detach(r)
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
func semiSync(primary *testbed.Server, replica *testbed.Replica, k testbed.Kind) error {
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
