package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// The servers belong to two ensembles. A process that has read one finds itself on the other.
func TestAReadingHasTheEpochOfItsStore(t *testing.T) {
	t.Parallel()
	first := testbed.StartZooKeeper(t, testbed.Options{})
	second := testbed.StartZooKeeper(t, testbed.Options{})
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
	first := testbed.StartZooKeeper(t, testbed.Options{})
	second := testbed.StartZooKeeper(t, testbed.Options{})
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

// An address leads two processes to another ensemble, which has a copy of the nodes and greater zxids. It grants nothing by what
// the first one showed.
func TestACopyInAnotherEnsembleGrantsNothing(t *testing.T) {
	t.Parallel()
	here, other := testbed.StartZooKeeper(t, testbed.Options{}), testbed.StartZooKeeper(t, testbed.Options{})
	from, to := testbed.DialZooKeeper(t, []string{here.Addr()}), testbed.DialZooKeeper(t, []string{other.Addr()})
	_, err := to.Create("/ahead", nil, 0, zk.WorldACL(zk.PermAll))
	for range 200 {
		if err == nil {
			_, err = to.Set("/ahead", nil, -1)
		}
	}
	testbed.NoError(t, err)
	proxy := testbed.NewProxy(t, here.Addr())
	o := Options{Servers: []string{proxy.Addr()}, Root: newRoot(t, nil)}
	a, b := start(t, "a", o), start(t, "b", o)
	a.driver.session.Length, b.driver.session.Length = 4*time.Second, 4*time.Second
	a.Resigns(a.lead("vacant"))
	held, vacant := a.lead("held"), b.read("vacant")

	testbed.NoError(t, copyNodes(from, to, o.Root))
	proxy.SetTarget(other.Addr())
	proxy.Reset()
	if got := a.renews(held); got.Outcome != backend.Refused {
		t.Errorf("a renewal by the copy is %v", got.Outcome)
	}
	testbed.Eventually(t, patience, "a bid has an outcome", func() error {
		got := b.Bids(vacant)
		if got.Outcome == backend.Granted {
			t.Error("a bid on what the first one showed is granted")
		}
		return got.Err
	})
	if seen := b.read("vacant"); seen.ObserveFor < ttl {
		t.Errorf("the copy is watched for %v, want %v", seen.ObserveFor, ttl)
	}
}

// copyNodes makes lasting nodes in another ensemble, with their data and numbers of writes.
func copyNodes(from, to *zk.Conn, path string) error {
	data, stat, err := from.Get(path)
	if err != nil || stat.EphemeralOwner != 0 {
		return err
	}
	_, err = to.Create(path, data, 0, zk.WorldACL(zk.PermAll))
	for range stat.Version {
		if err == nil {
			_, err = to.Set(path, data, -1)
		}
	}
	if err != nil {
		return err
	}
	children, _, err := from.Children(path)
	for _, name := range children {
		err = errors.Join(err, copyNodes(from, to, path+"/"+name))
	}
	return err
}

// Three servers are restored from copies that were made while they ran. The next leader of the ensemble
// begins another epoch of zxids, greater than all that was lost, and sessions go on, so that nobody notices. A
// lease whose grant is lost is not renewed although the record of another has the same number.
func TestALostGrantIsNotRenewedInARestoredEnsemble(t *testing.T) {
	t.Parallel()
	servers := testbed.StartZooKeeperEnsemble(t, 3)
	o := Options{Servers: testbed.Addrs(servers)}
	a, b := start(t, "a", o), start(t, "b", o)
	a.driver.session.Length, b.driver.session.Length = 4*time.Second, 4*time.Second
	held := a.lead("jobs")
	b.lead("other")
	var saved []string
	for _, s := range servers {
		saved = append(saved, s.SaveData(t))
	}
	testbed.NoError(t, a.Release(t.Context(), []backend.Held{held.Held()}))
	lost := b.lead("jobs") // the copies do not have it
	for range 100 {
		b.renews(lost)
	}
	for _, s := range servers {
		s.Kill(t)
	}
	for i, s := range servers {
		s.ReplaceData(t, saved[i])
	}
	done := make(chan bool, 3)
	for _, s := range servers {
		go func() { s.Start(t); done <- true }()
	}
	for range servers {
		<-done
	}
	c := start(t, "c", o)
	now := c.lead("jobs")
	if err := c.Request(t.Context(), []backend.Request{{Election: "jobs", Term: now.Term, Kind: backend.Nominate, ID: "x"}}); err != nil {
		t.Fatal(err) // the record has now been written as often as b remembers
	}
	for range 2 {
		if got := b.renews(lost); got.Outcome != backend.Refused {
			t.Errorf("b renews a lease whose grant is lost, and which c holds: %v", got.Outcome)
		}
	}
}
