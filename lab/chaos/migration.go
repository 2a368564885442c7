//go:build linux

package chaos

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/go-election/go-election/lab/testbed"
)

// The stages of a migration from ZooKeeper to MySQL and back, in the order in which a fleet goes through them.
var stages = []string{"both", "to", "both", "from"}

// migrationSite is a migration. Its members begin at the stage "both".
func migrationSite(t testing.TB) *Site {
	z := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{Clock: true})
	s := testbed.Start(t, testbed.Options{Kind: testbed.MariaDB, Clock: true})
	d := s.Database(t)
	makeTables(t, d)
	site := &Site{Backend: "migration", TTL: ttl, Bound: bound(greatestTTL + ttl), takesOver: true, proxies: proxiesFor(t, z.Addr(), s.Addr())}
	root, stage := "/"+rand.Text(), 0
	site.environ = func(i int) []string {
		zooKeeper, mariaDB := site.proxies[i][:1], site.proxies[i][1]
		return append(append(zooKeeperEnviron(zooKeeper, root), environ("mysql", "DSN", mariaDB.Config(d.User).FormatDSN(), "MAX_TTL", greatestTTL.String())...),
			environ("migration", "FROM", "zookeeper", "TO", "mysql", "STAGE", stages[stage%len(stages)])...)
	}

	site.faults = join(processFaults(), networkFaults(), both("ZooKeeper", serverFaults(z)), both("MariaDB", serverFaults(s)), map[string]fault{
		// One member after the other ends, or is killed, and starts again at the next stage.
		nextStage: func(r *run) {
			c := r.someLeader()
			led := c.ledAfter(Now())
			stage++
			r.inject(nextStage, c.Process, byTarget, func() {
				for i, c := range r.current {
					if r.IntN(3) == 0 {
						c.kill()
					} else {
						c.terminate(r)
					}
					r.start(i)
					r.wait(0, r.TTL)
				}
			}).hit = led
		},
	})
	return site
}

// nextStage is the fault of a fleet that is restarted at the next stage of its migration.
const nextStage = "next stage"

// both names the faults of one of two servers.
func both(server string, faults map[string]fault) map[string]fault {
	named := make(map[string]fault, len(faults))
	for name, f := range faults {
		named[strings.Replace(name, "server", server, 1)] = f
	}
	return named
}
