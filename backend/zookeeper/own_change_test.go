package zookeeper

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// A process has tried to change a record, or has requested something of its holder, and goes on listening.
// It is told of the next change by another process.
func TestAListenerHearsOthersAfterAChangeOfItsOwn(t *testing.T) {
	for what, notify := range map[string]bool{"a change that was refused": false, "a request": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			servers := testbed.SharedZooKeeper(t)
			o := Options{Servers: servers, Root: newRoot(t, servers)}
			d, other := start(t, "", o).driver, start(t, "", o).driver
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			keys := []lease.Key{{Kind: lease.Records, Name: "jobs"}}
			read := func(d *driver, keys []lease.Key) lease.View {
				t.Helper()
				v, err := d.Read(ctx, keys)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			write := func(d *driver, over lease.Item, notify bool) backend.Outcome {
				t.Helper()
				v := read(d, nil)
				put := lease.Put{Over: over, Value: &lease.Record{Election: "jobs", Term: 1}}
				w, err := d.Write(ctx, v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{put}, Notify: notify}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return w.Results[0].Outcome
			}
			none := lease.Item{Key: keys[0]}
			write(other, none, true)
			v := read(d, keys)
			over, want := none, backend.Refused // there is one
			if notify {
				over, want = v.Items[0], backend.Granted
			}
			if got := write(d, over, notify); got != want {
				t.Fatalf("its own change is %v", got)
			}
			if got := write(other, read(other, keys).Items[0], true); got != backend.Granted {
				t.Fatalf("the other's change is %v", got)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := d.Listen(ctx, v.Position, v.Items, func([]lease.Item, uint64) bool { return false }); err != nil {
				t.Errorf("it was told of nothing: %v", err)
			}
		})
	}
}
