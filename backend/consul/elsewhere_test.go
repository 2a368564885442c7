package consul

import (
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
		connect := func(t testing.TB, addr string) backend.Backend {
			return open(t, Options{Address: addr, Prefix: prefix})
		}
		return testbed.Elsewhere(here.Daemon, other.Daemon, connect, func() error { return copyKeys(from, to, prefix) })
	})
	h.Only = testbed.IsElsewhere
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
