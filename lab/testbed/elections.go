package testbed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// Join opens a manager that has joined the election jobs. It closes the manager after the test.
func Join(t testing.TB, id string, ttl time.Duration, b backend.Backend) *election.Election {
	t.Helper()
	m, err := election.New(b, election.Options{ID: id, TTL: ttl})
	noError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		m.Close(ctx)
	})
	e, err := m.Join("jobs")
	noError(t, err)
	return e
}

// Settle opens a manager that campaigns for n elections, and waits until it leads them or knows the leader.
func Settle(t testing.TB, b backend.Backend, n int, ttl time.Duration, leads bool) {
	t.Helper()
	m, err := election.New(b, election.Options{ID: fmt.Sprint("leads ", leads), TTL: ttl})
	noError(t, err)
	var joined []*election.Election
	for k := range n {
		e, err := m.Join(fmt.Sprintf("jobs%04d", k))
		noError(t, err)
		noError(t, e.Lead(nil))
		joined = append(joined, e)
	}
	Eventually(t, patience, "the manager has settled", func() error {
		for _, e := range joined {
			if _, _, known := e.Leader(); !known || leads && !e.Leading() {
				return errors.New(e.Current().String())
			}
		}
		return nil
	})
}

// LeadsAlone waits until next leads. At that instant before must not.
func LeadsAlone(t testing.TB, next, before *election.Election) {
	t.Helper()
	tick, began := time.NewTicker(time.Millisecond), time.Now()
	defer tick.Stop()
	for !next.Leading() {
		if time.Since(began) > patience {
			t.Fatalf("it does not lead: %v", next.Current())
		}
		<-tick.C
	}
	if before.Leading() {
		t.Fatalf("two leaders, %v after the fault: %v", time.Since(began), before.Current())
	}
}

// HandsOver lets a lead and b follow, and waits until ready returns nil. Then a resigns, and b must lead within limit,
// which allows for all other tests: alone it takes milliseconds.
func HandsOver(t testing.TB, a, b *election.Election, limit time.Duration, ready func() error) {
	t.Helper()
	led, err := a.Campaign(t.Context())
	noError(t, err)
	elected := make(chan time.Time, 10)
	b.Watch(func(ev election.Event) {
		if ev.Leading && ev.Kind == election.Elected {
			elected <- time.Now()
		}
	})
	noError(t, b.Lead(nil))
	Eventually(t, patience, "b follows and listens", ready)

	began := time.Now()
	noError(t, led.Resign(t.Context()))
	took := (<-elected).Sub(began)
	t.Logf("the handover took %v", took)
	if took > limit {
		t.Errorf("the handover took %v, more than %v", took, limit)
	}
}

// A replicated server is a primary, or a replica that can be promoted.
type replicated[S any] interface {
	Addr() string
	Proxy(t testing.TB) *Proxy
	Kill(t testing.TB)
	CatchUp(t testing.TB, primary S)
	StopReplication(t testing.TB)
	Promote(t testing.TB)
}

// WatchesItsOwnLeftover promotes a replica that shows the leadership of A, which has resigned since. The lost primary
// has granted the lease to B, which still leads. A sees that the lease is its own, and must watch it for the greatest
// TTL all the same. The join function opens a member with this greatest TTL, behind a proxy.
func WatchesItsOwnLeftover[S replicated[S]](t testing.TB, primary, replica S, greatest time.Duration, join func(id string, proxy *Proxy) *election.Election) {
	t.Helper()
	toA, toB := primary.Proxy(t), primary.Proxy(t)
	a, b := join("a", toA), join("b", toB)
	old, err := a.Campaign(t.Context())
	noError(t, err)
	replica.CatchUp(t, primary)
	replica.StopReplication(t)
	noError(t, old.Resign(t.Context()))
	lead, err := b.Campaign(t.Context())
	noError(t, err)
	noError(t, a.Lead(nil)) // campaigns, and observes B

	toB.Cut(true)
	primary.Kill(t)
	replica.Promote(t)
	promoted := time.Now()
	toA.SetTarget(replica.Addr())
	toA.Reset()
	if !b.Leading() {
		t.Fatal("the promotion took longer than the TTL")
	}
	LeadsAlone(t, a, b)
	if took := time.Since(promoted); took < greatest {
		t.Errorf("A leads %v after the promotion; it must observe a lease of another epoch for the greatest TTL, %v", took, greatest)
	}
	if now := a.Leadership(); now != nil && now.Term <= lead.Term {
		t.Errorf("term %d after %d, which the replica never received", now.Term, lead.Term)
	}
}
