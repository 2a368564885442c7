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
	"github.com/go-election/go-election/lab/testbed"
)

// TestConformance runs the suite on one server that all cases share.
func TestConformance(t *testing.T) {
	n := startNode(t)
	conformance.Run(t, testbed.InTier(harness(false, func(testing.TB) *node { return n })))
}

// TestConformanceWithServerFaults runs the cases in which the server is killed or stopped.
func TestConformanceWithServerFaults(t *testing.T) {
	conformance.Run(t, harness(true, func(t testing.TB) *node { return startNode(t) }))
}

// harness is that of the cases that need their own servers, or of the others.
func harness(own bool, n func(testing.TB) *node) conformance.Harness {
	return conformance.Harness{
		NewStore: func(t testing.TB) conformance.Store { return newStore(t, n(t), own) },
		Only:     func(c conformance.Case) bool { return c.OwnServer() == own },
		TTL:      1500 * time.Millisecond, Late: time.Second, Short: true, Parallel: true,
	}
}

// newStore returns a new bucket on a server behind a proxy. own: the server may be harmed.
func newStore(t testing.TB, n *node, own bool) conformance.Store {
	proxy := testbed.NewProxy(t, n.addr())
	bucket := string(backend.NewNonce()[:12])
	admin := mustOpen(t, n.addr(), bucket)
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
			return lease.New(mustOpen(t, proxy.Addr(), bucket, nats.IgnoreDiscoveredServers()))
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
	maps.Copy(store.Faults, testbed.LineFaults(proxy))
	if own {
		store.Faults[conformance.FaultRestart] = func(bool, string) error {
			n.kill()
			return n.start()
		}
		store.Faults[conformance.FaultPause] = func(on bool, _ string) error {
			if !on {
				return n.process.Signal(syscall.SIGCONT)
			}
			return n.process.Signal(syscall.SIGSTOP)
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
