package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// The record of a member that has ended is deleted by another one that has seen it unchanged for two
// TTLs. One that ends in order deletes its own.
func TestRecordsOfMembersThatHaveEndedAreDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	ctx := t.Context()
	dead, closed, alive := l.node(t, "dead"), l.node(t, "closed"), l.node(t, "alive")
	for _, n := range []*node{dead, closed, alive} {
		if err := n.Announce(ctx, backend.Member{Candidate: n.me, TTL: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	if err := closed.Close(); err != nil {
		t.Error(err)
	}
	testbed.Eventually(t, patient, "only the living member has a record", func() error {
		if err := alive.Announce(ctx, backend.Member{Candidate: alive.me, TTL: time.Second}); err != nil {
			return err
		}
		members, err := alive.Members(ctx, "", 10)
		if err != nil {
			return err
		}
		leases, err := l.admin.List(ctx, meta.ListOptions{LabelSelector: kindKey + "=" + kindMember})
		if err != nil {
			return err
		}
		if len(members) != 1 || members[0].ID != "alive" || len(leases.Items) != 1 {
			return fmt.Errorf("%d members, %d Leases of members", len(members), len(leases.Items))
		}
		return nil
	})
	if err := dead.Announce(ctx, backend.Member{Candidate: dead.me, TTL: time.Second}); err != nil {
		t.Errorf("a member whose record was deleted, since it was cut off, cannot announce itself again: %v", err)
	}
	if _, err := closed.Members(ctx, "", 1); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

// The server takes connections, and answers nothing. A call ends with its context although another one waits for longer.
func TestACallDoesNotWaitForAnotherThatHangs(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	b, err := Open(Options{Config: &rest.Config{Host: "http://" + silent.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	hanging, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Announce(hanging, backend.Member{Candidate: backend.Candidate{ID: "a", Nonce: backend.NewNonce()}, TTL: time.Second})
	}()
	testbed.Eventually(t, patient, "a process announces itself", func() error {
		if len(b.announcing) == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	returned := make(chan error, 1)
	go func() {
		_, err := b.Members(ctx, "", 1)
		returned <- err
	}()
	select {
	case err := <-returned:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Members: %v, want that its deadline has passed", err)
		}
	case <-time.After(patient):
		t.Error("Members waits for Announce")
	}
	end()
	<-ended
}
