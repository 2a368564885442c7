package kubernetes

import (
	"errors"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/lab/testbed"
)

// The record of a member that is gone is deleted by the next one that starts. One that ends in order deletes its own.
func TestRecordsOfMembersThatAreGoneAreDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedKubernetes(t))
	ctx := t.Context()
	announce := func(n *node) {
		t.Helper()
		if err := n.Announce(ctx, backend.Member{Candidate: n.me, TTL: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	gone, closed, alive, next := l.node(t, "gone"), l.node(t, "closed"), l.node(t, "alive"), l.node(t, "next")
	announce(gone)
	announce(closed)
	announce(alive)
	if err := closed.Close(); err != nil {
		t.Error(err)
	}
	record, err := l.admin.Get(ctx, naming{}.member(gone.me.Nonce), meta.GetOptions{})
	if err == nil {
		record.Spec.RenewTime = &meta.MicroTime{Time: time.Now().Add(-2 * goneAfter)}
		_, err = l.admin.Update(ctx, record, meta.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	announce(next)

	leases, err := l.admin.List(ctx, meta.ListOptions{LabelSelector: kindKey + "=" + kindMember})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(leases.Items); n != 2 {
		t.Errorf("%d members have records; want the 2 that are there", n)
	}
	announce(gone) // it was only cut off
	if _, err := closed.Members(ctx, "", 1); !errors.Is(err, backend.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}
