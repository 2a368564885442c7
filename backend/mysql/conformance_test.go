package mysql

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/leasetest"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// TestDriver runs what every driver must pass.
func TestDriver(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		server := testbed.Shared(t, k)
		var l *lab
		leasetest.Run(t, leasetest.Harness{
			NewStore: func(t testing.TB) func(testing.TB) lease.Driver {
				l = newLab(t, server)
				return func(t testing.TB) lease.Driver { return open(t, Options{Config: l.User}) }
			},
			RollBack: func(k lease.Key) {
				tx, err := l.admin.Begin()
				if err == nil {
					_, err = tx.Exec("UPDATE election_item SET value = CONCAT(value, ' ') WHERE kind = ? AND name = ?", k.Kind, k.Name)
					err = errors.Join(err, tx.Rollback())
				}
				if err != nil {
					t.Error(err)
				}
			},
		})
	})
}

// TestConformance runs the suite on real servers in bubbles of testing/synctest: hours pass in moments, and the server's
// clock follows. Time stands still while a reply is on its way, so that this test listens to nobody.
func TestConformance(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		l := newLab(t, testbed.Shared(t, k))
		conformance.Run(t, conformance.Harness{
			Virtual: true, Short: true, Parallel: true,
			NewStore: func(t testing.TB) conformance.Store {
				return newStore(t, l, func(o Options) Options {
					o.DB, o.Schema, o.Poll, o.MaxTTL = drivertest.Virtual(t, l.User), l.Name, true, 0
					return o
				})
			},
		})
	})
}

// TestConformanceInRealTime runs the suite in real time, with notifications and leases of two seconds.
func TestConformanceInRealTime(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		server := testbed.Shared(t, k)
		l := newLab(t, server)
		conformance.Run(t, realTime(func(t testing.TB) conformance.Store { return newProxied(t, server, l) }))
	})
}

// TestConformanceUnderServerFaults runs the cases that kill and stop a server of their own.
func TestConformanceUnderServerFaults(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		h := realTime(func(t testing.TB) conformance.Store {
			server := testbed.Start(t, k, testbed.Options{})
			store := newProxied(t, server, newLab(t, server))
			maps.Copy(store.Faults, testbed.ServerFaults(t, server))
			return store
		})
		h.Only = func(c conformance.Case) bool { return c.OwnServer() && c.Fault != conformance.FaultFailover }
		h.Parallel = false // each case starts servers, and is about time
		conformance.Run(t, h)
	})
}

// TestConformanceThroughAFailover runs the cases that a failover interrupts: the primary is killed and its replica promoted,
// behind the same address, first without the last writes and then with all of them.
func TestConformanceThroughAFailover(t *testing.T) {
	t.Parallel()
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		h := realTime(func(t testing.TB) conformance.Store { return newReplicated(t, k) })
		h.Only = func(c conformance.Case) bool { return c.Fault == conformance.FaultFailover }
		h.Parallel = false
		conformance.Run(t, h)
	})
}

// realTime describes a server in real time to the suite.
func realTime(newStore func(t testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{TTL: 2 * time.Second, Late: time.Second, Short: true, Parallel: true, NewStore: newStore}
}

const greatestTTL = 5 * time.Second

// newProxied makes a store on a server, behind a proxy.
func newProxied(t testing.TB, server *testbed.Server, l *lab) conformance.Store {
	proxy := server.Proxy(t)
	config := proxy.Config(l.User)
	store := newStore(t, l, func(o Options) Options {
		o.Config = config
		return o
	})
	maps.Copy(store.Faults, testbed.LineFaults(proxy))
	return store
}

// newStore makes a store with a new table for one case.
func newStore(t testing.TB, l *lab, options func(Options) Options) conformance.Store {
	l = &lab{l.Database, l.kind, testbed.OpenDB(t, l.Admin)} // of the case's own bubble
	o := Options{Prefix: "c" + string(backend.NewNonce()[:16]), MaxTTL: greatestTTL}
	l.withTable(t, o.Prefix)
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := Open(options(o))
			testbed.NoError(t, err)
			return b
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				_, err := l.admin.Exec("DELETE FROM "+o.Prefix+"_item WHERE kind = 'record' AND name = ?", []byte(election))
				return err
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error { return l.plant(o.Prefix, election) },
		},
	}
}

// plant overwrites the record with hostile text as the holder.
func (l *lab) plant(prefix, election string) error {
	text := "<script>\x1b]0;\u202e"
	_, err := l.admin.Exec("UPDATE "+prefix+"_item SET value = JSON_SET(value, '$.id', ?, '$.nonce', ?, '$.address', ?, '$.metadata', ?) WHERE kind = 'record' AND name = ?",
		text, text, "javascript:alert(1)\n", "\x00\x1b[2J", []byte(election))
	return err
}

// newReplicated makes a store on a primary with a replica, behind a proxy that leads to the primary.
func newReplicated(t testing.TB, k testbed.Kind) conformance.Store {
	primary := testbed.StartPrimary(t, k, testbed.Options{Args: []string{"--sync-binlog=1"}})
	l, proxy := newLab(t, primary), primary.Proxy(t)
	config := proxy.Config(l.User)
	store := newStore(t, l, func(o Options) Options {
		o.Config = config
		return o
	})
	store.Faults = map[string]conformance.Fault{
		conformance.FaultFailover: drivertest.Failovers(t, proxy, primary, true, testbed.StartReplica),
	}
	return store
}
