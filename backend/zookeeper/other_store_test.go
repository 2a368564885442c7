package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// The servers belong to two ensembles. A process that has read one finds itself on the other.
func TestAReadingHasTheEpochOfItsStore(t *testing.T) {
	t.Parallel()
	first := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	second := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	proxy := testbed.NewProxy(t, first.Addr())
	d := start(t, "", Options{Servers: []string{proxy.Addr()}}).driver
	d.session.Length = 4 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	keys := []lease.Key{{Kind: lease.Records, Name: "jobs"}}
	read := func() (v lease.View) {
		t.Helper()
		testbed.Eventually(t, patience, "a reading", func() (err error) {
			v, err = d.Read(ctx, keys)
			return err
		})
		return v
	}
	v := read()
	change := []lease.Change{{Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: "jobs", Term: 1}}}}}
	if r, err := d.Write(ctx, v.Epoch, 0, change, nil); err != nil {
		t.Fatal(r, err)
	}
	before := read()
	if before.Epoch != v.Epoch || before.Items[0].Version == "" {
		t.Fatalf("%+v was written, and %+v is read", v, before)
	}
	proxy.SetTarget(second.Addr())
	proxy.Reset()
	after := read()
	if after.Epoch == before.Epoch || after.Items[0].Version != "" {
		t.Errorf("a record of epoch %s is read in epoch %s, version %q", before.Epoch, after.Epoch, after.Items[0].Version)
	}
	change[0].Put[0].Over = before.Items[0]
	if r, err := d.Write(ctx, before.Epoch, before.WentBack, change, nil); !errors.Is(err, lease.ErrEpoch) {
		t.Errorf("a write to another store: %v, %v", r, err)
	}
}

// Each of the servers would elect its own leader. A server that is named twice, as by two addresses, is one ensemble.
func TestServersOfTwoEnsemblesAreNamed(t *testing.T) {
	t.Parallel()
	first := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	second := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	for other, want := range map[string]bool{second.Addr(): true, first.Proxy(t).Addr(): false} {
		a := start(t, "a", Options{Servers: []string{first.Addr(), other}})
		testbed.Eventually(t, patience, "a report", func() error {
			list, err := a.Inspect(t.Context(), time.Second, time.Second/3)
			if text := fmt.Sprint(list); err == nil && strings.Contains(text, "different ensembles") != want {
				err = fmt.Errorf("two ensembles: want %v in %s", want, text)
			}
			return err
		})
	}
}
