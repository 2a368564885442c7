package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// manyLeases is more leases than one transaction checks, and than are read key by key.
const manyLeases = maxByKey + 30

// manyTTL is so long that only the time that a test simulates counts.
const manyTTL = time.Minute

// want fails the test unless an answer has an outcome.
func (n *node) want(what string, got backend.Answer, outcome backend.Outcome) {
	n.T.Helper()
	if got.Outcome != outcome {
		n.T.Fatalf("%s: %v (%v) with %+v, want %v", what, got.Outcome, got.Err, got.Lease, outcome)
	}
}

// winAll acquires count elections that are vacant.
func (n *node) winAll(count int, name string) (held []backend.Lease) {
	n.T.Helper()
	var names []backend.Lease
	for i := range count {
		names = append(names, backend.Lease{Election: fmt.Sprintf("%s%05d", name, i)})
	}
	free, err := n.Observe(n.Context(), names)
	if err != nil {
		n.T.Fatal(err)
	}
	n.TTL = manyTTL
	var bids []backend.Bid
	for _, l := range free {
		bids = append(bids, n.BidOver(l))
	}
	for _, a := range n.Makes(bids...) {
		n.want("a bid", a, backend.Granted)
		held = append(held, a.Lease)
	}
	return held
}

// wantRefused renews, and fails the test unless exactly the leases in gone are refused.
func (n *node) wantRefused(when string, held []backend.Lease, gone ...string) {
	n.T.Helper()
	for i, a := range n.RenewsAll(held...) {
		want := backend.Granted
		if slices.Contains(gone, held[i].Election) {
			want = backend.Refused
		}
		n.want(fmt.Sprintf("%s, a renewal of %s", when, held[i].Election), a, want)
	}
}

// Leading a thousand elections costs as many requests as leading ten, and so does following them.
func TestAThousandElectionsCostNoMoreRequests(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	for _, n := range []int{10, 1000} {
		a, b := l.node(t, "a"), l.node(t, "b")
		held := a.winAll(n, fmt.Sprint(n, " "))
		a.RenewsAll(held...)
		seen, err := b.Observe(t.Context(), held)
		testbed.NoError(t, err)
		_, err = b.Observe(t.Context(), seen) // only this one knows the sessions, and reads the key changes with them
		testbed.NoError(t, err)
		a.wire.take()
		b.wire.take()
		for range 3 {
			for _, answer := range a.RenewsAll(held...) {
				a.want("a renewal", answer, backend.Granted)
			}
			changed, err := b.Observe(t.Context(), seen)
			testbed.NoError(t, err)
			if len(changed) != n {
				t.Errorf("%d of %d leases have changed", len(changed), n)
			}
			seen = changed
		}
		// On a slow machine the leader may have to ask whether anything was edited.
		if leader, follower := len(a.wire.take()), len(b.wire.take()); leader < 3 || leader > 4 || follower != 3 {
			t.Errorf("three renewals of %d elections cost the leader %d requests and a follower %d, want 3", n, leader, follower)
		}
	}
}

// later lets so much time pass that the next renewal also asks whether anything was edited.
func (n *node) later() {
	n.driver.mu.Lock()
	defer n.driver.mu.Unlock()
	n.driver.records.at = n.driver.records.at.Add(-editsUnnoticed)
}

// The holder of many leases sees a manual edit of one of them soon.
func TestManualChangesAreSeenSoon(t *testing.T) {
	t.Parallel()
	agent := testbed.SharedConsul(t)
	for what, harm := range map[string]func(*testing.T, *lab, *api.KVPair){
		"deleted":            func(t *testing.T, l *lab, p *api.KVPair) { l.remove(t, p.Key) },
		"deleted, recreated": func(t *testing.T, l *lab, p *api.KVPair) { l.remove(t, p.Key); l.put(t, p.Key, p.Value, 0) },
		"edited":             func(t *testing.T, l *lab, p *api.KVPair) { l.put(t, p.Key, []byte("mine"), 0) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, agent)
			a := l.node(t, "a")
			held := a.winAll(manyLeases, "e")
			a.wantRefused("at first", held)
			name := held[7].Election
			harm(t, l, l.pair(t, l.record(name)))
			a.later()
			a.wantRefused("after that", held, name)
			a.wantRefused("later", held, name)
		})
	}
}

// A follower of many leases that listens sees a manual deletion soon, although it asks seldom.
func TestAListeningFollowerOfManyLeasesSeesADeletion(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.winAll(manyLeases, "e")
	seen, err := b.Observe(t.Context(), held)
	testbed.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() {
		for ctx.Err() == nil {
			b.Listen(ctx, seen)
		}
	})
	defer listening.Wait()
	defer stop()
	testbed.Eventually(t, time.Minute, "the follower listens to all", func() error {
		_, err := b.Observe(ctx, seen)
		b.driver.mu.Lock()
		defer b.driver.mu.Unlock()
		if err != nil || !b.driver.tooMany || b.driver.records.at.IsZero() {
			return fmt.Errorf("it has heard of %d, %v", b.driver.listened, err)
		}
		return nil
	})
	l.remove(t, l.record("e00007"))
	testbed.Eventually(t, editsUnnoticed/2, "the deletion is seen", func() error {
		changed, err := b.Observe(ctx, seen)
		if i := slices.IndexFunc(changed, func(l backend.Lease) bool { return l.Election == "e00007" }); err != nil || i < 0 {
			return fmt.Errorf("%d leases have changed, %v", len(changed), err)
		}
		return nil
	})
}

// A snapshot that is restored confirms no listing, even if the leader's session is in it as it was left.
func TestARestoredSnapshotConfirmsNoGrant(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.StartConsul(t, testbed.Options{}))
	a := l.node(t, "a")
	held := a.winAll(manyLeases, "e")
	a.wantRefused("at first", held)
	before := l.pair(t, l.session(a.Me.Nonce)).ModifyIndex
	saved, _, err := l.root.Snapshot().Save(nil)
	testbed.NoError(t, err)
	defer saved.Close()
	held = append(held, a.winAll(1, "lost")...)
	_, err = a.Observe(t.Context(), held)
	testbed.NoError(t, err)
	testbed.NoError(t, l.root.Snapshot().Restore(nil, saved))
	testbed.Eventually(t, time.Minute, "the restored key", func() error {
		_, _, err := l.root.KV().Get(l.record("e00000"), &api.QueryOptions{RequireConsistent: true})
		return err
	})
	if now := l.pair(t, l.session(a.Me.Nonce)).ModifyIndex; now != before {
		t.Fatalf("the session has index %d, and had %d: this shows nothing", now, before)
	}
	if lost := a.RenewsAll(held...)[len(held)-1]; !errors.Is(lost.Err, lease.ErrEpoch) {
		a.want("the lost grant", lost, backend.Refused)
	}
}

// Two members with many elections each share a prefix, and there are changes all the time. Each
// renewal costs a few requests more, and not one for each change.
func TestManyChangesCostFewRequestsPerRenewal(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	a, b := l.node(t, "a"), l.node(t, "b")
	mine, theirs := a.winAll(manyLeases, "a"), b.winAll(manyLeases, "b")
	for round := range 5 {
		b.Resigns(theirs[:20]...)
		theirs = append(theirs[20:], b.winAll(20, fmt.Sprint("round ", round, " "))...)
		a.wire.take()
		b.wire.take()
		a.wantRefused("amid changes", mine)
		b.wantRefused("amid changes", theirs)
		if n, m := len(a.wire.take()), len(b.wire.take()); n > 4 || m > 4 {
			t.Errorf("after 40 changes the renewals cost %d and %d requests, want 4 at most", n, m)
		}
	}
}

// The servers limit a transaction to half a MiB, and JSON encodes some characters in two bytes.
func TestLargeMetadataFitsIntoTransactions(t *testing.T) {
	t.Parallel()
	l := newLab(t, testbed.SharedConsul(t))
	n := l.node(t, "n")
	n.Me.Metadata = strings.Repeat(`"`, backend.MaxMetadata)
	var bids []backend.Bid
	for i := range 60 {
		bids = append(bids, n.BidOver(n.Sees(fmt.Sprint(i))))
	}
	for _, round := range []string{"first grants", "grants anew"} {
		for i, a := range n.Makes(bids...) {
			n.want(round, a, backend.Granted)
			bids[i].Expected = a.Lease
		}
	}
}
