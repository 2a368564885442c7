package kubernetes

import (
	"errors"
	"fmt"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/testbed"
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
