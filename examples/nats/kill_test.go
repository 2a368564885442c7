package natskv

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// The server is killed while batches are on their way. Every reading shows whole batches, none older than what
// was acknowledged before.
func TestAKillTearsNoBatch(t *testing.T) {
	server, bucket := startNode(t), string(backend.NewNonce()[:12])
	open := func() *driver {
		d := mustOpen(t, server.addr(), bucket)
		t.Cleanup(func() { d.Close() })
		return d
	}
	writer, keys := open(), []lease.Key{{Kind: lease.Records, Name: "a"}, {Kind: lease.Metas}}
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
	for range 10 {
		progress()
		<-time.After(rand.N(300 * time.Millisecond)) // at any step of a batch
		server.kill()
		if err := server.start(); err != nil {
			t.Fatal(err)
		}
	}
	progress()
}
