package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// A lease that its holder no longer renews expires, although others of the same session are
// renewed.
func TestAnUnrenewedLeaseExpiresBesideOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	left, held := a.lead("left"), a.lead("held")
	held = a.mustRenew(held)
	seen := b.mustBeWatched("left", "it is held")
	for range 3 {
		held = a.mustRenew(held)
	}
	if now := b.read("left"); !now.Unchanged(seen) {
		t.Errorf("a lease that was not renewed: %+v, before %+v; want the watch to continue", now, seen)
	}
	b.mustTakeOver(seen)
	a.mustRefuse(left, "which was taken over")
	a.mustRenew(held)
}

// A takeover is compared with its last read: a renewal after that read prevents it, and a
// renewal after the takeover is refused.
func TestALastMomentRenewalPreventsTakeover(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	held := a.lead("jobs")
	b.lead("other") // so that it has a session
	for range 2 {
		seen := b.mustBeWatched("jobs", "it is held")
		b.hook.before = func(func() (lease.Written, error)) bool {
			held = a.mustRenew(held)
			return true
		}
		b.mustLose(seen, "though it was renewed just before the takeover")
	}
	b.mustTakeOver(b.read("jobs"))
	a.mustRefuse(held, "which was taken over")
}

// A renewal whose answer is lost is not trusted, and the next one continues from the value
// that it left in the store.
func TestRenewalContinuesAfterALostAnswer(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	proxy := testbed.NewProxy(t, strings.TrimPrefix(l.endpoints[0], "http://"))
	o := l.options()
	o.Endpoints = []string{proxy.Addr()}
	a, b := openNode(t, "a", o), l.node(t, "b")
	held := a.mustRenew(a.lead("jobs"))
	generation, before := l.generation(t, a), b.read("jobs")
	proxy.CutReplies(true)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // time to arrive
	got, err := a.Renew(ctx, []backend.Held{held.Held()})
	cancel()
	if !errors.Is(err, backend.ErrUnavailable) || got[0].Outcome != backend.Unknown {
		t.Fatalf("a renewal without an answer: %v, %v; want ErrUnavailable and no outcome", got, err)
	}
	testbed.Eventually(t, patience, "the renewal is in the store", func() error {
		if now, err := b.tryRead("jobs"); err != nil || now.Unchanged(before) {
			return fmt.Errorf("the lease is as before: %w", err)
		}
		return nil
	})
	proxy.CutReplies(false)
	testbed.Eventually(t, patience, "the next renewal is answered", func() error {
		again, err := a.renew(held)
		if err == nil && again.Outcome != backend.Granted {
			t.Fatalf("the next renewal: %v; want granted", again.Outcome)
		}
		return err
	})
	if l.generation(t, a) != generation {
		t.Error("the session was abandoned for a lost answer")
	}
}

// One renewal of many leases refuses those that were taken over, deleted or deposed, and
// grants the others.
func TestOnlyLostLeasesOfManyAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a, b := l.node(t, "a"), l.node(t, "b")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for all calls
	defer cancel()
	var bids []backend.Bid
	for i := range 3 * maxByKey {
		bids = append(bids, backend.Bid{Election: fmt.Sprintf("jobs%03d", i), Candidate: a.me, TTL: ttl, Renew: ttl / 3, Expected: a.read(fmt.Sprintf("jobs%03d", i))})
	}
	won, err := a.Acquire(ctx, bids)
	if err != nil {
		t.Fatal(err)
	}
	var held []backend.Lease
	for _, w := range won {
		held = append(held, w.Lease)
	}
	lost := map[string]bool{"jobs003": true, "jobs050": true, "jobs119": true}
	b.mustTakeOver(b.read("jobs003"))
	b.read("jobs050")
	l.del(t, l.record("jobs050"))
	if err := b.Request(ctx, []backend.Request{{Election: "jobs119", Term: held[119].Term, Kind: backend.Depose}, {Election: "jobs007", Term: held[7].Term, Kind: backend.Nominate, ID: "b"}}); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		answers, err := a.Renew(ctx, testbed.Held(held...))
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range answers {
			want := backend.Granted
			if lost[held[i].Election] {
				want = backend.Refused
			}
			if got.Outcome != want || (got.Request.ID == "b") != (i == 7) {
				t.Errorf("round %d: %s: %v with request %+v, %v; want %v", round, held[i].Election, got.Outcome, got.Request, got.Err, want)
			}
		}
	}
}
