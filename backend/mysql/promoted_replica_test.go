package mysql

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/testbed"
)

// manager opens a manager on a new Backend behind a proxy.
func (l *lab) manager(t *testing.T, p *testbed.Proxy, id string, ttl time.Duration) (*election.Manager, *election.Election) {
	t.Helper()
	b, err := Open(Options{Config: p.Config(l.User)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := election.New(b, election.Options{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		m.Close(ctx)
	})
	e, err := m.Join("x")
	if err != nil {
		t.Fatal(err)
	}
	return m, e
}

// The promoted replica shows the leadership of A, which has resigned since. The lost primary
// has granted the lease to B, which still leads.
func TestAnOwnLeftoverOnAPromotedReplicaIsWatched(t *testing.T) {
	testbed.Each(t, func(t *testing.T, k testbed.Kind) {
		t.Parallel()
		const ttl, greatest = 9 * time.Second, 10 * time.Second // longer than a busy machine stalls
		primary, replica := testbed.StartPair(t, testbed.Options{Kind: k, Args: []string{"--sync-binlog=1"}})
		l := newLabOn(t, primary)
		l.exec(t, "UPDATE election_lease SET ttl_us = 10000000 WHERE name = ''")
		toA, toB := primary.Proxy(t), primary.Proxy(t)
		_, a := l.manager(t, toA, "a", ttl)
		_, b := l.manager(t, toB, "b", ttl)
		old, err := a.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		replica.WaitCaughtUp(t)
		replica.StopReplication(t)
		if err := old.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		lead, err := b.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Lead(nil); err != nil { // campaigns, and observes B
			t.Fatal(err)
		}
		toB.Cut(true)
		primary.Kill(t)
		replica.Promote(t)
		promoted := time.Now() // A sees it later
		toA.SetTarget(replica.Addr())
		toA.Reset()
		if !b.Leading() {
			t.Skip("the promotion took so long that B has stopped leading")
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !a.Leading() {
			if time.Since(promoted) > 2*callLimit {
				t.Fatalf("no leader %v after the promotion", 2*callLimit)
			}
			<-tick.C
		}
		if b.Leading() {
			t.Fatalf("two leaders %v after the promotion: B has %v left", time.Since(promoted), lead.Remaining())
		}
		if took := time.Since(promoted); took < greatest {
			t.Errorf("A leads %v after the promotion; it must observe its own leftover from another server for the greatest TTL, %v", took, greatest)
		}
		if now := a.Leadership(); now != nil && now.Term <= lead.Term {
			t.Errorf("term %d after %d, which the promoted replica never received", now.Term, lead.Term)
		}
	})
}
