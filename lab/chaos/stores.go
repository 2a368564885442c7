//go:build linux

package chaos

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/lab/testbed"
)

// Sites are all stores, by their names in the table. Each starts its own servers, which
// end with the test.
var Sites = map[string]func(t testing.TB) *Site{
	"file":             fileSite,
	"manual":           manualSite,
	"migration":        migrationSite,
	"mysqltable":       tableSite,
	"mysql on MariaDB": func(t testing.TB) *Site { return mysqlSite(t, testbed.MariaDB) },
	"mysql on MySQL":   func(t testing.TB) *Site { return mysqlSite(t, testbed.MySQL) },
	"postgres":         postgresSite,
	"postgres pooled":  pooledSite,
	"redis":            redisSite,
	"etcd":             etcdSite,
	"s3":               s3Site,
	"consul":           consulSite,
	"kubernetes":       kubernetesSite,
	"curator":          func(t testing.TB) *Site { return zooKeeperSite(t, "curator", curatorEnviron, curatorAdmin) },
	"zookeeper":        func(t testing.TB) *Site { return zooKeeperSite(t, "zookeeper", zooKeeperEnviron, zooKeeperAdmin) },

	"mysql on MariaDB guarded": func(t testing.TB) *Site { return guarded(mysqlSite(t, testbed.MariaDB)) },
	"postgres guarded":         func(t testing.TB) *Site { return guarded(postgresSite(t)) },
	"redis guarded":            func(t testing.TB) *Site { return guarded(redisSite(t)) },
	"etcd guarded":             func(t testing.TB) *Site { return guarded(etcdSite(t)) },
	"s3 guarded":               func(t testing.TB) *Site { return guarded(s3Site(t)) },
	"consul guarded":           func(t testing.TB) *Site { return guarded(consulSite(t)) },
	"kubernetes guarded":       func(t testing.TB) *Site { return guarded(kubernetesSite(t)) },
	"zookeeper guarded": func(t testing.TB) *Site {
		return guarded(zooKeeperSite(t, "zookeeper", zooKeeperEnviron, zooKeeperAdmin))
	},

	"mysql on MariaDB x2": func(t testing.TB) *Site { return pairSite(t, testbed.MariaDB) },
	"mysql on MySQL x2":   func(t testing.TB) *Site { return pairSite(t, testbed.MySQL) },
	"postgres x2":         postgresPair,
	"redis x2":            redisPair,
	"redis x2 waits":      redisWaits,
	"etcd x3":             etcdEnsemble,
	"consul x3":           consulEnsemble,
	"curator x3":          func(t testing.TB) *Site { return zooKeeperEnsemble(t, "curator", curatorEnviron) },
	"zookeeper x3":        func(t testing.TB) *Site { return zooKeeperEnsemble(t, "zookeeper", zooKeeperEnviron) },
}

const ttl = 2 * time.Second

// bound is the most from a heal to the next leader: the TTL of the current lease, the
// store's takeover time, one reading and one call, and one more call.
func bound(takeover time.Duration) time.Duration { return ttl + takeover + ttl/3 + 2*ttl/4 }

func join(all ...map[string]fault) map[string]fault {
	joined := map[string]fault{Mixed: nil}
	for _, m := range all {
		for name, f := range m {
			joined[name] = f
		}
	}
	return joined
}

// fileSite is a directory. A stopped leader keeps its pipe open, so no member takes over.
func fileSite(t testing.TB) *Site {
	dir := filepath.Join(testbed.TempDir(t), "election")
	// Nobody leads for the greatest TTL after a deletion, which here is the TTL of all.
	env := environ("file", "DIR", dir, "MAX_TTL", ttl.String())
	remove := func(name, pattern string) fault {
		return func(r *run) {
			names, _ := filepath.Glob(filepath.Join(dir, pattern))
			if len(names) > 0 { // otherwise it has not been made again
				path := names[r.IntN(len(names))]
				r.inject(name, filepath.Base(path), byEnd, func() { os.Remove(path) })
			}
			r.wait(r.TTL/2, r.TTL)
		}
	}
	return &Site{Backend: "file", TTL: ttl, Bound: bound(0), environ: func(int) []string { return env },
		faults: join(processFaults(), map[string]fault{
			"lock deleted":   remove("lock deleted", "*.alive"), // the leader goes on; its death is not proven any more
			"leases deleted": remove("leases deleted", "leases-*.json"),
		})}
}

// manualSite has one configured leader. No other member ever leads, so only faults of
// processes apply.
func manualSite(t testing.TB) *Site {
	env := environ("manual", "LEADER", "b", "DIR", filepath.Join(testbed.TempDir(t), "election"))
	return &Site{Backend: "manual", TTL: ttl, Bound: bound(0), environ: func(int) []string { return env }, faults: join(processFaults())}
}

// proxiesFor puts a proxy between each member and each server.
func proxiesFor(t testing.TB, addrs ...string) [][]*testbed.Proxy {
	proxies := make([][]*testbed.Proxy, members)
	for i := range proxies {
		for _, addr := range addrs {
			proxies[i] = append(proxies[i], testbed.NewProxy(t, addr))
		}
	}
	return proxies
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
	s := testbed.Start(t, testbed.Options{Kind: k, Clock: true})
	d := s.Database(t)
	makeTables(t, d)
	site := &Site{Backend: "mysql on " + string(k), TTL: ttl, Bound: bound(greatestTTL), takesOver: true, proxies: proxiesFor(t, s.Addr())}
	site.environ = func(i int) []string {
		return environ("mysql", "DSN", site.proxies[i][0].Config(d.User).FormatDSN(), "MAX_TTL", greatestTTL.String())
	}
	site.faults = join(processFaults(), networkFaults(), serverFaults(s), sqlFaults(s, d), clockFaults(s))
	addSlowDisk(t, site, s)
	return site
}

func makeTables(t testing.TB, d *testbed.Database) {
	if err := mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", ""); err != nil {
		t.Fatal(err)
	}
}

// addSlowDisk adds the fault if strace is installed.
func addSlowDisk(t testing.TB, site *Site, s server) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Log("NO SLOW FSYNC: strace is missing: run \"make deps\"")
		return
	}
	site.faults["slow fsync"] = slowDisk(s)
}

func postgresSite(t testing.TB) *Site {
	server := testbed.StartPostgres(t, testbed.PostgresOptions{})
	d := postgresDatabase(t, server)
	site := postgresSiteOn(t, "postgres", server.Addr(), d)
	site.faults = join(processFaults(), networkFaults(), serverFaults(server), postgresAdmin(server, d))
	return site
}

// postgresDatabase makes a database with the table.
func postgresDatabase(t testing.TB, server *testbed.PostgresServer) *testbed.PostgresDatabase {
	d := server.Database(t)
	b, err := postgres.Open(postgres.Options{DSN: d.DSN("")})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.CreateTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func postgresSiteOn(t testing.TB, name, addr string, d *testbed.PostgresDatabase) *Site {
	site := &Site{Backend: name, TTL: ttl, Bound: bound(greatestTTL), takesOver: true, proxies: proxiesFor(t, addr)}
	site.environ = func(i int) []string {
		return environ("postgres", "DSN", d.DSN(site.proxies[i][0].Addr()), "MAX_TTL", greatestTTL.String())
	}
	return site
}

func redisSite(t testing.TB) *Site {
	server := testbed.StartRedis(t, testbed.RedisOptions{})
	site, prefix := redisSiteOn(t, "redis", server)
	site.faults = join(processFaults(), networkFaults(), serverFaults(server), redisAdmin(server, prefix))
	return site
}

func redisSiteOn(t testing.TB, name string, server *testbed.RedisServer, more ...string) (site *Site, prefix string) {
	site, prefix = &Site{Backend: name, TTL: ttl, Bound: bound(greatestTTL), takesOver: true, proxies: proxiesFor(t, server.Addr())}, rand.Text()
	site.environ = func(i int) []string {
		return environ("redis", append([]string{"ADDRESSES", site.proxies[i][0].Addr(), "PREFIX", prefix, "MAX_TTL", greatestTTL.String()}, more...)...)
	}
	return site, prefix
}

func etcdSite(t testing.TB) *Site {
	n := testbed.StartEtcd(t, testbed.EtcdOptions{})
	site := &Site{Backend: "etcd", TTL: ttl, Bound: bound(time.Second), takesOver: true, proxies: proxiesFor(t, n.Addr())}
	prefix := rand.Text() + "/"
	site.environ = func(i int) []string {
		return environ("etcd", "ENDPOINTS", urls(site.proxies[i], "http://"), "PREFIX", prefix)
	}
	site.faults = join(processFaults(), networkFaults(), serverFaults(n), etcdAdmin(n.URL(), prefix))
	addSlowDisk(t, site, n)
	return site
}

// s3Site is a versitygw. Members find their credentials in the environment.
func s3Site(t testing.TB) *Site {
	n := testbed.StartS3(t, testbed.S3Options{})
	site := &Site{Backend: "s3", TTL: ttl, Bound: bound(time.Second), takesOver: true, proxies: proxiesFor(t, n.Addr())}
	prefix := rand.Text() + "/"
	site.environ = func(i int) []string {
		return environ("s3", "BUCKET", testbed.S3Bucket, "PREFIX", prefix, "REGION", "us-east-1",
			"ENDPOINT", "http://"+site.proxies[i][0].Addr(), "PATH_STYLE", "true")
	}
	site.faults = join(processFaults(), networkFaults(), serverFaults(n))
	return site
}

func consulSite(t testing.TB) *Site {
	a := testbed.StartConsul(t, testbed.ConsulOptions{})
	site := &Site{Backend: "consul", TTL: ttl, Bound: bound(ttl + 2*time.Second), takesOver: true, proxies: proxiesFor(t, a.Addr())}
	prefix := rand.Text()
	site.environ = func(i int) []string {
		return environ("consul", "ADDRESS", urls(site.proxies[i], "http://"), "PREFIX", prefix)
	}
	site.faults = join(processFaults(), networkFaults(), serverFaults(a), consulAdmin(a.URL(), prefix))
	addSlowDisk(t, site, a)
	return site
}

func zooKeeperSite(t testing.TB, backend string, environ func(proxies []*testbed.Proxy, root string) []string, admin func(addr, root string) map[string]fault) *Site {
	z := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{Clock: true})
	site := &Site{Backend: backend, TTL: ttl, Bound: bound(ttl), takesOver: true, proxies: proxiesFor(t, z.Addr())}
	root := "/" + rand.Text()
	site.environ = func(i int) []string { return environ(site.proxies[i], root) }
	// The testbed turns off syncs of the transaction log, so there is no slow fsync.
	site.faults = join(processFaults(), networkFaults(), serverFaults(z), admin(z.Addr(), root), clockFaults(z))
	return site
}

func zooKeeperEnviron(proxies []*testbed.Proxy, root string) []string {
	return environ("zookeeper", "SERVERS", urls(proxies, ""), "ROOT", root)
}

func curatorEnviron(proxies []*testbed.Proxy, root string) []string {
	return environ("curator", "SERVERS", urls(proxies, ""), "ROOT", root, "TICK", testbed.ZooKeeperTick.String(), "SESSION", "8s")
}
