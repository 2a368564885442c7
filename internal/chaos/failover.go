//go:build linux

package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/internal/testbed"
)

// pairSite is a primary with a replica. Members reach the current primary by an address
// that moves. A failover kills the old primary before the new one accepts writes, and the
// old one never comes back: package mysql requires that fence.
func pairSite(t testing.TB, k testbed.Kind) *Site {
	primary, replica := testbed.StartPair(t, testbed.Options{Kind: k, Args: []string{"--sync-binlog=1"}})
	d := primary.Database(t)
	makeTables(t, d)
	replica.WaitCaughtUp(t)
	site := &Site{Backend: "mysql on " + string(k) + " x2", TTL: ttl, Bound: bound(greatestTTL), takesOver: true, proxies: proxiesFor(t, primary.Addr())}
	site.environ = func(i int) []string {
		return environ("mysql", "DSN", site.proxies[i][0].Config(d.User).FormatDSN())
	}
	// failover replaces the primary, and starts a replica of the new one. It calls lose
	// when the replica has caught up.
	failover := func(name string, lose func(r *run)) fault {
		return func(r *run) {
			replica.WaitCaughtUp(r)
			r.inject(name, primary.Addr(), byEnd, func() {
				lose(r)
				primary.Kill(r)
				r.wait(0, r.TTL/4)
				replica.Promote(r)
				for _, p := range site.proxies {
					p[0].SetTarget(replica.Addr())
					p[0].Reset()
				}
			})
			primary = replica.Server
			replica = testbed.StartReplica(r, primary)
		}
	}
	site.faults = join(processFaults(), networkFaults(), map[string]fault{
		"failover, nothing lost": failover("failover, nothing lost", func(r *run) { replica.WaitCaughtUp(r) }),
		"failover, asynchronous": failover("failover, asynchronous", func(*run) {}),
		// The last writes never arrive: renewals, or a grant.
		"failover, writes lost": failover("failover, writes lost", func(r *run) {
			replica.StopReplication(r)
			r.wait(r.TTL/4, r.TTL)
		}),
		"failover, a grant lost": failover("failover, a grant lost", func(r *run) {
			replica.StopReplication(r)
			if c := r.someLeader(); c != nil {
				c.terminate(r) // another member is granted the lease, and the replica does not receive that
				r.wait(r.TTL/4, r.TTL)
			}
		}),
		"failover, semi-synchronous": func(r *run) {
			if err := semiSync(primary, replica, k); err != nil {
				r.Fatalf("semi-synchronous replication: %v", err)
			}
			failover("failover, semi-synchronous", func(*run) {})(r)
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
