package natskv

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A node is a nats-server inside this process, with a store in files.
type node struct {
	*server.Server
	options server.Options
}

// startNode starts a server. peers are the other servers of its cluster, if it has any.
func startNode(t testing.TB, name string, cluster int, peers ...int) *node {
	t.Helper()
	o := server.Options{ServerName: name, Host: "127.0.0.1", Port: freePort(t), JetStream: true, StoreDir: t.TempDir(), SyncAlways: true, NoSigs: true, NoLog: true}
	if cluster != 0 {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: cluster}
		for _, p := range peers {
			o.Routes = append(o.Routes, server.RoutesFromStr(fmt.Sprintf("nats://127.0.0.1:%d", p))...)
		}
	}
	n := &node{options: o}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stop)
	return n
}

func (n *node) start() (err error) {
	o := n.options
	if n.Server, err = server.NewServer(&o); err != nil {
		return err
	}
	go n.Start()
	if !n.ReadyForConnections(10 * time.Second) {
		return fmt.Errorf("%s is not ready", n.options.ServerName)
	}
	return nil
}

func (n *node) stop() {
	n.Shutdown()
	n.WaitForShutdown()
}

func (n *node) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.options.Port) }

// startCluster starts three servers and waits until they take requests.
func startCluster(t testing.TB) []*node {
	t.Helper()
	ports := []int{freePort(t), freePort(t), freePort(t)}
	var nodes []*node
	for i, p := range ports {
		nodes = append(nodes, startNode(t, fmt.Sprint("n", i), p, ports...))
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		leader := false
		for _, n := range nodes {
			leader = leader || n.JetStreamIsLeader() && len(n.JetStreamClusterPeers()) == len(nodes)
		}
		if leader {
			return nodes
		}
		if time.Now().After(end) {
			t.Fatal("the cluster has no leader")
		}
	}
}

func freePort(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// connect returns a connection for what tests do themselves.
func connect(t testing.TB, n *node) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(n.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
