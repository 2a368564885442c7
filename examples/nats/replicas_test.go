package natskv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// With three replicas, a server that was stopped and continued has led to two leaders.
func TestAStreamWithReplicasIsRefused(t *testing.T) {
	ports := []int{freePort(t), freePort(t), freePort(t)}
	var s *server.Server
	for i, port := range ports {
		o := &server.Options{ServerName: fmt.Sprint(i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: storeDir(t), NoSigs: true,
			Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: port}}
		for _, p := range ports {
			o.Routes = append(o.Routes, server.RoutesFromStr(fmt.Sprintf("nats://127.0.0.1:%d", p))...)
		}
		var err error
		if s, err = server.NewServer(o); err != nil {
			t.Fatal(err)
		}
		go s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	}
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("a server does not start")
	}
	nc, err := nats.Connect(s.ClientURL())
	testbed.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	testbed.NoError(t, err)
	testbed.Eventually(t, time.Minute, "the cluster makes a stream of three replicas", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "KV_b", Subjects: []string{"$KV.b.epoch.>"}, Replicas: 3,
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew})
		return err
	})

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r := mustOpen(t, s.ClientURL(), "b")
	if _, _, err := r.Get(ctx); !errors.Is(err, backend.ErrDenied) || !strings.Contains(err.Error(), "replicas") {
		t.Errorf("%v, want ErrDenied because of three replicas", err)
	}
}

// storeDir makes a directory for a server in this process. Such a server may still write for a moment after it has shut down.
func storeDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "nats")
	testbed.NoError(t, err)
	t.Cleanup(func() {
		testbed.Eventually(t, time.Minute, "the directory is removed", func() error { return os.RemoveAll(dir) })
	})
	return dir
}
