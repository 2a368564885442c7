package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// A server answers on the same port after a kill and a start. A frozen server does not
// answer. The secure port speaks TLS with a certificate of the server's authority.
func TestZooKeeperAnswersAndComesBack(t *testing.T) {
	z := StartZooKeeper(t, ZooKeeperOptions{TLS: true})
	Eventually(t, startLimit, "a standalone server leads", func() error {
		if !z.Leads(t) { // not within two seconds
			return errors.New("it does not say so")
		}
		return nil
	})
	z.Kill(t)
	z.Start(t)
	z.Stop(t)
	if z.Leads(t) {
		t.Error("a frozen server answers")
	}
	z.Continue(t)
	Eventually(t, startLimit, "the server resumes", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := mode(ctx, z.Daemon)
		return err
	})
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: startLimit}, Config: z.TLSConfig()}
	c, err := d.DialContext(t.Context(), "tcp", z.Secure())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestAZooKeeperEnsembleReplacesItsLeader(t *testing.T) {
	servers := StartZooKeeperEnsemble(t, NewNetwork(t, 3), 3)
	leader := func() (at int) {
		at = -1
		Eventually(t, startLimit, "one leader", func() error {
			n := 0
			for i, s := range servers {
				if s.Running() && s.Leads(t) {
					at = i
					n++
				}
			}
			if n != 1 {
				return context.Canceled
			}
			return nil
		})
		return at
	}
	first := leader()
	servers[first].Kill(t)
	if second := leader(); second == first {
		t.Error("a server that was killed leads")
	}
	servers[first].Start(t)
}

// ZooKeeper writes its clock into the creation time of a node.
func TestStepMovesTheClockOfZooKeeper(t *testing.T) {
	z := StartZooKeeper(t, ZooKeeperOptions{Clock: true})
	c, _, err := zk.Connect([]string{z.Addr()}, 20*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const back = 72 * time.Hour
	z.Step(t, -back)
	if _, err := c.Create("/clock", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	_, stat, err := c.Get("/clock")
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Since(time.UnixMilli(stat.Ctime)); off < back || off > back+time.Hour {
		t.Errorf("the server's clock is %v behind, want %v", off, back)
	}
}
