package migration_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/curator"
	"github.com/go-election/go-election/backend/etcd"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/backend/mysql"
	"github.com/go-election/go-election/backend/zookeeper"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// TestMain runs more tests at a time than there are processors, because the tests of this file mostly wait.
func TestMain(m *testing.M) {
	flag.Set("test.parallel", "16")
	os.Exit(m.Run())
}

// TestConformanceFromCuratorToMySQL runs the suite on real servers, in real time.
func TestConformanceFromCuratorToMySQL(t *testing.T) {
	t.Parallel()
	servers, maria := testbed.SharedZooKeeper(t), largeServer(t)
	runSuite(t, true, []migration.Stage{migration.Both, migration.To}, func(t testing.TB, stage migration.Stage) conformance.Store {
		from := curator.Options{ZooKeeper: zookeeper.Options{Servers: servers, Root: "/m" + string(backend.NewNonce()[:12])}, Tick: testbed.ZooKeeperTick, Session: 8500 * time.Millisecond}
		to, faults := faultyTables(t, maria)
		return conformance.Store{Faults: faults, Open: func(t testing.TB) backend.Backend {
			return road(t, migration.Options{From: must(curator.Open(from)), To: must(mysql.Open(to)), Stage: stage})
		}}
	})
}

// TestConformanceFromMySQLToEtcd does the same from MySQL to etcd, at the stage that uses both for all that they do.
func TestConformanceFromMySQLToEtcd(t *testing.T) {
	t.Parallel()
	endpoints, maria := testbed.SharedEtcd(t), largeServer(t)
	runSuite(t, false, []migration.Stage{migration.Both}, func(t testing.TB, stage migration.Stage) conformance.Store {
		from, faults := faultyTables(t, maria)
		delete(faults, conformance.FaultPlantRecord) // etcd names the leader
		to := etcd.Options{Endpoints: endpoints, Prefix: "m-" + string(backend.NewNonce()[:12]) + "/"}
		return conformance.Store{Faults: faults, Open: func(t testing.TB) backend.Backend {
			return road(t, migration.Options{From: must(mysql.Open(from)), To: must(etcd.Open(to)), Stage: stage})
		}}
	})
}

func must[B backend.Backend](b B, err error) backend.Backend {
	if err != nil {
		panic(err)
	}
	return b
}

// runSuite runs the suite at some stages, but for what takes long and is about managers. TestConformance tests all rules
// on pairs of stores in memory. knowsMembers is that of [conformance.Harness].
func runSuite(t *testing.T, knowsMembers bool, stages []migration.Stage, newStore func(t testing.TB, stage migration.Stage) conformance.Store) {
	for _, stage := range stages {
		t.Run("at "+string(stage), func(t *testing.T) {
			t.Parallel()
			conformance.Run(t, conformance.Harness{
				TTL: 2500 * time.Millisecond, Late: 3 * time.Second, KnowsMembers: knowsMembers, Short: true, Parallel: true,
				NewStore: func(t testing.TB) conformance.Store { return newStore(t, stage) },
				Only:     func(c conformance.Case) bool { return c.Rule != "L4" },
			})
		})
	}
}

// largeServer starts a server with enough connections for a suite that runs in parallel.
func largeServer(t testing.TB) *testbed.Database {
	return testbed.Start(t, testbed.MariaDB, testbed.Options{Args: []string{"--max-connections=2000"}}).Database(t)
}

// faultyTables makes tables for one case, behind a proxy that can be cut.
func faultyTables(t testing.TB, d *testbed.Database) (mysql.Options, map[string]conformance.Fault) {
	prefix := "m" + string(backend.NewNonce()[:16])
	proxy, admin := testbed.NewProxy(t, d.User.Addr), testbed.OpenDB(t, d.Admin)
	testbed.NoError(t, mysql.CreateTables(t.Context(), admin, "", prefix))
	faults := testbed.LineFaults(proxy)
	faults[conformance.FaultDeleteRecord] = func(_ bool, election string) error {
		_, err := admin.Exec("DELETE FROM "+prefix+"_item WHERE kind = 'record' AND name = ?", []byte(election))
		return err
	}
	faults[conformance.FaultPlantRecord] = func(_ bool, election string) error {
		_, err := admin.Exec("UPDATE "+prefix+"_item SET value = JSON_SET(value, ?, ?, ?, ?, ?, ?) WHERE kind = 'record' AND name = ?",
			"$.id", "<script>\x1b]0;\u202e", "$.address", "javascript:alert(1)\n", "$.metadata", "\x00\x1b[2J", []byte(election))
		return err
	}
	return mysql.Options{Config: proxy.Config(d.User), Prefix: prefix}, faults
}
