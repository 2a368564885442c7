package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// Kinds of requests.
const (
	getData = 4
	doSync  = 9
	doPing  = 11
	multi   = 14
)

// A leader of many elections makes one request for each renewal, and a follower of all of them about one.
// (A busy machine may cause more.)
func TestRequestsOfIdleManagers(t *testing.T) {
	for _, elections := range []int{1, 500} {
		t.Run(fmt.Sprint(elections), func(t *testing.T) {
			t.Parallel()
			const ttl = 9 * time.Second
			servers := testbed.SharedZooKeeper(t)
			root := newRoot(t, servers)
			leads, follows := newMeter(t, servers[0]), newMeter(t, servers[0])
			for _, meter := range []*meter{leads, follows} {
				p := start(t, "", Options{Servers: []string{meter.addr}, Root: root})
				testbed.Settle(t, p.Backend, elections, ttl, meter == leads)
			}
			testbed.Eventually(t, patience, "a while in which nothing else happens", func() error {
				leads.take()
				follows.take()
				began := time.Now()
				<-time.After(2 * ttl)
				a, _ := leads.take()
				b, _ := follows.take()
				renewals := int(time.Since(began)/(ttl/3)) + 2
				t.Logf("in %v a leader has sent %v and a follower %v", time.Since(began), a, b)
				if a[multi] > renewals || a[getData]+a[doSync]+a[doPing] > 2 || len(a) > 3 {
					return fmt.Errorf("a leader: want at most %d renewals and nothing else, got %v (by kind)", renewals, a)
				}
				if b[multi] > 0 || b[getData] > 2*renewals || b[doSync] > renewals/2 || b[doPing] > 2 {
					return fmt.Errorf("a follower: want no writes, about %d readings and few syncs, got %v (by kind)", renewals, b)
				}
				return nil
			})
		})
	}
}

// A change that is refused because of another item leaves the record's watch as it is.
func TestARefusedChangeSetsNoOtherWatch(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	m := newMeter(t, servers[0])
	d, err := newDriver(Options{Servers: []string{m.addr}, Root: newRoot(t, servers)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	k := lease.Key{Kind: lease.Records, Name: "jobs"}
	watches := 0
	for i := range 20 {
		v, err := d.Read(ctx, []lease.Key{k})
		if err != nil {
			t.Fatal(err)
		}
		c := lease.Change{Put: []lease.Put{{Over: v.Items[0], Value: &lease.Record{Election: k.Name, Term: 1}}}}
		if i > 0 {
			c.Check = []lease.Item{{Key: lease.Key{Kind: lease.Sessions, Name: "none"}, Version: "1.1"}}
		}
		if w, err := d.Write(ctx, v.Epoch, v.WentBack, []lease.Change{c}, nil); err != nil || (w.Results[0].Outcome == backend.Granted) != (i == 0) {
			t.Fatalf("change %d: %v, %v", i, w.Results, err)
		}
		_, n := m.take()
		watches += n
	}
	// One before the root and the record are there, which takes two requests, and one after that.
	if watches == 0 || watches > 6 {
		t.Errorf("%d requests have left a watch", watches)
	}
}

// What a reading must ask for goes out before the first answer has come: a handover waits for one answer, not for two.
func TestAReadingAsksForAllAtOnce(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	proxy := testbed.NewProxy(t, servers[0])
	m := newMeter(t, proxy.Addr())
	o := Options{Servers: servers, Root: newRoot(t, servers)}
	writer, err := newDriver(o)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	o.Servers = []string{m.addr}
	d, err := newDriver(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	keys := []lease.Key{{Kind: lease.Records, Name: "jobs"}, {Kind: lease.Sessions, Name: "a"}}
	v, err := writer.Read(ctx, keys)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Read(ctx, keys); err != nil { // from now on the record is remembered
		t.Fatal(err)
	}
	put := lease.Put{Over: v.Items[0], Value: &lease.Record{Election: "jobs", Term: 1}}
	if w, err := writer.Write(ctx, v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{put}}}, nil); err != nil || w.Results[0].Outcome != backend.Granted {
		t.Fatal(w, err)
	}
	testbed.Eventually(t, patience, "the reader's watch has fired", func() error {
		if d.remembers(keys[0]) {
			return errors.New("the record is remembered")
		}
		return nil
	})
	proxy.CutReplies(true)
	m.take()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Read(ctx, keys)
	}()
	asked := 0
	testbed.Eventually(t, patience, "both are asked for", func() error {
		kinds, _ := m.take()
		if asked += kinds[getData]; asked != len(keys) {
			return fmt.Errorf("%d requests for %d items", asked, len(keys))
		}
		return nil
	})
	cancel()
	<-ended
}
