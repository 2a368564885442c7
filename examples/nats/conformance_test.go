package natskv

import (
	"context"
	"errors"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/internal/testbed"
)

// TestConformance runs the suite on one server that all cases share.
func TestConformance(t *testing.T) {
	nodes := []*node{startNode(t, "shared", 0)}
	conformance.Run(t, testbed.InTier(harness(false, func(testing.TB) []*node { return nodes })))
}

// TestConformanceOnThreeServers runs the suite on buckets of three replicas.
func TestConformanceOnThreeServers(t *testing.T) {
	nodes := startCluster(t)
	conformance.Run(t, testbed.InTier(harness(false, func(testing.TB) []*node { return nodes })))
}

// TestConformanceWithServerFaults runs the cases in which the server is killed or stopped. Of three servers that
// is not promised: docs/design/new-store.md.
func TestConformanceWithServerFaults(t *testing.T) {
	conformance.Run(t, harness(true, func(t testing.TB) []*node { return []*node{startNode(t, "own", 0)} }))
}

// harness is that of the cases that need their own servers, or of the others.
func harness(own bool, nodes func(testing.TB) []*node) conformance.Harness {
	return conformance.Harness{
		NewStore: func(t testing.TB) conformance.Store { return newStore(t, nodes(t), own) },
		Only:     func(c conformance.Case) bool { return c.OwnServer() == own },
		TTL:      1500 * time.Millisecond, Late: time.Second, Short: true, Parallel: true,
	}
}

// newStore returns a new bucket on servers behind proxies, with a replica on each. own: the servers may be
// harmed.
func newStore(t testing.TB, nodes []*node, own bool) conformance.Store {
	var proxies []*testbed.Proxy
	var through []string
	for _, n := range nodes {
		p := testbed.NewProxy(t, n.addr())
		proxies, through = append(proxies, p), append(through, p.Addr())
	}
	bucket := string(backend.NewNonce()[:12])
	admin := mustOpen(t, addrs(nodes), bucket, len(nodes))
	t.Cleanup(func() {
		admin.js.DeleteStream(context.Background(), "KV_"+bucket)
		admin.Close()
	})
	record := func(election string, do func(ctx context.Context, s *store, k lease.Key) error) error {
		ctx := context.Background()
		s, err := admin.lookUp(ctx)
		if err != nil {
			return err
		}
		return do(ctx, s, lease.Key{Kind: lease.Records, Name: election})
	}
	store := conformance.Store{
		Open: func(t testing.TB) backend.Backend {
			return lease.New(mustOpen(t, strings.Join(through, ","), bucket, len(nodes), nats.IgnoreDiscoveredServers()))
		},
		Faults: map[string]conformance.Fault{
			conformance.FaultDeleteRecord: func(_ bool, election string) error {
				return record(election, func(ctx context.Context, s *store, k lease.Key) error {
					return s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.subject(k)))
				})
			},
			conformance.FaultPlantRecord: func(_ bool, election string) error {
				return record(election, func(ctx context.Context, s *store, k lease.Key) error { return plant(ctx, admin, s, k) })
			},
		},
	}
	maps.Copy(store.Faults, testbed.LineFaults(proxies...))
	if own {
		var stopped *node
		store.Faults[conformance.FaultRestart] = func(bool, string) error {
			n := leader(t, nodes, admin)
			n.kill()
			return n.start()
		}
		store.Faults[conformance.FaultPause] = func(on bool, _ string) error {
			if !on {
				return stopped.process.Signal(syscall.SIGCONT)
			}
			stopped = leader(t, nodes, admin)
			return stopped.process.Signal(syscall.SIGSTOP)
		}
	}
	return store
}

// plant overwrites a record with hostile text, as an operator's tool does.
func plant(ctx context.Context, d *driver, s *store, k lease.Key) error {
	_, v, err := d.read(ctx, []lease.Key{k})
	if err != nil {
		return err
	}
	r, ok := v.Items[0].Value.(*lease.Record)
	if !ok {
		return errors.New("no record to plant over")
	}
	text := "<script>\x1b]0;\u202e"
	r.ID, r.Nonce, r.Address, r.Metadata, r.Heartbeat = text, text, "javascript:alert(1)\n", "\x00\x1b[2J", r.Heartbeat+2
	kv, err := d.js.KeyValue(ctx, d.bucket)
	if err == nil {
		_, err = kv.Put(ctx, strings.TrimPrefix(s.subject(k), "$KV."+kv.Bucket()+"."), []byte(lease.Encode(r)))
	}
	return err
}
