//go:build linux

package chaos

import (
	"crypto/rand"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/mysqltable"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/lab/testbed"
)

// Sites are all stores, by their names in the table. Each starts its own servers, which
// end with the test.
var Sites = withGuarded(map[string]func(t testing.TB) *Site{
	"file":             fileSite,
	"manual":           manualSite,
	"migration":        migrationSite,
	"mysqltable":       tableSite,
	"mysql on MariaDB": func(t testing.TB) *Site { return mysqlSite(t, testbed.MariaDB) },
	"mysql on MySQL":   func(t testing.TB) *Site { return mysqlSite(t, testbed.MySQL) },
	"postgres":         postgresSite,
	"redis":            redisSite,
	"etcd":             etcdSite,
	"s3":               s3Site,
	"consul":           consulSite,
	"kubernetes":       kubernetesSite,
	"curator":          func(t testing.TB) *Site { return zooKeeperSite(t, "curator", curatorEnviron) },
	"zookeeper":        func(t testing.TB) *Site { return zooKeeperSite(t, "zookeeper", zooKeeperEnviron) },

	"mysql on MariaDB x2": func(t testing.TB) *Site { return pairSite(t, testbed.MariaDB) },
	"mysql on MySQL x2":   func(t testing.TB) *Site { return pairSite(t, testbed.MySQL) },
	"postgres x2":         postgresPair,
	"redis x2":            redisPair,
	"redis x2 waits":      redisWaits,
	"etcd x3":             etcdEnsemble,
	"consul x3":           consulEnsemble,
	"curator x3":          func(t testing.TB) *Site { return zooKeeperEnsemble(t, "curator", curatorEnviron) },
	"zookeeper x3":        func(t testing.TB) *Site { return zooKeeperEnsemble(t, "zookeeper", zooKeeperEnviron) },
}, "mysql on MariaDB", "postgres", "redis", "etcd", "s3", "consul", "kubernetes", "zookeeper")

const ttl = 2 * time.Second

// bound is the most from a heal to the next leader: the TTL of the current lease, the
// store's takeover time, one reading and one call, and one more call.
func bound(takeover time.Duration) time.Duration { return ttl + takeover + ttl/3 + 2*ttl/4 }

func join(all ...map[string]fault) map[string]fault {
	joined := map[string]fault{Mixed: nil}
	for _, m := range all {
		maps.Copy(joined, m)
	}
	return joined
}

// reach says how members reach a store: the configuration of one that has these connections.
type reach func(proxies []*testbed.Proxy) []string

// newSite is a store with servers at these addresses, each of which members reach by proxies. takeover is
// what [bound] says. All its members and their network have faults; those of its servers follow.
func newSite(t testing.TB, name string, takeover time.Duration, addrs []string, how reach, faults ...map[string]fault) *Site {
	site := &Site{Backend: name, Bound: bound(takeover), takesOver: true, faults: join(append(faults, processFaults(), networkFaults())...)}
	for i := range members {
		site.proxies = append(site.proxies, nil)
		for _, addr := range addrs {
			site.proxies[i] = append(site.proxies[i], testbed.NewProxy(t, addr))
		}
	}
	site.environ = func(i int) []string { return how(site.proxies[i]) }
	return site
}

// fileSite is a directory. A stopped leader keeps its pipe open, so no member takes over.
func fileSite(t testing.TB) *Site {
	env := environ("file", "DIR", filepath.Join(testbed.TempDir(t), "election"), "MAX_TTL", ttl.String())
	return &Site{Backend: "file", Bound: bound(0), environ: func(int) []string { return env }, faults: join(processFaults())}
}

// manualSite has one configured leader. No other member ever leads, so only faults of
// processes apply.
func manualSite(t testing.TB) *Site {
	env := environ("manual", "LEADER", "b", "DIR", filepath.Join(testbed.TempDir(t), "election"))
	return &Site{Backend: "manual", Bound: bound(0), environ: func(int) []string { return env }, faults: join(processFaults())}
}

// urls returns the addresses at which a member reaches the servers.
func urls(proxies []*testbed.Proxy, scheme string) string {
	var list []string
	for _, p := range proxies {
		list = append(list, scheme+p.Addr())
	}
	return strings.Join(list, ",")
}

// greatestTTL is how long a follower observes a row on a server that may have lost writes.
const greatestTTL = 3 * time.Second

func mysqlSite(t testing.TB, k testbed.Kind) *Site {
	s := testbed.Start(t, k, testbed.Options{Clock: true})
	d := s.Database(t)
	makeTables(t, d, "")
	return newSite(t, "mysql on "+string(k), greatestTTL, []string{s.Addr()}, mysqlEnviron(d),
		serverFaults(s.Daemon), sqlFaults(s, d), clockFaults(s.Daemon))
}

func makeTables(t testing.TB, d *testbed.Database, prefix string) {
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", prefix))
}

func mysqlEnviron(d *testbed.Database) reach {
	return func(proxies []*testbed.Proxy) []string {
		return environ("mysql", "DSN", proxies[0].Config(d.User).FormatDSN(), "MAX_TTL", greatestTTL.String())
	}
}

// otherThreshold is the time after which another program takes over a row of its table that was not renewed.
const otherThreshold = 3 * time.Second

// tableSite is a MariaDB with the table of other programs. Its clock is not stepped: they decide by it.
func tableSite(t testing.TB) *Site {
	s := testbed.Start(t, testbed.MariaDB, testbed.Options{})
	d := s.Database(t)
	makeTables(t, d, mysqltable.DefaultPrefix)
	d.Exec(t, "CREATE TABLE leader_election (name varchar(128) PRIMARY KEY, node varchar(128) NOT NULL, last_seen_active timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)")
	how := func(proxies []*testbed.Proxy) []string {
		return environ("mysqltable", "DSN", proxies[0].Config(d.User).FormatDSN(), "MAX_TTL", greatestTTL.String(),
			"LAYOUT", "last_seen_active", "THRESHOLD", otherThreshold.String())
	}
	return newSite(t, "mysqltable", otherThreshold+2*time.Second, []string{s.Addr()}, how, serverFaults(s.Daemon), sqlFaults(s, d))
}

func postgresSite(t testing.TB) *Site {
	server := testbed.StartPostgres(t, testbed.Options{})
	d := postgresDatabase(t, server)
	return newSite(t, "postgres", greatestTTL, []string{server.Addr()}, postgresEnviron(d),
		serverFaults(server.Daemon), postgresAdmin(server, d))
}

// postgresDatabase makes a database with the table.
func postgresDatabase(t testing.TB, server *testbed.PostgresServer) *testbed.PostgresDatabase {
	d := server.Database(t)
	b, err := postgres.Open(postgres.Options{DSN: d.DSN("")})
	testbed.NoError(t, err)
	defer b.Close()
	testbed.NoError(t, b.CreateTables(t.Context()))
	return d
}

func postgresEnviron(d *testbed.PostgresDatabase) reach {
	return func(proxies []*testbed.Proxy) []string {
		return environ("postgres", "DSN", d.DSN(proxies[0].Addr()), "MAX_TTL", greatestTTL.String())
	}
}

func redisSite(t testing.TB) *Site {
	server, prefix := testbed.StartRedis(t, testbed.Options{}), rand.Text()
	return newSite(t, "redis", greatestTTL, []string{server.Addr()}, redisEnviron(prefix),
		serverFaults(server.Daemon), redisAdmin(server))
}

func redisEnviron(prefix string, more ...string) reach {
	return func(proxies []*testbed.Proxy) []string {
		return environ("redis", append([]string{"ADDRESSES", proxies[0].Addr(), "PREFIX", prefix, "MAX_TTL", greatestTTL.String()}, more...)...)
	}
}

func etcdSite(t testing.TB) *Site {
	n, prefix := testbed.StartEtcd(t, testbed.Options{}), rand.Text()+"/"
	return newSite(t, "etcd", time.Second, []string{n.Addr()}, etcdEnviron(prefix), serverFaults(n))
}

func etcdEnviron(prefix string) reach {
	return func(proxies []*testbed.Proxy) []string {
		return environ("etcd", "ENDPOINTS", urls(proxies, "http://"), "PREFIX", prefix)
	}
}

// s3Site is a versitygw. Members find their credentials in the environment.
func s3Site(t testing.TB) *Site {
	n, prefix := testbed.StartS3(t, testbed.Options{}), rand.Text()+"/"
	how := func(proxies []*testbed.Proxy) []string {
		return environ("s3", "BUCKET", testbed.S3Bucket, "PREFIX", prefix, "REGION", "us-east-1", "ENDPOINT", urls(proxies, "http://"), "PATH_STYLE", "true")
	}
	return newSite(t, "s3", time.Second, []string{n.Addr()}, how, serverFaults(n))
}

func consulSite(t testing.TB) *Site {
	a, prefix := testbed.StartConsul(t, testbed.Options{}), rand.Text()
	return newSite(t, "consul", ttl+2*time.Second, []string{a.Addr()}, consulEnviron(prefix), serverFaults(a))
}

func consulEnviron(prefix string) reach {
	return func(proxies []*testbed.Proxy) []string {
		return environ("consul", "ADDRESS", urls(proxies, "http://"), "PREFIX", prefix)
	}
}

func zooKeeperSite(t testing.TB, backend string, how func(root string) reach) *Site {
	z := testbed.StartZooKeeper(t, testbed.Options{Clock: true})
	return newSite(t, backend, ttl, []string{z.Addr()}, how("/"+rand.Text()), serverFaults(z), clockFaults(z))
}

func zooKeeperEnviron(root string) reach {
	return func(proxies []*testbed.Proxy) []string {
		return environ("zookeeper", "SERVERS", urls(proxies, ""), "ROOT", root)
	}
}

func curatorEnviron(root string) reach {
	return func(proxies []*testbed.Proxy) []string {
		return environ("curator", "SERVERS", urls(proxies, ""), "ROOT", root, "TICK", testbed.ZooKeeperTick.String(), "SESSION", "8s")
	}
}
