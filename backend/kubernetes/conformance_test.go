package kubernetes

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

func harness(newStore func(t testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{TTL: 2 * time.Second, Late: 1500 * time.Millisecond, Short: true, Parallel: true, NewStore: newStore}
}

// TestConformance runs the suite on one API server.
func TestConformance(t *testing.T) {
	t.Parallel()
	k := testbed.SharedKubernetes(t)
	conformance.Run(t, testbed.InTier(harness(func(t testing.TB) conformance.Store { return newStore(t, k) })))
}

// TestConformanceWithServerFaults runs the cases that need their own API server: it is killed and
// restarted, and suspended for a while.
func TestConformanceWithServerFaults(t *testing.T) {
	h := harness(nil)
	h.Parallel = false // each case starts servers, and is about time
	testbed.OwnServers(t, h, func(t testing.TB) (conformance.Store, *testbed.KubernetesServer) {
		k := testbed.StartKubernetes(t, testbed.Options{})
		return newStore(t, k), k
	})
}

// TestConformanceOnTwoServers runs the suite on two API servers over one etcd. Each has some of the
// clients. The cases about cost and about managers among themselves do not depend on that.
func TestConformanceOnTwoServers(t *testing.T) {
	one := testbed.StartKubernetes(t, testbed.Options{})
	two := one.StartBeside(t)
	h := harness(func(t testing.TB) conformance.Store { return newStore(t, one, two) })
	h.Only = func(c conformance.Case) bool { return c.Rule[0] != 'L' || c.Rule == "L1" || c.Rule == "L2" }
	conformance.Run(t, h)
}

// newStore returns a store with a fresh namespace for one case, behind a proxy for each server.
func newStore(t testing.TB, servers ...*testbed.KubernetesServer) conformance.Store {
	l := newLab(t, servers[0])
	var files []string
	var proxies []*testbed.Proxy
	for _, k := range servers {
		proxy := testbed.NewProxy(t, strings.TrimPrefix(k.URL(), "https://"))
		proxies, files = append(proxies, proxy), append(files, testbed.KubeconfigAt(t, k.AdminKubeconfig(t), proxy.Addr()))
	}
	var opened atomic.Int64
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			b, err := Open(Options{Kubeconfig: files[int(opened.Add(1))%len(files)], Namespace: l.namespace})
			testbed.NoError(t, err)
			return b
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				return l.admin.Delete(context.Background(), naming{}.election(election), meta.DeleteOptions{})
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				return l.edit(election, func(o *coordination.Lease) {
					r, text := recordOf(o), "<script>\x1b]0;\u202e"
					r.ID, r.Nonce, r.Address, r.Metadata, r.Heartbeat = text, text, "javascript:alert(1)\n", "\x00\x1b[2J", lease.NewHeartbeat()
					r.putBeside(o)
					o.Spec = r.spec()
				})
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxies...))
	return store
}
