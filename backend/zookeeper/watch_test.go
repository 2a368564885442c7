package zookeeper

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-election/go-election/lab/drivertest"
	"github.com/go-election/go-election/lab/testbed"
)

// Records change while a process reads them under watches and its connection breaks again and again.
// What it remembers afterwards is what is in the store, and a listener has been told of it.
func TestRememberedRecordsAreThoseInTheStore(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	o := Options{Servers: servers, Root: newRoot(t, servers)}
	proxy := testbed.NewProxy(t, servers[0])
	writer := start(t, "", o).driver
	o.Servers = []string{proxy.Addr()}
	reader := start(t, "", o).driver

	const records = 20
	var keys []lease.Key
	for i := range records {
		keys = append(keys, lease.Key{Kind: lease.Records, Name: fmt.Sprint("r", i)})
	}
	read := func(d *driver) (lease.View, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return d.Read(ctx, keys)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { // changes, deletions and creations
		for term := uint64(1); ; term++ {
			select {
			case <-stop:
				return
			default:
			}
			v, err := read(writer)
			if err != nil {
				continue
			}
			p := lease.Put{Over: v.Items[rand.IntN(records)]}
			if rand.IntN(4) > 0 || p.Over.Version == "" {
				p.Value = &lease.Record{Election: p.Over.Name, Term: term}
			}
			writer.Write(t.Context(), v.Epoch, v.WentBack, []lease.Change{{Put: []lease.Put{p}}}, nil)
		}
	})
	for range 3 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					read(reader)
				}
			}
		})
	}
	for range 150 {
		proxy.Reset()
		<-time.After(time.Duration(rand.IntN(30)) * time.Millisecond)
	}
	close(stop)
	all.Wait()

	var truth, v lease.View
	testbed.Eventually(t, patience, "both can read", func() (err error) {
		if truth, err = read(writer); err == nil {
			v, err = read(reader)
		}
		return err
	})
	for i, it := range v.Items {
		if it.Version != truth.Items[i].Version {
			t.Errorf("%s is remembered as %q, and is %q in the store", it.Name, it.Version, truth.Items[i].Version)
		}
	}
	// Each watch still fires.
	for i, it := range truth.Items {
		told := make(chan error, 1)
		go func() {
			told <- reader.Listen(t.Context(), v.Position, v.Items, func([]lease.Item, uint64) bool { return false })
		}()
		w, err := writer.Write(t.Context(), truth.Epoch, truth.WentBack, []lease.Change{{Put: []lease.Put{{Over: it, Value: &lease.Record{Election: it.Name, Term: 1 << 40}}}}}, nil)
		if err != nil || w.Results[0].Outcome != backend.Granted {
			t.Fatalf("%s is changed: %v, %v", it.Name, w.Results, err)
		}
		select {
		case err := <-told:
			testbed.NoError(t, err)
		case <-time.After(patience):
			t.Fatalf("nobody was told that %s has changed", it.Name)
		}
		if v, err = read(reader); err != nil || v.Items[i].Version != w.Results[0].Items[0].Version {
			t.Fatalf("%s was told to have changed, and is read as %q, want %q; %v", it.Name, v.Items[i].Version, w.Results[0].Items[0].Version, err)
		}
	}
}

// The connection of readings breaks. The next reading has another one at once, also if there is one server
// alone: the library waits a second before it tries the same server again.
func TestABrokenConnectionIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	proxy := testbed.NewProxy(t, servers[0])
	p := start(t, "a", Options{Servers: []string{proxy.Addr()}, Root: newRoot(t, servers)})
	p.read("billing")
	fastest := time.Hour // a busy machine may be slow once
	for range 5 {
		_, lost := p.driver.session.Fired()
		proxy.Reset()
		<-lost
		began := time.Now()
		p.read("billing")
		fastest = min(fastest, time.Since(began))
	}
	if fastest > 800*time.Millisecond {
		t.Errorf("a connection is replaced after %v at the earliest", fastest)
	}
}

// What a process remembers is forgotten before a change of its own is answered, on a follower, too.
func TestAWatchFiresBeforeAChangeIsAnswered(t *testing.T) {
	t.Parallel()
	servers := testbed.StartZooKeeperEnsemble(t, 3)
	for _, server := range servers {
		d := start(t, "", Options{Servers: []string{server.Addr()}}).driver
		for range 300 {
			var id int64
			testbed.Eventually(t, patience, "the root is read", func() error {
				o, err := d.writeOrigin(t.Context())
				id = o.session
				return err
			})
			n, err := d.session.Watched(t.Context(), ensemble.Data, string(d.root))
			testbed.NoError(t, err)
			set := &zk.SetDataRequest{Path: string(d.root), Data: n.Data, Version: -1}
			if _, _, err := d.session.Multi(t.Context(), id, set); err == nil && !n.Watch.Over() {
				t.Fatal("a change was answered before the watch of its node has fired")
			}
		}
	}
}

// A leader of many elections makes one request for each renewal, and a follower of all of them about one.
// (A busy machine may cause more.)
func TestRequestsOfIdleManagers(t *testing.T) {
	for _, elections := range []int{1, 500} {
		t.Run(fmt.Sprint(elections), func(t *testing.T) {
			t.Parallel()
			const ttl = 9 * time.Second
			o := Options{Servers: []string{testbed.StartZooKeeper(t, testbed.Options{}).Addr()}}
			for _, leads := range []bool{true, false} {
				drivertest.Settle(t, start(t, "", o).Backend, elections, ttl, leads)
			}
			testbed.Eventually(t, patience, "a while in which nothing else happens", func() error {
				began, before := time.Now(), received(t, o)
				<-time.After(2 * ttl)
				requests, passed := received(t, o)-before, time.Since(began)
				t.Logf("in %v a leader and a follower have sent %d requests", passed, requests)
				renewals := 2 + int(passed/(ttl/3))
				pings := 2 + int(passed/(20*time.Second/3)) // of a session of 20 s
				if most := 3*renewals + 2*pings; requests > most {
					return fmt.Errorf("want at most %d", most)
				}
				return nil
			})
		})
	}
}

// received returns how many requests the server has received.
func received(t testing.TB, o Options) int {
	t.Helper()
	d, err := newDriver(o)
	testbed.NoError(t, err)
	text, err := d.srvr(t.Context(), o.Servers[0])
	_, rest, _ := strings.Cut(text, "Received: ")
	digits, _, _ := strings.Cut(rest, "\n")
	n, notNumber := strconv.Atoi(digits)
	if err != nil || notNumber != nil {
		t.Fatalf("srvr says %q: %v", text, err)
	}
	return n
}
