package natskv

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/testbed"
)

// Servers are killed while batches are on their way. Every reading shows whole batches, none older than what
// was acknowledged before, and a new leader of the stream has them all.
func TestAKillTearsNoBatch(t *testing.T) {
	t.Run("one replica", func(t *testing.T) { killDuringBatches(t, []*node{startNode(t, "single", 0)}, 10) })
	t.Run("three replicas", func(t *testing.T) { killDuringBatches(t, startCluster(t), 3) })
}

func killDuringBatches(t *testing.T, nodes []*node, kills int) {
	bucket := string(backend.NewNonce()[:12])
	open := func() *driver {
		d := mustOpen(t, addrs(nodes), bucket, len(nodes))
		t.Cleanup(func() { d.Close() })
		return d
	}
	admin, writer, keys := open(), open(), []lease.Key{{Kind: lease.Records, Name: "a"}, {Kind: lease.Metas}}
	read := func(d *driver) (lease.View, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return d.Read(ctx, keys)
	}
	var acknowledged atomic.Uint64
	var all sync.WaitGroup
	stop := make(chan struct{})
	defer all.Wait()
	defer close(stop)
	repeat := func(f func(n uint64)) {
		all.Go(func() {
			for n := uint64(1); ; n++ {
				select {
				case <-stop:
					return
				default:
					f(n)
				}
			}
		})
	}
	repeat(func(n uint64) {
		v, err := read(writer)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		w, err := writer.Write(ctx, v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{
			{Over: v.Items[0], Value: &lease.Record{Election: "a", Term: n}}, {Over: v.Items[1], Value: &lease.Meta{Made: int64(n)}},
		}}}, nil)
		if err == nil && w.Results[0].Outcome == backend.Granted {
			acknowledged.Store(n)
		}
	})
	for range 3 {
		d, last := open(), uint64(0)
		repeat(func(uint64) {
			least := max(last, acknowledged.Load())
			v, err := read(d)
			if err != nil {
				return
			}
			record, _ := v.Items[0].Value.(*lease.Record)
			meta, _ := v.Items[1].Value.(*lease.Meta)
			switch {
			case record == nil && meta == nil && least == 0:
			case record == nil || meta == nil || record.Term != uint64(meta.Made) || record.Term < least || v.Records != 1 || v.WentBack != 0:
				t.Errorf("a reading shows %+v, %+v, %d records, gone back %d times; want both of one write, %d or later", record, meta, v.Records, v.WentBack, least)
			default:
				last = record.Term
			}
		})
	}
	progress := func() {
		now := acknowledged.Load()
		testbed.Eventually(t, time.Minute, "a batch is acknowledged", func() error {
			if n := acknowledged.Load(); n == now {
				return fmt.Errorf("none after %d", n)
			}
			return nil
		})
	}
	for i := range kills {
		progress()
		n := leader(t, nodes, admin)
		<-time.After(rand.N(300 * time.Millisecond)) // at any step of a batch
		n.kill()
		if i%2 == 0 && len(nodes) > 1 {
			progress() // without it
		}
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
	}
	progress()
}

// A server was stopped while others took writes. When it continues, its replica lags, and a client that is
// connected to it does not believe that replica.
func TestALaggingReplicaIsNotBelieved(t *testing.T) {
	nodes := startCluster(t)
	bucket, key := string(backend.NewNonce()[:12]), lease.Key{Kind: lease.Records, Name: "a"}
	ctx := background(t)
	open := func(n *node) *driver {
		d := mustOpen(t, n.addr(), bucket, len(nodes), nats.IgnoreDiscoveredServers())
		t.Cleanup(func() { d.Close() })
		return d
	}
	read := func(d *driver) (v lease.View) {
		t.Helper()
		testbed.Eventually(t, time.Minute, "a reading", func() (err error) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // the answer is lost if the client reconnects meanwhile
			defer cancel()
			v, err = d.Read(ctx, []lease.Key{key})
			return err
		})
		return v
	}
	first := open(nodes[0])
	view := read(first)
	head := leader(t, nodes, first)
	victim := nodes[(slices.Index(nodes, head)+1)%len(nodes)]
	writer, reader := open(head), open(victim)
	read(reader)
	over, term, large := view.Items[0], uint64(0), strings.Repeat("x", 100<<10)
	for began := time.Now(); time.Since(began) < 5*time.Second; { // a replica answers readings one second after it was made
		victim.process.Signal(syscall.SIGSTOP)
		for range 50 {
			term++
			w, err := writer.Write(ctx, view.Epoch, 0, []lease.Change{{Put: []lease.Put{{Over: over, Value: &lease.Record{Election: "a", Term: term, Metadata: large}}}}}, nil)
			if err != nil || w.Results[0].Outcome != backend.Granted {
				t.Fatalf("write %d: %v, %+v", term, err, w.Results)
			}
			over = w.Results[0].Items[0]
		}
		victim.process.Signal(syscall.SIGCONT)
		if r := read(reader).Items[0].Value.(*lease.Record); r.Term < term {
			t.Fatalf("after %d writes a reading shows number %d", term, r.Term)
		}
	}
}
