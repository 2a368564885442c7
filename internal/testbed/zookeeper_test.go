//go:build linux

package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// A server answers, and again after it was killed, on the same port; frozen it
// does not; the secure port speaks TLS with a certificate of its authority.
func TestAZooKeeperServerIsStartedTormentedAndGone(t *testing.T) {
	z := StartZooKeeper(t, ZooKeeperOptions{TLS: true})
	if text := z.Asks(t, "srvr"); !strings.Contains(text, "Mode: standalone") {
		t.Fatalf("want a server that is alone, got %s", text)
	}
	Eventually(t, startLimit, "a server that is alone leads", func() error {
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
	Eventually(t, startLimit, "the server to go on", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := zooKeeperSays(ctx, z.Addr(), "srvr")
		return err
	})
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: startLimit}, Config: z.TLSConfig()}
	c, err := d.DialContext(t.Context(), "tcp", z.Secure())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestAnEnsembleOfZooKeepersHasOneLeaderAndElectsAnother(t *testing.T) {
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

// The server's clock is what it writes into a node's creation time.
func TestTheClockOfAZooKeeperServerSteps(t *testing.T) {
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
