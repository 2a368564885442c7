//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		return environ("kubernetes", "KUBECONFIG", testbed.KubeconfigAt(t, file, proxies[0].Addr()), "NAMESPACE", namespace)
	}
	// A Lease that was deleted is observed for the greatest TTL, which here is the TTL of all.
	return newSite(t, "kubernetes", ttl, []string{k.Addr()}, how,
		serverFaults(k.Daemon), c.storeFaults(), c.adminFaults(), diskFaults(t, k.Etcd()))
}

// storeFaults are faults of the etcd below the API server. They end when the API server
// has found etcd again.
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
		"etcd killed":  harm(store.Addr(), byCall, store.Kill, ttl/10, ttl, undo(store.Start)),
		"etcd stopped": harm(store.Addr(), byCall, store.Stop, ttl/4, 5*ttl/2, undo(store.Continue)),
		"API server and etcd killed": harm(store.Addr(), byCall, func(t testing.TB) {
			c.Kill(t)
			store.Kill(t)
		}, ttl/10, ttl, undo(store.Start, c.Start)),
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

// adminFaults are manual edits of Leases. Leaders trust their leases until their next
// renewals, so no edit frees an election.
func (c *cluster) adminFaults() map[string]fault {
	change := func(f func(r *run, l *coordination.Lease)) fault {
		return edit(func(r *run, election string) { c.change(r, election, func(l *coordination.Lease) { f(r, l) }) })
	}
	return map[string]fault{
		"Lease deleted": edit(func(r *run, election string) { c.remove(r, election) }),
		// What a member of client-go writes that ends late.
		"Lease emptied": change(func(_ *run, l *coordination.Lease) {
			now := meta.NowMicro()
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = new(""), new(int32(1)), &now
		}),
		"Lease edited": change(func(r *run, l *coordination.Lease) {
			switch r.IntN(4) {
			case 0:
				l.Spec.HolderIdentity = new("operator")
			case 1:
				l.Spec.LeaseDurationSeconds = new(int32(1))
			case 2:
				delete(l.Annotations, recordKey)
			default:
				if text, ok := l.Annotations[recordKey]; ok {
					l.Annotations[recordKey] = strings.Replace(text, `"nonce":"`, `"nonce":"x`, 1)
				}
			}
		}),
		// Another Lease with the same content, as from a backup.
		"Lease made again": edit(func(r *run, election string) {
			l := c.remove(r, election)
			l.ObjectMeta = meta.ObjectMeta{Name: l.Name, Labels: l.Labels, Annotations: l.Annotations}
			// A member may have made one first: then there is nothing to restore.
			if err := c.Try(r.Context(), http.MethodPost, c.leases, &l, nil); err != nil && !isConflict(err) {
				r.Fatal(err)
			}
		}),
		// A vacant Lease was copied, and is put back while another leads.
		"Lease put back": func(r *run) {
			election := elections[r.IntN(len(elections))]
			for _, m := range r.current {
				m.terminate(r)
			}
			old := c.lease(r, election)
			r.restartEnded()
			r.awaitLeaders()
			r.wait(ttl, 2*ttl)
			r.inject(election, byEnd, func() {
				c.change(r, election, func(l *coordination.Lease) { l.Spec, l.Annotations = old.Spec, old.Annotations })
			})
			r.wait(ttl/2, ttl)
		},
		// Labels are nobody's business, but each changes the resourceVersion that renewals require.
		"labels changed": func(r *run) {
			election := elections[r.IntN(len(elections))]
			r.inject(election, byRenewal, func() {
				r.again(ttl+r.N(ttl), 10*time.Millisecond, 100*time.Millisecond, func() {
					c.change(r, election, func(l *coordination.Lease) {
						l.Labels["example.com/note"] = strconv.FormatUint(r.Uint64(), 10)
					})
				})
			})
		},
	}
}

// recordKey is the annotation of this module.
const recordKey = "go-election.github.io/record"

// lease finds the Lease of an election.
func (c *cluster) lease(r *run, election string) coordination.Lease {
	var all coordination.LeaseList
	c.Request(r, http.MethodGet, c.leases+"?labelSelector=go-election.github.io/kind=election", nil, &all)
	for _, l := range all.Items {
		var record struct{ Election string }
		if l.Name == election || json.Unmarshal([]byte(l.Annotations[recordKey]), &record) == nil && record.Election == election {
			return l
		}
	}
	r.Fatalf("no Lease of %q", election)
	return coordination.Lease{}
}

// remove deletes the Lease of an election, and returns what it was.
func (c *cluster) remove(r *run, election string) coordination.Lease {
	l := c.lease(r, election)
	c.Request(r, http.MethodDelete, c.leases+"/"+l.Name, nil, nil)
	return l
}

// change changes the Lease of an election as an operator does.
func (c *cluster) change(r *run, election string, do func(l *coordination.Lease)) {
	for {
		l := c.lease(r, election)
		do(&l)
		err := c.Try(r.Context(), http.MethodPut, c.leases+"/"+l.Name, &l, nil)
		if err == nil {
			return
		}
		if !isConflict(err) { // it was renewed meanwhile
			r.Fatal(err)
		}
	}
}

// isConflict is true of the answer that an object has changed, or that there is one.
func isConflict(err error) bool { return strings.Contains(err.Error(), "409: ") }
