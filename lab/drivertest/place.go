package drivertest

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/internal/client"
	"github.com/go-election/go-election/lab/testbed"
)

// Elsewhere returns a store on one server whose clients can be led to another one. open opens a client at an
// address. makeCopy copies what is here, once: when the first client is led there.
func Elsewhere(
	here, other *testbed.Daemon, open func(t testing.TB, addr string) backend.Backend, makeCopy func() error,
) conformance.Store {
	var proxies sync.Map // of *testbed.Proxy, by backend.Backend
	var copied sync.Once
	return conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			proxy := here.Proxy(t)
			b := open(t, proxy.Addr())
			proxies.Store(b, proxy)
			return b
		},
		Elsewhere: func(b backend.Backend, on bool) (err error) {
			copied.Do(func() { err = makeCopy() })
			target := here
			if on {
				target = other
			}
			proxy, _ := proxies.Load(b)
			proxy.(*testbed.Proxy).SetTarget(target.Addr())
			proxy.(*testbed.Proxy).Reset()
			return err
		},
		Faults: map[string]conformance.Fault{},
	}
}

// IsElsewhere selects the cases in which another store answers: see [conformance.Harness].Only.
func IsElsewhere(c conformance.Case) bool {
	return strings.Contains(c.Name, " led to ") || strings.HasPrefix(c.Name, "another store ")
}

// TakeAll makes a driver have n connections.
func TakeAll[C any](t testing.TB, pool *client.Pool[C], n int) {
	t.Helper()
	var all []*client.Conn[C]
	for range n {
		c, err := pool.Take(t.Context(), true)
		testbed.NoError(t, err)
		all = append(all, c)
	}
	for _, c := range all {
		pool.Give(c, false)
	}
}

// NotInTurns reads several times: the server changes once.
func NotInTurns(t testing.TB, d lease.Driver, before string) {
	t.Helper()
	changes, last := 0, before
	for range 6 {
		v, err := d.Read(t.Context(), nil)
		if errors.Is(err, backend.ErrDenied) {
			t.Fatal(err) // they take turns
		}
		if err == nil && v.Epoch != last {
			changes, last = changes+1, v.Epoch
		}
	}
	if changes != 1 || last == before {
		t.Errorf("the answers came from one server and the other: %d changes", changes)
	}
}

// A Replicated server is a primary, or a replica that can be promoted.
type Replicated[S any] interface {
	Addr() string
	Kill(t testing.TB)
	CatchUp(t testing.TB, primary S) // the replica has all that the primary has written
	StopReplication(t testing.TB)    // the replica gets no further writes
	Promote(t testing.TB)            // the replica is a primary
}

// Failovers is the fault of a suite that kills a primary and promotes its replica, behind a proxy that leads
// to the primary. If loses is set, the replica lacks the last writes at each second failover. follow starts a
// replica.
func Failovers[S Replicated[S]](
	t testing.TB, proxy *testbed.Proxy, primary S, loses bool, follow func(t testing.TB, primary S) S,
) conformance.Fault {
	replica, failovers := follow(t, primary), 0
	return func(bool, string) error {
		replica.CatchUp(t, primary)
		if loses && failovers%2 == 0 {
			replica.StopReplication(t)
			<-time.After(time.Second) // renewals that the replica will never see
		}
		failovers++
		primary.Kill(t)
		replica.Promote(t)
		proxy.SetTarget(replica.Addr())
		proxy.Reset()
		primary = replica
		replica = follow(t, primary)
		return nil
	}
}
