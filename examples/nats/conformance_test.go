package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/register"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/conformance/registertest"
	"github.com/go-election/go-election/lab/testbed"
)

// TestRegister runs what every register must pass.
func TestRegister(t *testing.T) {
	n := startNode(t)
	var proxy *testbed.Proxy
	var admin, client *Register
	registertest.Run(t, registertest.Harness{
		MaxBytes: Limits.MaxBytes,
		NewStore: func(t testing.TB) func(testing.TB) register.Register {
			bucket := newBucket()
			admin, proxy = mustOpen(t, n.Addr(), bucket), testbed.NewProxy(t, n.Addr())
			return func(t testing.TB) register.Register {
				client = mustOpen(t, proxy.Addr(), bucket, nats.IgnoreDiscoveredServers())
				return client
			}
		},
		Set: func(value []byte) {
			if err := admin.set(t.Context(), value); err != nil {
				t.Error(err)
			}
		},
		LoseAnswers: func() func() {
			proxy.CutReplies(true)
			return func() {
				proxy.CutReplies(false)
				proxy.Reset()
				testbed.Eventually(t, time.Minute, "the client is connected again", func() error {
					_, _, err := client.Get(t.Context())
					return err
				})
			}
		},
	})
}

// TestConformance runs the suite on one server that all cases share.
func TestConformance(t *testing.T) {
	n := startNode(t)
	conformance.Run(t, testbed.InTier(harness(false, func(testing.TB) *testbed.Daemon { return n })))
}

// TestConformanceWithServerFaults runs the cases in which the server is killed or stopped.
func TestConformanceWithServerFaults(t *testing.T) {
	conformance.Run(t, harness(true, func(t testing.TB) *testbed.Daemon { return startNode(t) }))
}

// harness is that of the cases that need their own servers, or of the others.
func harness(own bool, n func(testing.TB) *testbed.Daemon) conformance.Harness {
	return conformance.Harness{
		NewStore: func(t testing.TB) conformance.Store { return newStore(t, n(t), own) },
		Only:     func(c conformance.Case) bool { return c.OwnServer() == own },
		TTL:      1500 * time.Millisecond, Late: time.Second, Short: true, Parallel: true,
	}
}

// newStore returns a new bucket on a server behind a proxy. own: the server may be harmed.
func newStore(t testing.TB, n *testbed.Daemon, own bool) conformance.Store {
	proxy, bucket := testbed.NewProxy(t, n.Addr()), newBucket()
	admin := mustOpen(t, n.Addr(), bucket)
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			return register.New(mustOpen(t, proxy.Addr(), bucket, nats.IgnoreDiscoveredServers()), Limits)
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				return admin.edit(func(items map[string]map[string]any) { delete(items, "record/"+election) })
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				text := "<script>\x1b]0;\u202e"
				return admin.edit(func(items map[string]map[string]any) {
					value := items["record/"+election]["value"].(map[string]any)
					value["id"], value["nonce"], value["address"], value["metadata"], value["heartbeat"] = text, text, "javascript:alert(1)\n", "\x00\x1b[2J", "2"
				})
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxy))
	if own {
		maps.Copy(store.Faults, testbed.ServerFaults(t, n))
	}
	return store
}

// set replaces or deletes the value as an operator does.
func (r *Register) set(ctx context.Context, value []byte) error {
	p, err := r.lookUp(ctx)
	if err == nil && value == nil {
		return p.Delete(ctx, p.key)
	}
	if err == nil {
		_, err = p.Put(ctx, p.key, value)
	}
	return err
}

// edit changes the document as an operator does.
func (r *Register) edit(change func(items map[string]map[string]any)) error {
	value, _, err := r.Get(context.Background())
	var doc map[string]json.RawMessage
	var items map[string]map[string]any
	if err := errors.Join(err, json.Unmarshal(value, &doc), json.Unmarshal(doc["items"], &items)); err != nil {
		return err
	}
	change(items)
	doc["items"], _ = json.Marshal(items)
	value, _ = json.Marshal(doc)
	return r.set(context.Background(), value)
}

func newBucket() string { return string(backend.NewNonce()[:12]) }

func mustOpen(t testing.TB, url, bucket string, options ...nats.Option) *Register {
	t.Helper()
	r, err := Open(url, bucket, options...)
	testbed.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}
