package natskv

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
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
	Port int
	Dir  string

	process *os.Process
	stdin   io.Closer
}

// serve is the server until its parent has ended.
func serve(text string) error {
	var n node
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return err
	}
	o := server.Options{Host: "127.0.0.1", Port: n.Port, JetStream: true, StoreDir: n.Dir, SyncAlways: true, NoSigs: true, NoLog: true}
	s, err := server.NewServer(&o)
	if err != nil {
		return err
	}
	go s.Start()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startNode starts a server.
func startNode(t testing.TB) *node {
	t.Helper()
	n := &node{Port: freePort(t), Dir: t.TempDir()}
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
			return fmt.Errorf("the server is not ready: %w", err)
		}
	}
}

func (n *node) kill() {
	n.process.Kill()
	n.stdin.Close()
	n.process.Wait()
}

func (n *node) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.Port) }

func freePort(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
