package connections

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/consul"
	"github.com/go-election/go-election/backend/curator"
	"github.com/go-election/go-election/backend/etcd"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/mysqltable"
	"github.com/go-election/go-election/backend/postgres"
	"github.com/go-election/go-election/backend/redis"
	"github.com/go-election/go-election/backend/s3"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute

// A store is a server, and how a backend reaches it at an address.
type store struct {
	addr string
	open func(addr string) (backend.Backend, error)
}

// stores start a server of each kind.
var stores = map[string]func(t *testing.T) store{
	"mysql": func(t *testing.T) store {
		db := startMySQL(t)
		return store{db.User.Addr, func(addr string) (backend.Backend, error) {
			return mysql.Open(mysql.Options{Config: at(db.User, addr)})
		}}
	},
	"mysqltable": func(t *testing.T) store {
		db := startMySQL(t)
		admin := testbed.OpenDB(t, db.Admin)
		testbed.NoError(t, mysql.CreateTables(t.Context(), admin, "", mysqltable.DefaultPrefix))
		db.Exec(t, "CREATE TABLE leader_election (service_id varchar(128) PRIMARY KEY, leader_id varchar(128) NOT NULL, last_active_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)")
		return store{db.User.Addr, func(addr string) (backend.Backend, error) {
			return mysqltable.Open(mysqltable.Options{MySQL: mysql.Options{Config: at(db.User, addr)}, Layout: mysqltable.LastActiveTime, Threshold: 15 * time.Second})
		}}
	},
	"postgres": func(t *testing.T) store {
		server, db := startPostgres(t, testbed.Options{})
		return store{server.Addr(), func(addr string) (backend.Backend, error) {
			return postgres.Open(postgres.Options{DSN: db.DSN(addr)})
		}}
	},
	"redis": func(t *testing.T) store {
		server := testbed.StartRedis(t, testbed.Options{})
		return store{server.Addr(), func(addr string) (backend.Backend, error) {
			return redis.Open(redis.Options{Addresses: []string{addr}})
		}}
	},
	"zookeeper": func(t *testing.T) store {
		server := testbed.StartZooKeeper(t, testbed.Options{})
		return store{server.Addr(), func(addr string) (backend.Backend, error) {
			return zookeeper.Open(zookeeper.Options{Servers: []string{addr}})
		}}
	},
	"curator": func(t *testing.T) store {
		server := testbed.StartZooKeeper(t, testbed.Options{})
		return store{server.Addr(), func(addr string) (backend.Backend, error) {
			return curator.Open(curator.Options{ZooKeeper: zookeeper.Options{Servers: []string{addr}}})
		}}
	},
	"etcd": func(t *testing.T) store {
		server := testbed.StartEtcd(t, testbed.Options{})
		return store{server.Addr(), func(addr string) (backend.Backend, error) {
			return etcd.Open(etcd.Options{Endpoints: []string{addr}})
		}}
	},
	"consul": func(t *testing.T) store {
		server := testbed.StartConsul(t, testbed.Options{})
		return store{server.Addr(), func(addr string) (backend.Backend, error) {
			return consul.Open(consul.Options{Address: addr})
		}}
	},
	"s3": func(t *testing.T) store {
		withS3Keys(t)
		server := testbed.StartS3(t, testbed.Options{})
		return store{server.Addr(), func(addr string) (backend.Backend, error) {
			return s3.Open(s3.Options{Bucket: testbed.S3Bucket, Region: "us-east-1", Endpoint: "http://" + addr, PathStyle: true})
		}}
	},
}

// withS3Keys sets the keys of the testbed's stores, which all tests share.
func withS3Keys(t *testing.T) {
	testbed.NoError(t, os.Setenv("AWS_ACCESS_KEY_ID", testbed.S3AccessKey))
	testbed.NoError(t, os.Setenv("AWS_SECRET_ACCESS_KEY", testbed.S3SecretKey))
}

func startMySQL(t *testing.T) *testbed.Database {
	return withTable(t, testbed.Start(t, testbed.MariaDB, testbed.Options{}))
}

func withTable(t *testing.T, server *testbed.Server) *testbed.Database {
	db := server.Database(t)
	testbed.NoError(t, mysql.CreateTables(t.Context(), testbed.OpenDB(t, db.Admin), "", ""))
	return db
}

func startPostgres(t *testing.T, o testbed.Options) (*testbed.PostgresServer, *testbed.PostgresDatabase) {
	server := testbed.StartPostgres(t, o)
	db := server.Database(t)
	b, err := postgres.Open(postgres.Options{DSN: db.DSN("")})
	testbed.NoError(t, err)
	defer b.Close()
	testbed.NoError(t, b.CreateTables(t.Context()))
	return server, db
}

func at(c *driver.Config, addr string) *driver.Config {
	c = c.Clone()
	c.Net, c.Addr = "tcp", addr
	return c
}

func each(t *testing.T, f func(t *testing.T, s store)) {
	for name, start := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, start(t))
		})
	}
}

// join is drivertest.Join on a backend that was just opened, which it closes.
func join(t *testing.T, id string, ttl time.Duration, b backend.Backend, err error, names ...string) *election.Election {
	t.Helper()
	testbed.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return drivertest.Join(t, id, ttl, b, names...)
}

func lead(t *testing.T, e *election.Election) *election.Leadership {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := e.Campaign(ctx)
	if err != nil {
		t.Fatalf("%v; last known: %+v", err, e.Current())
	}
	return l
}

// A leader whose connections work leads on for as long as they do, though the server takes no new ones. Connections are
// replaced when they are old; the old one is not closed before.
func TestALeaderLeadsOnWhileItsServerTakesNoNewConnections(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s store) {
		proxy := testbed.NewProxy(t, s.addr)
		b, err := s.open(proxy.Addr())
		l := lead(t, join(t, "a", 6*time.Second, b, err))
		proxy.SetTarget("127.0.0.1:1") // nobody is there
		drivertest.KeepsLeading(t, l, 100*time.Second)
	})
}

// Nor does a moment without answers cost a connection, whether or not the call is still answered in time: a server that
// has no place for others is often slow.
func TestAServerThatIsSlowForAMomentCostsNoConnection(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s store) {
		proxy := testbed.NewProxy(t, s.addr)
		b, err := s.open(proxy.Addr())
		l := lead(t, join(t, "a", 8*time.Second, b, err))
		proxy.SetTarget("127.0.0.1:1")
		for _, slow := range slices.Repeat([]time.Duration{1200, 3000}, 2) { // a call has two seconds
			drivertest.KeepsLeading(t, l, 3*time.Second)
			proxy.Hold(true)
			drivertest.KeepsLeading(t, l, slow*time.Millisecond)
			proxy.Hold(false)
		}
		drivertest.KeepsLeading(t, l, 8*time.Second)
	})
}

// A name has several addresses, all but the last of which drop packets or hang. The dial goes on when its call has ended,
// and does not wait long for any of them. One that accepts connections and says nothing comes last the next time.
func TestANameWithADeadAddressIsReached(t *testing.T) {
	if !drivertest.InWorldOfManyAddresses(t) {
		return
	}
	each(t, func(t *testing.T, s store) {
		b, err := s.open(drivertest.AtManyAddresses(t, s.addr))
		l := lead(t, join(t, "a", 6*time.Second, b, err))
		drivertest.KeepsLeading(t, l, 5*time.Second)
	})
}

// A DSN of PostgreSQL has two hosts, the first of which drops packets. Its connections are replaced once a minute.
func TestALeaderLeadsOnThoughTheFirstHostOfItsDSNIsDead(t *testing.T) {
	if !drivertest.InWorldOfManyAddresses(t) {
		return
	}
	server, db := startPostgres(t, testbed.Options{})
	_, port, _ := strings.Cut(server.Addr(), ":")
	for what, hosts := range map[string]string{
		"two hosts":                          fmt.Sprintf("%s:%s,%s", drivertest.DeadAddress, port, server.Addr()),
		"a name with five addresses":         drivertest.AtManyAddresses(t, server.Addr()),
		"two hosts, with TLS if it is there": fmt.Sprintf("%s:%s,%s", drivertest.DeadAddress, port, server.Addr()),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dsn, prefix := db.DSN(hosts), "p"+string(backend.NewNonce()[:8])
			if strings.Contains(what, "TLS") {
				dsn = strings.ReplaceAll(dsn, "sslmode=disable", "sslmode=prefer")
			}
			b, err := postgres.Open(postgres.Options{DSN: dsn, Prefix: prefix})
			testbed.NoError(t, err)
			// The first attempt to connect may end at an address that hangs.
			testbed.Eventually(t, patience, "the tables", func() error { return b.CreateTables(t.Context()) })
			l := lead(t, join(t, "a", 3*time.Second, b, nil))
			drivertest.KeepsLeading(t, l, 80*time.Second)
		})
	}
}
