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
	addresses := []string{testbed.FreeAddr(t), testbed.FreeAddr(t), testbed.FreeAddr(t)}
	var s *server.Server
	for i, addr := range addresses {
		o := &server.Options{ServerName: fmt.Sprint(i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: storeDir(t), NoSigs: true,
			Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: port(addr)}}
		for _, other := range addresses {
			o.Routes = append(o.Routes, server.RoutesFromStr("nats://"+other)...)
		}
		var err error
		s, err = server.NewServer(o)
		testbed.NoError(t, err)
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
