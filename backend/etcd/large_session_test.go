package etcd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
)

// leadMany makes the node the leader of many elections with long names.
func (n *node) leadMany(count, length int) (all []backend.Held) {
	n.t.Helper()
	var seen []backend.Lease
	for i := range count {
		name := fmt.Sprintf("%06d", i)
		seen = append(seen, backend.Lease{Election: name + strings.Repeat("x", length-len(name))})
	}
	ctx, cancel := n.ctx()
	defer cancel()
	seen, err := n.Observe(ctx, seen)
	if err != nil {
		n.t.Fatal(err)
	}
	var bids []backend.Bid
	for _, l := range seen {
		bids = append(bids, backend.Bid{Election: l.Election, Candidate: n.me, TTL: time.Minute, Renew: 20 * time.Second, Expected: l})
	}
	answers, err := n.Acquire(ctx, bids)
	for _, a := range answers {
		if a.Outcome != backend.Granted {
			n.t.Fatalf("a bid for one of %d: %v, %v, %v; want granted", count, a.Outcome, a.Err, err)
		}
		all = append(all, a.Lease.Held())
	}
	return all
}

// renewAll renews leases and returns those that were refused.
func (n *node) renewAll(all []backend.Held) (refused []string) {
	n.t.Helper()
	ctx, cancel := n.ctx()
	defer cancel()
	answers, err := n.Renew(ctx, all)
	for i, a := range answers {
		switch a.Outcome {
		case backend.Granted:
		case backend.Refused:
			refused = append(refused, all[i].Election)
		default:
			n.t.Fatalf("a renewal of %d: %v, %v", len(all), a.Err, err)
		}
	}
	return refused
}

// Thousands of leases are renewed by one request. Those that were taken
// over, deleted or deposed are refused, wherever they are in the ranges.
func TestOnlyLostLeasesOfThousandsAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	all := a.leadMany(4000+100, 20)
	if refused := a.renewAll(all); refused != nil {
		t.Fatalf("refused: %v", refused)
	}
	lost := []string{all[3].Election, all[2000].Election, all[4000+50].Election}
	b.mustTakeOver(b.read(lost[0]))
	l.del(t, l.record(lost[1]))
	ctx, cancel := b.ctx()
	defer cancel()
	if err := b.Request(ctx, []backend.Request{{Election: lost[2], Term: all[4000+50].Term, Kind: backend.Depose}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if refused := a.renewAll(all); !slices.Equal(refused, lost) {
			t.Errorf("refused are %v; want %v", refused, lost)
		}
	}
}

// A session above the size that is read is not written. The renewed leases continue under another
// one, so that challengers see the renewal and take nothing over.
func TestASessionKeyNeverExceedsTheReadLimit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	all := a.leadMany(9000, backend.MaxName)
	var half []backend.Held // fewer than the others, so that they are in Apart
	for i := 1; i < len(all)-2; i += 2 {
		half = append(half, all[i])
	}
	full := l.generation(t, a)
	for round := range 3 {
		seen := b.read(half[7].Election)
		if refused := a.renewAll(half); refused != nil {
			t.Fatalf("renewal %d: refused are %d", round, len(refused))
		}
		if now := b.read(half[7].Election); now.Unchanged(seen) {
			t.Fatalf("renewal %d was granted, but b does not see it: b still reads %+v", round, now)
		}
		b.mustLose(seen, "though it was renewed since")
		if size := len(l.value(t, l.session(a))); size > lease.MaxValue {
			t.Errorf("renewal %d wrote %d bytes into the session; at most %d are read", round, size, lease.MaxValue)
		}
	}
	if l.generation(t, a) == full {
		t.Error("the leases are still under the session that is full")
	}
}
