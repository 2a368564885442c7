package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/go-election/go-election/internal/testbed"
)

// TestMain is also the main function of a server; see node.
func TestMain(m *testing.M) {
	if text := os.Getenv("NATSKV_NODE"); text != "" {
		if err := serve(text); err != nil {
			log.Fatal(err)
		}
		return
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // most cases of the suite wait for leases to expire
	os.Exit(m.Run())
}

// A node is a nats-server with its store in files: this program as another process, so that it can be
// killed. It ends with the test.
type node struct {
	Name          string
	Port, Cluster int // Cluster: for the other servers; 0: there are none
	Peers         []int
	Dir           string

	process *os.Process
	stdin   io.Closer
}

// serve is the server until its parent has ended.
func serve(text string) error {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	o := server.Options{ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, JetStream: true, StoreDir: n.Dir, SyncAlways: true, NoSigs: true, NoLog: true}
	if n.Cluster != 0 {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: n.Cluster}
		for _, p := range n.Peers {
			o.Routes = append(o.Routes, server.RoutesFromStr(fmt.Sprintf("nats://127.0.0.1:%d", p))...)
		}
	}
	s, err := server.NewServer(&o)
	if err != nil {
		return err
	}
	go s.Start()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startNode starts a server. peers are all servers of its cluster, if it has any.
func startNode(t testing.TB, name string, cluster int, peers ...int) *node {
	t.Helper()
	n := &node{Name: name, Port: freePort(t), Cluster: cluster, Peers: peers, Dir: t.TempDir()}
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.kill)
	return n
}

func (n *node) start() error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	c := exec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), "NATSKV_NODE="+string(text)), os.Stderr
	if n.stdin, err = c.StdinPipe(); err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	n.process = c.Process
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", n.addr()); err == nil {
			return c.Close()
		} else if time.Now().After(end) {
			return fmt.Errorf("%s is not ready: %w", n.Name, err)
		}
	}
}

func (n *node) kill() {
	n.process.Kill()
	n.stdin.Close()
	n.process.Wait()
}

func (n *node) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.Port) }

// startCluster starts three servers and waits until they keep streams.
func startCluster(t testing.TB) []*node {
	t.Helper()
	ports := []int{freePort(t), freePort(t), freePort(t)}
	var nodes []*node
	for i, p := range ports {
		nodes = append(nodes, startNode(t, fmt.Sprint("n", i), p, ports...))
	}
	_, js := connect(t, nodes[0])
	testbed.Eventually(t, time.Minute, "the cluster makes a stream of three replicas", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "ready", Replicas: 3})
		return err
	})
	return nodes
}

// addrs returns where servers are, for a client.
func addrs(nodes []*node) string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.addr())
	}
	return strings.Join(all, ",")
}

// leader returns the server that leads the stream of a bucket.
func leader(t testing.TB, nodes []*node, d *driver) (l *node) {
	t.Helper()
	testbed.Eventually(t, time.Minute, "the stream has a leader", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := d.js.Stream(ctx, "KV_"+d.bucket)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(nodes, func(n *node) bool {
			c := s.CachedInfo().Cluster
			return len(nodes) == 1 || c != nil && c.Leader == n.Name
		})
		if i < 0 {
			return errors.New("none")
		}
		l = nodes[i]
		return nil
	})
	return l
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
