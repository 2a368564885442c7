package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// A request that waits in the library while it is not connected is not sent in another session.
func TestNoRequestIsSentInAnotherSession(t *testing.T) {
	t.Parallel()
	server := testbed.StartZooKeeper(t, testbed.Options{Args: []string{"minSessionTimeout=300", "maxSessionTimeout=600"}})
	var proxies []*testbed.Proxy
	var through []string
	for range 5 {
		p := testbed.NewProxy(t, server.Addr())
		proxies, through = append(proxies, p), append(through, p.Addr())
	}
	d := start(t, "", Options{Servers: through}).driver
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	v, err := d.Read(ctx, []lease.Key{{Kind: lease.Records, Name: "jobs"}})
	testbed.NoError(t, err)
	d.Write(ctx, v.Epoch, 0, nil, nil)
	client, err := d.session.Ready(ctx)
	testbed.NoError(t, err)
	id := client.SessionID()
	admin, ephemeral := testbed.DialZooKeeper(t, []string{server.Addr()}), string(d.root)+"/ephemeral"
	_, err = client.Create(ephemeral, nil, zk.FlagEphemeral, d.ACL)
	testbed.NoError(t, err)
	for _, p := range proxies {
		p.Cut(true)
	}
	for client.State() == zk.StateHasSession {
		<-time.After(time.Millisecond)
	}
	done := make(chan error, 1)
	go func() { // as if it was between Ready and the library
		_, err := client.Create(string(d.root)+"/late", nil, 0, d.ACL)
		done <- err
	}()
	testbed.Eventually(t, patience, "the end of the session", func() error {
		if exists(t, admin, ephemeral) {
			return errors.New("it goes on")
		}
		return nil
	})
	for _, p := range proxies {
		p.Cut(false)
		p.Reset()
	}
	var late error
	select {
	case late = <-done:
	case <-ctx.Done():
		t.Fatal("no answer")
	}
	now, err := d.session.Ready(ctx)
	testbed.NoError(t, err)
	if now.SessionID() == id || late == nil {
		t.Errorf("a request of session %x: %v, in session %x; want it to be made in no session", id, late, now.SessionID())
	}
}

// A member that has not changed is announced by its session alone, as long as that is there.
func TestAnUnchangedMemberIsWrittenOnlyWhenItsSessionIsLost(t *testing.T) {
	t.Parallel()
	servers := testbed.SharedZooKeeper(t)
	root, proxy, admin := newRoot(t, servers), testbed.NewProxy(t, servers[0]), testbed.DialZooKeeper(t, servers)
	p := start(t, "a", Options{Servers: []string{proxy.Addr()}, Root: root})
	p.driver.session.Length = 4 * time.Second
	announce := func() error {
		return p.Announce(p.Context(), backend.Member{Candidate: p.Me, TTL: time.Second})
	}
	written := func() int64 {
		t.Helper()
		testbed.Eventually(t, patience, "an announcement", announce)
		ok, stat, err := admin.Exists(p.session())
		if err != nil || !ok {
			t.Fatalf("a member that was announced is not there: %v", err)
		}
		return stat.Mzxid
	}
	first := written()
	if again := written(); again != first {
		t.Errorf("a member that has not changed was written in %d and %d", first, again)
	}
	proxy.Cut(true)
	testbed.Eventually(t, patience, "the connection is found dead", func() error {
		if p.driver.session.Connected() {
			return errors.New("it is not")
		}
		return nil
	})
	if err := announce(); err == nil {
		t.Error("a member is announced without a connection")
	}
	testbed.Eventually(t, patience, "the end of the session", func() error {
		if exists(t, admin, p.session()) {
			return errors.New("it goes on")
		}
		return nil
	})
	proxy.Cut(false)
	proxy.Reset()
	if again := written(); again == first {
		t.Error("a member whose session was lost was not written")
	}
}

// A manager that closes has waited for its lease already.
func TestCloseDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	server := testbed.StartZooKeeper(t, testbed.Options{})
	fastest := time.Hour // a busy machine may be slow once
	for range 3 {
		p := start(t, "a", Options{Servers: []string{server.Addr()}})
		p.read("billing")
		server.Stop(t)
		began := time.Now()
		testbed.NoError(t, p.driver.Close())
		fastest = min(fastest, time.Since(began))
		server.Continue(t)
	}
	if fastest > 800*time.Millisecond {
		t.Errorf("Close has taken %v at the least", fastest)
	}
}
