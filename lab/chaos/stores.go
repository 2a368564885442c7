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

// Sites are all stores, by their names in the table. Each starts servers that end with the test.
var Sites = map[string]func(t testing.TB) *Site{
	"file":             func(t testing.TB) *Site { return localSite(t, "file", "MAX_TTL", ttl.String()) },
	"manual":           func(t testing.TB) *Site { return localSite(t, "manual", "LEADER", "b") },
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
	"curator":          func(t testing.TB) *Site { return zooKeeperSite(t, "curator", curatorEnviron()) },
	"zookeeper":        func(t testing.TB) *Site { return zooKeeperSite(t, "zookeeper", zooKeeperEnviron()) },

	"mysql on MariaDB x2": func(t testing.TB) *Site { return pairSite(t, testbed.MariaDB) },
	"mysql on MySQL x2":   func(t testing.TB) *Site { return pairSite(t, testbed.MySQL) },
	"postgres x2":         postgresPair,
	"redis x2":            redisPair,
	"redis x2 waits":      redisWaits,
	"etcd x3":             etcdEnsemble,
	"consul x3":           consulEnsemble,
	"curator x3":          func(t testing.TB) *Site { return zooKeepers(t, "curator", curatorEnviron()) },
	"zookeeper x3":        func(t testing.TB) *Site { return zooKeepers(t, "zookeeper", zooKeeperEnviron()) },
}

const ttl = 2 * time.Second

// bound is the most from a heal to the next leader: the TTL of the current lease, the
// store's takeover time, one reading and one call, and one more call.
func bound(takeover time.Duration) time.Duration { return ttl + takeover + ttl/3 + 2*ttl/4 }

// with adds faults to a site.
func (s *Site) with(faults ...map[string]fault) *Site {
	for _, m := range faults {
		maps.Copy(s.faults, m)
	}
	return s
}

// reach says how members reach a store: the configuration of one that has these connections.
type reach func(proxies []*testbed.Proxy) []string

// at is the configuration of a backend that has the addresses of its servers under this key, and these pairs.
func at(backend, key, scheme string, pairs ...string) reach {
	return func(proxies []*testbed.Proxy) []string {
		var list []string
		for _, p := range proxies {
			list = append(list, scheme+p.Addr())
		}
		return environ(backend, append([]string{key, strings.Join(list, ",")}, pairs...)...)
	}
}

// newSite is a store with servers at these addresses, each of which members reach by proxies. takeover is
// what [bound] says. Its members and their network have faults; those of its servers are added.
func newSite(t testing.TB, name string, takeover time.Duration, how reach, addrs ...string) *Site {
	s := &Site{Backend: name, Bound: bound(takeover), takesOver: true, faults: map[string]fault{Mixed: nil}}
	for i := range members {
		s.proxies = append(s.proxies, nil)
		for _, addr := range addrs {
			s.proxies[i] = append(s.proxies[i], testbed.NewProxy(t, addr))
		}
	}
	s.environ = func(i int) []string { return how(s.proxies[i]) }
	return s.with(processFaults(), networkFaults())
}

// localSite is a directory, which has only faults of processes. No member takes over from a stopped leader:
// of file, because it keeps its pipe open; of manual, because no other one ever leads.
func localSite(t testing.TB, backend, key, value string) *Site {
	env := environ(backend, "DIR", filepath.Join(testbed.TempDir(t), "election"), key, value)
	s := &Site{Backend: backend, Bound: bound(0), faults: map[string]fault{Mixed: nil}}
	s.environ = func(int) []string { return env }
	return s.with(processFaults())
}

// greatestTTL is how long a follower observes a row on a server that may have lost writes.
const greatestTTL = 3 * time.Second

func mysqlSite(t testing.TB, k testbed.Kind) *Site {
	s := testbed.Start(t, k, testbed.Options{Clock: true})
	d := s.Database(t)
	makeTables(t, d, "")
	site := newSite(t, "mysql on "+string(k), greatestTTL, mysqlEnviron("mysql", d), s.Addr())
	return site.with(serverFaults(s.Daemon), sqlFaults(s, d), clockFaults(s.Daemon))
}

func makeTables(t testing.TB, d *testbed.Database, prefix string) {
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, d.Admin), "", prefix))
}

func mysqlEnviron(backend string, d *testbed.Database, pairs ...string) reach {
	return func(proxies []*testbed.Proxy) []string {
		dsn := proxies[0].Config(d.User).FormatDSN()
		return environ(backend, append([]string{"DSN", dsn, "MAX_TTL", greatestTTL.String()}, pairs...)...)
	}
}

// tableSite is a MariaDB with the table of other programs. Its clock is not stepped: they decide by it.
func tableSite(t testing.TB) *Site {
	s := testbed.Start(t, testbed.MariaDB, testbed.Options{})
	d := s.Database(t)
	makeTables(t, d, mysqltable.DefaultPrefix)
	d.Exec(t, "CREATE TABLE leader_election (name varchar(128) PRIMARY KEY, node varchar(128) NOT NULL, "+
		"last_seen_active timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)")
	const threshold = 3 * time.Second // after which another program takes over a row that was not renewed
	how := mysqlEnviron("mysqltable", d, "LAYOUT", "last_seen_active", "THRESHOLD", threshold.String())
	site := newSite(t, "mysqltable", threshold+2*time.Second, how, s.Addr())
	return site.with(serverFaults(s.Daemon), sqlFaults(s, d))
}

func postgresSite(t testing.TB) *Site {
	server := testbed.StartPostgres(t, testbed.Options{})
	d := postgresDatabase(t, server)
	site := newSite(t, "postgres", greatestTTL, postgresEnviron(d), server.Addr())
	return site.with(serverFaults(server.Daemon), postgresAdmin(server, d))
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
	server := testbed.StartRedis(t, testbed.Options{})
	site := newSite(t, "redis", greatestTTL, redisEnviron(), server.Addr())
	return site.with(serverFaults(server.Daemon), map[string]fault{
		"connections closed": closing(server.Addr(), func(r *run) {
			server.Do(r, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}),
	})
}

func redisEnviron(pairs ...string) reach {
	pairs = append(pairs, "PREFIX", rand.Text(), "MAX_TTL", greatestTTL.String())
	return at("redis", "ADDRESSES", "", pairs...)
}

func etcdSite(t testing.TB) *Site {
	n := testbed.StartEtcd(t, testbed.Options{})
	return newSite(t, "etcd", time.Second, etcdEnviron(), n.Addr()).with(serverFaults(n))
}

func etcdEnviron() reach { return at("etcd", "ENDPOINTS", "http://", "PREFIX", rand.Text()+"/") }

// s3Site is a versitygw. Members find their credentials in the environment.
func s3Site(t testing.TB) *Site {
	n := testbed.StartS3(t, testbed.Options{})
	how := at("s3", "ENDPOINT", "http://", "BUCKET", testbed.S3Bucket, "PREFIX", rand.Text()+"/",
		"REGION", "us-east-1", "PATH_STYLE", "true")
	return newSite(t, "s3", time.Second, how, n.Addr()).with(serverFaults(n))
}

func consulSite(t testing.TB) *Site {
	a := testbed.StartConsul(t, testbed.Options{})
	return newSite(t, "consul", ttl+2*time.Second, consulEnviron(), a.Addr()).with(serverFaults(a))
}

func consulEnviron() reach { return at("consul", "ADDRESS", "http://", "PREFIX", rand.Text()) }

func zooKeeperSite(t testing.TB, backend string, how reach) *Site {
	z := testbed.StartZooKeeper(t, testbed.Options{Clock: true})
	return newSite(t, backend, ttl, how, z.Addr()).with(serverFaults(z), clockFaults(z))
}

func zooKeeperEnviron() reach { return at("zookeeper", "SERVERS", "", "ROOT", "/"+rand.Text()) }

func curatorEnviron() reach {
	tick := testbed.ZooKeeperTick.String()
	return at("curator", "SERVERS", "", "ROOT", "/"+rand.Text(), "TICK", tick, "SESSION", "8s")
}
