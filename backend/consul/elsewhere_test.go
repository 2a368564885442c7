package consul

import (
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/lab/testbed"
)

// TestConformanceWhereAnotherConsulAnswers runs the cases in which an address leads some processes to another Consul for a
// while, which is empty, in use, or has a copy of the keys.
func TestConformanceWhereAnotherConsulAnswers(t *testing.T) {
	here, other := testbed.StartConsul(t, testbed.ConsulOptions{}), testbed.StartConsul(t, testbed.ConsulOptions{})
	h := harness(func(t testing.TB) conformance.Store {
		prefix := "test/" + string(backend.NewNonce()[:16])
		from, to := admins(t, here), admins(t, other)
		t.Cleanup(func() { wipe(from, prefix); wipe(to, prefix) })
		var clients sync.Map // of *testbed.Proxy, by backend.Backend
		var copied sync.Once
		return conformance.Store{
			Open: func(t testing.TB) backend.Backend {
				proxy := here.Proxy(t)
				b := open(t, Options{Address: proxy.Addr(), Prefix: prefix})
				clients.Store(b, proxy)
				return b
			},
			Elsewhere: func(b backend.Backend, on bool) (err error) {
				copied.Do(func() { err = copyKeys(from, to, prefix) })
				proxy, _ := clients.Load(b)
				target := here
				if on {
					target = other
				}
				proxy.(*testbed.Proxy).SetTarget(target.Addr())
				proxy.(*testbed.Proxy).Reset()
				return err
			},
			Faults: map[string]conformance.Fault{},
		}
	})
	h.Only = func(c conformance.Case) bool {
		return strings.Contains(c.Name, " led to ") || strings.HasPrefix(c.Name, "another store ")
	}
	conformance.Run(t, h)
}

// copyKeys makes the keys below a prefix in another Consul.
func copyKeys(from, to *api.Client, prefix string) error {
	all, _, err := from.KV().List(prefix, nil)
	for _, p := range all {
		if err == nil {
			_, err = to.KV().Put(p, nil)
		}
	}
	return err
}
