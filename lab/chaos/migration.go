//go:build linux

package chaos

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// The stages of a migration from ZooKeeper to MySQL and back, in the order of a fleet.
var stages = []string{"both", "to", "both", "from"}

// migrationSite is a migration. Its members begin at the stage "both".
func migrationSite(t testing.TB) *Site {
	z := testbed.StartZooKeeper(t, testbed.Options{Clock: true})
	s := testbed.Start(t, testbed.MariaDB, testbed.Options{Clock: true})
	d := s.Database(t)
	makeTables(t, d, "")
	from, to, stage := zooKeeperEnviron(), mysqlEnviron("mysql", d), 0
	how := func(proxies []*testbed.Proxy) []string {
		own := environ("migration", "FROM", "zookeeper", "TO", "mysql", "STAGE", stages[stage%len(stages)])
		return slices.Concat(from(proxies[:1]), to(proxies[1:]), own)
	}

	// One member after the other ends, or is killed, and starts again at the next stage.
	move := strike(func(*run, *child) { stage++ }, func(r *run, _ *child) {
		for i, c := range r.current {
			if r.IntN(3) == 0 {
				c.Kill()
			} else {
				c.Resign()
			}
			r.start(i)
			r.wait(0, ttl)
		}
	})
	site := newSite(t, "migration", greatestTTL+ttl, how, z.Addr(), s.Addr())
	site.faults[nextStage] = move
	return site.with(on("ZooKeeper", serverFaults(z)), on("MariaDB", serverFaults(s.Daemon)))
}

// nextStage is the fault of a fleet that is restarted at the next stage of its migration.
const nextStage = "next stage"

// on names the faults of one of two servers.
func on(server string, faults map[string]fault) map[string]fault {
	named := make(map[string]fault, len(faults))
	for name, f := range faults {
		named[strings.Replace(name, "server", server, 1)] = f
	}
	return named
}
