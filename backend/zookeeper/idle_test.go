package zookeeper

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-election/go-election/internal/testbed"
)

// A process that makes no writes keeps the connection of its session.
func TestAnIdleSessionKeepsItsConnection(t *testing.T) {
	t.Parallel()
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{Config: []string{"minSessionTimeout=300", "maxSessionTimeout=1500"}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var connections atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			s, err := net.Dial("tcp", server.Addr())
			if err != nil {
				c.Close()
				continue
			}
			go func() { defer s.Close(); copyAll(s, c) }()
			go func() { defer c.Close(); copyAll(c, s) }()
		}
	}()
	a := ensemble.Access{Servers: []string{l.Addr().String()}}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	s := ensemble.NewSession(&a, sessionLength)
	defer s.Close(true)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	<-time.After(10 * time.Second)
	if n := connections.Load(); n > 1 {
		t.Errorf("%d connections in 10 s", n)
	}
}

// A manager that closes has waited for its lease already.
func TestCloseDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	fastest := time.Hour // a busy machine may be slow once
	for range 3 {
		p := start(t, "a", Options{Servers: []string{server.Addr()}})
		p.read("billing")
		server.Stop(t)
		began := time.Now()
		if err := p.driver.Close(); err != nil {
			t.Fatal(err)
		}
		fastest = min(fastest, time.Since(began))
		server.Continue(t)
	}
	if fastest > 800*time.Millisecond {
		t.Errorf("Close has taken %v at the least", fastest)
	}
}

func copyAll(to, from net.Conn) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}
