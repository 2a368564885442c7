package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/internal/testbed"
)

// TestConformance runs the suite on real servers in bubbles of testing/synctest: hours pass in
// moments, and the server's clock follows. Time stands still while a reply is on its way, so
// that this test uses no notification locks.
func TestConformance(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		d := testbed.Shared(t, k).Database(t)
		conformance.Run(t, conformance.Harness{
			Virtual: true, Short: true,
			NewStore: func(t testing.TB) conformance.Store {
				return newStore(t, d, func(prefix string) Options {
					config := d.User.Clone()
					config.InterpolateParams = true
					connector, err := mysql.NewConnector(config)
					if err != nil {
						t.Fatal(err)
					}
					return Options{Connector: testbed.Virtual(connector), Prefix: prefix, NotifyConns: -1}
				})
			},
		})
	})
}

// TestConformanceInRealTime runs the suite in real time, with notification locks and leases of
// two seconds.
func TestConformanceInRealTime(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		server := testbed.Shared(t, k)
		d := server.Database(t)
		conformance.Run(t, realTime(func(t testing.TB) conformance.Store { return newProxied(t, server, d) }))
	})
}

// TestConformanceUnderServerFaults runs the cases that kill and stop a server of their
// own.
func TestConformanceUnderServerFaults(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		h := realTime(func(t testing.TB) conformance.Store { return newWithFaults(t, k) })
		h.Only = func(c conformance.Case) bool { return c.OwnServer() && c.Fault != conformance.FaultFailover }
		conformance.Run(t, h)
	})
}

// realTime describes a server in real time to the suite.
func realTime(newStore func(t testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{TTL: 2 * time.Second, GreatestTTL: maxTTL, Late: time.Second, Short: true, Parallel: true, NewStore: newStore}
}

// newProxied makes a store on a server, behind a proxy.
func newProxied(t testing.TB, server *testbed.Server, d *testbed.Database) conformance.Store {
	proxy := server.Proxy(t)
	config := proxy.Config(d.User)
	store := newStore(t, d, func(prefix string) Options { return Options{Config: config, Prefix: prefix} })
	maps.Copy(store.Faults, testbed.LineFaults(proxy))
	return store
}

// newWithFaults makes a store on a server of its own.
func newWithFaults(t testing.TB, k testbed.Kind) conformance.Store {
	server := testbed.Start(t, testbed.Options{Kind: k})
	store := newProxied(t, server, server.Database(t))
	maps.Copy(store.Faults, testbed.ServerFaults(t, server))
	return store
}

// newStore makes a store with new tables for one case.
func newStore(t testing.TB, d *testbed.Database, options func(prefix string) Options) conformance.Store {
	prefix := "c" + string(backend.NewNonce()[:16])
	admin, err := sql.Open("mysql", d.Admin.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, table := range []string{"lease", "term", "member"} {
			admin.Exec("DROP TABLE IF EXISTS " + prefix + "_" + table)
		}
		admin.Close()
	})
	if err := CreateTables(context.Background(), admin, "", prefix); err != nil {
		t.Fatal(err)
	}
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := Open(options(prefix))
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				_, err := admin.Exec(fmt.Sprintf("DELETE FROM %s_lease WHERE name = ?", prefix), []byte(election))
				return err
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				_, err := admin.Exec(fmt.Sprintf("UPDATE %s_lease SET holder = ?, address = ?, metadata = ?, heartbeat = heartbeat + 2 WHERE name = ?", prefix),
					[]byte("<script>\x1b]0;\u202e\xff"), []byte("javascript:alert(1)\n"), []byte("\x00\x1b[2J"), []byte(election))
				return err
			},
		},
	}
}
