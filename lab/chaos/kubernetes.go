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

	_ "github.com/go-election/go-election/backend/kubernetes"
	"github.com/go-election/go-election/lab/testbed"
)

// A cluster is an API server, and the namespace of the elections.
type cluster struct {
	*testbed.KubernetesServer
	leases string // path of the Leases
}

// A kubeLease is a Lease, as the API server sends it.
type kubeLease map[string]any

// kubernetesSite has an API server over an etcd of its own. While that etcd is dead, the API
// server answers after half a minute, so calls end by their deadlines.
func kubernetesSite(t testing.TB) *Site {
	k := testbed.StartKubernetes(t, testbed.KubernetesOptions{})
	namespace, file := k.Namespace(t), k.AdminKubeconfig(t)
	c := &cluster{k, "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"}
	// A Lease that was deleted is observed for the greatest TTL, which here is the TTL of all.
	site := &Site{Backend: "kubernetes", TTL: ttl, Bound: bound(ttl), takesOver: true, proxies: proxiesFor(t, k.Addr())}
	site.environ = func(i int) []string {
		return environ("kubernetes", "KUBECONFIG", testbed.KubeconfigAt(t, file, site.proxies[i][0].Addr()), "NAMESPACE", namespace)
	}
	site.faults = join(processFaults(), networkFaults(), serverFaults(k), c.storeFaults(), c.adminFaults())
	addSlowDisk(t, site, k.Etcd())
	return site
}

// storeFaults are faults of the etcd below the API server. They end when the API server
// has found etcd again.
func (c *cluster) storeFaults() map[string]fault {
	store := c.Etcd()
	with := func(name string, f func(r *run)) fault {
		return func(r *run) {
			r.inject(name, store.Addr(), byCall, func() {
				f(r)
				c.awaitAnswer(r)
			})
		}
	}
	return map[string]fault{
		"etcd killed": with("etcd killed", func(r *run) {
			store.Kill(r)
			r.wait(r.TTL/10, r.TTL)
			store.Start(r)
		}),
		"etcd stopped": with("etcd stopped", func(r *run) {
			store.Stop(r)
			r.wait(r.TTL/4, 5*r.TTL/2)
			store.Continue(r)
		}),
		// A restore from a copy that lacks the last writes. As an operator must, it waits for the
		// greatest TTL after the old cluster has stopped.
		"etcd restored": with("etcd restored", func(r *run) {
			saved := c.SaveStore(r)
			c.awaitAnswer(r)
			r.wait(r.TTL, 4*r.TTL)
			c.Kill(r)
			store.Terminate(r)
			r.wait(r.TTL, 3*r.TTL/2)
			store.ReplaceData(r, saved)
			store.Start(r)
			c.Start(r)
		}),
		"API server and etcd killed": with("API server and etcd killed", func(r *run) {
			c.Kill(r)
			store.Kill(r)
			r.wait(r.TTL/10, r.TTL)
			store.Start(r)
			c.Start(r)
		}),
	}
}

// awaitAnswer waits until the API server answers from etcd.
func (c *cluster) awaitAnswer(r *run) {
	testbed.Eventually(r, time.Minute, "the API server has found etcd again", func() error {
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		return c.Try(ctx, http.MethodGet, c.leases, nil, nil)
	})
}

// adminFaults are manual edits of Leases. Leaders trust their leases until their next
// renewals, so no edit frees an election.
func (c *cluster) adminFaults() map[string]fault {
	edit := func(name string, f func(r *run, l kubeLease)) fault {
		return adminFault(name, func(r *run, election string) { c.edit(r, election, func(l kubeLease) { f(r, l) }) })
	}
	return map[string]fault{
		"Lease deleted": adminFault("Lease deleted", func(r *run, election string) {
			c.Request(r, http.MethodDelete, c.leases+"/"+c.name(r, election), nil, nil)
		}),
		// What a member of client-go writes that ends late.
		"Lease emptied": edit("Lease emptied", func(_ *run, l kubeLease) {
			spec := l.spec()
			spec["holderIdentity"], spec["leaseDurationSeconds"], spec["renewTime"] = "", 1, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		}),
		"Lease edited": edit("Lease edited", func(r *run, l kubeLease) {
			switch r.IntN(4) {
			case 0:
				l.spec()["holderIdentity"] = "operator"
			case 1:
				l.spec()["leaseDurationSeconds"] = 1
			case 2:
				delete(l.annotations(), recordKey)
			default:
				text, _ := l.annotations()[recordKey].(string)
				l.annotations()[recordKey] = strings.Replace(text, `"nonce":"`, `"nonce":"x`, 1)
			}
		}),
		// Another Lease with the same content, as from a backup.
		"Lease made again": adminFault("Lease made again", func(r *run, election string) {
			name := c.name(r, election)
			var l kubeLease
			c.Request(r, http.MethodGet, c.leases+"/"+name, nil, &l)
			c.Request(r, http.MethodDelete, c.leases+"/"+name, nil, nil)
			l["metadata"] = map[string]any{"name": name, "labels": l.meta()["labels"], "annotations": l.annotations()}
			// A member may have made one first: then there is nothing to restore.
			if err := c.Try(r.Context(), http.MethodPost, c.leases, l, nil); err != nil && !strings.Contains(err.Error(), "409: ") {
				r.Fatal(err)
			}
		}),
		// A vacant Lease was copied, and is put back while another leads.
		"Lease put back": func(r *run) {
			election := elections[r.IntN(len(elections))]
			for _, m := range r.current {
				m.terminate(r)
			}
			var old kubeLease
			c.Request(r, http.MethodGet, c.leases+"/"+c.name(r, election), nil, &old)
			r.restartEnded()
			r.awaitLeaders()
			r.wait(r.TTL, 2*r.TTL)
			r.inject("Lease put back", election, byEnd, func() {
				c.edit(r, election, func(l kubeLease) {
					l["spec"], l.meta()["annotations"] = old.spec(), old.annotations()
				})
			})
			r.wait(r.TTL/2, r.TTL)
		},
		// Labels are nobody's business, but each changes the resourceVersion that renewals require.
		"labels changed": func(r *run) {
			election := elections[r.IntN(len(elections))]
			r.inject("labels changed", election, byRenewal, func() {
				for end := Now() + r.TTL + r.N(r.TTL); Now() < end; {
					c.edit(r, election, func(l kubeLease) {
						l.part(l.meta(), "labels")["example.com/note"] = strconv.FormatUint(r.Uint64(), 10)
					})
					r.wait(10*time.Millisecond, 100*time.Millisecond)
				}
			})
		},
	}
}

// recordKey is the annotation of this module.
const recordKey = "go-election.github.io/record"

// name finds the name of an election's Lease.
func (c *cluster) name(r *run, election string) (name string) {
	var all struct{ Items []kubeLease }
	c.Request(r, http.MethodGet, c.leases+"?labelSelector=go-election.github.io/kind%3Delection", nil, &all)
	for _, l := range all.Items {
		var record struct{ Election string }
		text, _ := l.annotations()[recordKey].(string)
		own, _ := l.meta()["name"].(string)
		if own == election || json.Unmarshal([]byte(text), &record) == nil && record.Election == election {
			return own
		}
	}
	r.Fatalf("no Lease of %q", election)
	return ""
}

// edit changes a Lease as an operator does.
func (c *cluster) edit(r *run, election string, do func(l kubeLease)) {
	path := c.leases + "/" + c.name(r, election)
	for {
		var l kubeLease
		c.Request(r, http.MethodGet, path, nil, &l)
		do(l)
		err := c.Try(r.Context(), http.MethodPut, path, l, nil)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "409: ") { // it was renewed meanwhile
			r.Fatal(err)
		}
	}
}

func (l kubeLease) meta() map[string]any { return l.part(l, "metadata") }
func (l kubeLease) spec() map[string]any { return l.part(l, "spec") }

func (l kubeLease) annotations() map[string]any { return l.part(l.meta(), "annotations") }

// part returns a field of an object that is an object itself, and makes it if needed.
func (kubeLease) part(of map[string]any, name string) map[string]any {
	if p, ok := of[name].(map[string]any); ok {
		return p
	}
	p := map[string]any{}
	of[name] = p
	return p
}
