package zookeeper

import (
	"context"
	"testing"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-election/go-election/internal/testbed"
)

// The session of writes is with another store than that of readings. A reading is not labelled with
// the epoch of the former.
func TestAReadingHasTheEpochOfItsStore(t *testing.T) {
	t.Parallel()
	first := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	second := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	d, err := newDriver(Options{Servers: []string{first.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	keys := []lease.Key{{Kind: lease.Records, Name: "jobs"}}
	w, err := newDriver(Options{Servers: []string{first.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	v, err := w.Read(ctx, keys)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if r, err := w.Write(ctx, v.Epoch, 0, []lease.Change{{Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: "jobs", Term: 1}}}}}, nil); err != nil {
			t.Fatal(r, err)
		}
		if v, err = w.Read(ctx, keys); err != nil {
			t.Fatal(err)
		}
	}
	before, err := d.Read(ctx, keys)
	if err != nil || before.Items[0].Version == "" {
		t.Fatal(before, err)
	}
	d.Servers = []string{second.Addr()}
	if _, err := d.Write(ctx, before.Epoch, 0, nil, nil); err == nil {
		t.Fatal("a write to another store was not refused")
	}
	other := d.origin.epoch
	if other == before.Epoch {
		t.Fatal("one epoch")
	}
	after, err := d.Read(ctx, keys)
	if err == nil && after.Epoch != before.Epoch && after.Items[0].Version == before.Items[0].Version {
		t.Errorf("a record of epoch %s is read as one of epoch %s, version %s", before.Epoch, after.Epoch, after.Items[0].Version)
	}
	n, known := d.reader.Watches.Node(ensemble.Data, d.root.path(keys[0]))
	if d.origin.epoch == other && known && d.origin.item(keys[0], n).Version == before.Items[0].Version {
		t.Errorf("the record of the other store is still remembered")
	}
}
