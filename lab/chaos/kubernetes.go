//go:build linux

package chaos

import (
	"context"
	"net/http"
	"testing"
	"time"

	_ "github.com/go-election/go-election/backend/kubernetes"
	"github.com/go-election/go-election/lab/testbed"
)

// A cluster is an API server, and the Leases in the namespace of the elections.
type cluster struct {
	*testbed.KubernetesServer
	leases string // their path
}

// kubernetesSite has an API server over an etcd of its own. While that etcd is dead, the API
// server answers after half a minute, so calls end by their deadlines.
func kubernetesSite(t testing.TB) *Site {
	k := testbed.StartKubernetes(t, testbed.Options{})
	namespace, file := k.Namespace(t), k.AdminKubeconfig(t)
	c := &cluster{k, "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"}
	how := func(proxies []*testbed.Proxy) []string {
		config := testbed.KubeconfigAt(t, file, proxies[0].Addr())
		return environ("kubernetes", "KUBECONFIG", config, "NAMESPACE", namespace)
	}
	// A Lease that was restored is observed for the greatest TTL, which here is the TTL of all.
	return newSite(t, "kubernetes", ttl, how, k.Addr()).with(serverFaults(k.Daemon), c.storeFaults())
}

// storeFaults are faults of the etcd below the API server. They end when that has found etcd again.
func (c *cluster) storeFaults() map[string]fault {
	store := c.Etcd()
	undo := func(mend ...func(t testing.TB)) func(t testing.TB) {
		return func(t testing.TB) {
			for _, f := range mend {
				f(t)
			}
			c.awaitAnswer(t)
		}
	}
	return map[string]fault{
		"etcd killed":  harm(store.Addr(), byCall, store.Kill, undo(store.Start), ttl/10, ttl),
		"etcd stopped": harm(store.Addr(), byCall, store.Stop, undo(store.Continue), ttl/4, 5*ttl/2),
		"API server and etcd killed": harm(store.Addr(), byCall, func(t testing.TB) {
			c.Kill(t)
			store.Kill(t)
		}, undo(store.Start, c.Start), ttl/10, ttl),
		// A restore from a copy that lacks the last writes. As an operator must, it waits for the
		// greatest TTL after the old cluster has stopped.
		"etcd restored": while(store.Addr(), byCall, func(r *run) {
			var saved string
			c.WithoutServers(r, func() { saved = store.SaveData(r) })
			c.awaitAnswer(r)
			r.wait(ttl, 4*ttl)
			c.Kill(r)
			store.Terminate(r)
			r.wait(ttl, 3*ttl/2)
			store.ReplaceData(r, saved)
			undo(store.Start, c.Start)(r)
		}),
	}
}

// awaitAnswer waits until the API server answers from etcd.
func (c *cluster) awaitAnswer(t testing.TB) {
	testbed.Eventually(t, time.Minute, "the API server has found etcd again", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return c.Try(ctx, http.MethodGet, c.leases, nil, nil)
	})
}
