package redis

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// Most tests wait for leases to expire, so many of them run at once.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "16")
	os.Exit(m.Run())
}

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute

// options are those of a fresh prefix of a server.
func options(server *testbed.RedisServer) Options {
	return Options{Addresses: []string{server.Addr()}, Prefix: string(backend.NewNonce()[:12])}
}

// open opens a driver, which the test closes.
func open(t testing.TB, o Options) *driver {
	t.Helper()
	d, err := newDriver(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func backendOn(t testing.TB, o Options) *Backend {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// settled makes the store one that has not just lost all, as a server is that began long ago.
func settled(t testing.TB, server *testbed.RedisServer, o Options) Options {
	t.Helper()
	d := open(t, o)
	read(t, d)
	server.Do(t, "DEL", d.keys()[4])
	return o
}

// join opens a manager that has joined the election jobs.
func join(t testing.TB, id string, ttl time.Duration, o Options) *election.Election {
	t.Helper()
	m, err := election.New(backendOn(t, o), election.Options{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		m.Close(ctx)
	})
	e, err := m.Join("jobs")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var metaKey = lease.Key{Kind: lease.Metas}

func recordKey(name string) lease.Key { return lease.Key{Kind: lease.Records, Name: name} }

// read reads items with a driver once its server answers.
func read(t testing.TB, d *driver, keys ...lease.Key) (v lease.View) {
	t.Helper()
	testbed.Eventually(t, patience, "the server answers", func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		v, err = d.Read(ctx, keys)
		return err
	})
	return v
}

// put writes records over what was read in a view, and returns the result of each.
func put(t testing.TB, d *driver, v *lease.View, records ...*lease.Record) ([]lease.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var changes []lease.Change
	for _, r := range records {
		over := lease.Item{Key: recordKey(r.Election)}
		for _, it := range v.Items {
			if it.Key == over.Key {
				over = it
			}
		}
		changes = append(changes, lease.Change{Put: []lease.Put{{Over: over, Value: r}}})
	}
	w, err := d.Write(ctx, v.Epoch, v.WentBack, changes, nil)
	return w.Results, err
}

func mustPut(t testing.TB, d *driver, v *lease.View, records ...*lease.Record) {
	t.Helper()
	results, err := put(t, d, v, records...)
	for _, r := range results {
		if err != nil || r.Outcome != backend.Granted {
			t.Fatalf("want all changes granted, got %+v, %v", results, err)
		}
	}
}
