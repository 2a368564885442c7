package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

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
	if err != nil {
		t.Fatal(err)
	}
	d.Write(ctx, v.Epoch, 0, nil, nil)
	client, err := d.session.Ready(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := client.SessionID()
	admin, ephemeral := testbed.DialZooKeeper(t, []string{server.Addr()}), string(d.root)+"/ephemeral"
	if _, err := client.Create(ephemeral, nil, zk.FlagEphemeral, d.ACL); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("late: %v; session %x then %x", late, id, now.SessionID())
	if now.SessionID() == id {
		t.Fatal("a session that has ended goes on")
	}
	if late == nil {
		t.Error("the request of one session was made in the next")
	}
}
