package testbed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

// Join opens a manager that has joined the election jobs. It closes the manager after the test.
func Join(t testing.TB, id string, ttl time.Duration, b backend.Backend) *election.Election {
	t.Helper()
	m, err := election.New(b, election.Options{ID: id, TTL: ttl})
	NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		m.Close(ctx)
	})
	e, err := m.Join("jobs")
	NoError(t, err)
	return e
}

// Settle opens a manager that campaigns for n elections, and waits until it leads them or knows the leader.
func Settle(t testing.TB, b backend.Backend, n int, ttl time.Duration, leads bool) {
	t.Helper()
	m, err := election.New(b, election.Options{ID: fmt.Sprint("leads ", leads), TTL: ttl})
	NoError(t, err)
	var joined []*election.Election
	for k := range n {
		e, err := m.Join(fmt.Sprintf("jobs%04d", k))
		NoError(t, err)
		NoError(t, e.Lead(nil))
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
	NoError(t, err)
	elected := make(chan time.Time, 10)
	b.Watch(func(ev election.Event) {
		if ev.Leading && ev.Kind == election.Elected {
			elected <- time.Now()
		}
	})
	NoError(t, b.Lead(nil))
	Eventually(t, patience, "b follows and listens", ready)

	began := time.Now()
	NoError(t, led.Resign(t.Context()))
	took := (<-elected).Sub(began)
	t.Logf("the handover took %v", took)
	if took > limit {
		t.Errorf("the handover took %v, more than %v", took, limit)
	}
}

// FollowsBesideOneLeader tells connections of a process something, which open makes it use, while another one leads. It
// must follow that one, and lead after it in a greater term: told by somebody, it must not elect by another table.
func FollowsBesideOneLeader(t testing.TB, old *election.Election, tell func(), open func() *election.Election) {
	t.Helper()
	led, err := old.Campaign(t.Context())
	NoError(t, err)
	tell()
	newer := open()
	NoError(t, newer.Lead(nil))
	Eventually(t, patience, "the new process follows the old one", func() error {
		if newer.Leading() && old.Leading() {
			t.Fatal("two processes lead one election, each in a schema of its own")
		}
		if who, term, known := newer.Leader(); !known || term != led.Term {
			return fmt.Errorf("%v leads: %v", who, newer.Current())
		}
		return nil
	})
	if !led.Leading() {
		t.Errorf("the leadership has ended: %v", old.Current())
	}

	tell() // what was opened since, too
	NoError(t, led.Resign(t.Context()))
	Leads(t, newer)
	if term := newer.Leadership().Term; term <= led.Term || term > led.Term+uint64(time.Hour/time.Microsecond) {
		t.Errorf("the next term is %d, after %d", term, led.Term)
	}
}

// Leads waits until a member leads.
func Leads(t testing.TB, e *election.Election) {
	t.Helper()
	Eventually(t, patience, "it leads", func() error {
		if !e.Leading() {
			return errors.New(e.Current().String())
		}
		return nil
	})
}

// CostsLittle lets a manager lead a thousand elections, and then another one follow it. spent counts the requests of
// both so far: in a TTL at most alone, and then both.
func CostsLittle(t testing.TB, open func() backend.Backend, spent func() int, alone, both int) {
	t.Helper()
	const ttl, idle = 9 * time.Second, 18 * time.Second
	for candidates, perTTL := range []int{alone, both} {
		Settle(t, open(), 1000, ttl, candidates == 0)
		// Twice as many are allowed, since new connections are set up. On a busy machine requests are sent again, until
		// it is calm for a while.
		most := 2*int(idle/ttl)*perTTL + 2
		Eventually(t, patience, "few requests are sent", func() error {
			before := spent()
			<-time.After(idle)
			n := spent() - before
			t.Logf("%d candidates in 1000 elections for %v: %d requests", candidates+1, idle, n)
			if n > most {
				return fmt.Errorf("%d requests in %v, want at most %d", n, idle, most)
			}
			return nil
		})
	}
}

// A Replicated server is a primary, or a replica that can be promoted.
type Replicated[S any] interface {
	Addr() string
	Proxy(t testing.TB) *Proxy
	Kill(t testing.TB)
	CatchUp(t testing.TB, primary S) // the replica has all that the primary has written
	StopReplication(t testing.TB)    // the replica gets no further writes
	Promote(t testing.TB)            // the replica is a primary
}

// Failovers is the fault of a suite that kills a primary and promotes its replica, behind a proxy that leads to the
// primary. If loses is set, the replica lacks the last writes at each second failover. follow starts a replica.
func Failovers[S Replicated[S]](t testing.TB, proxy *Proxy, primary S, loses bool, follow func(primary S) S) conformance.Fault {
	replica, failovers := follow(primary), 0
	return func(bool, string) error {
		replica.CatchUp(t, primary)
		if loses && failovers%2 == 0 {
			replica.StopReplication(t)
			<-time.After(time.Second) // renewals that the replica will never see
		}
		failovers++
		primary.Kill(t)
		replica.Promote(t)
		proxy.SetTarget(replica.Addr())
		proxy.Reset()
		primary = replica
		replica = follow(primary)
		return nil
	}
}

// WatchesItsOwnLeftover promotes a replica that shows the leadership of A, which has resigned since. The lost primary
// has granted the lease to B, which still leads. A sees that the lease is its own, and must watch it for the greatest
// TTL all the same. The join function opens a member with this greatest TTL, behind a proxy.
func WatchesItsOwnLeftover[S Replicated[S]](t testing.TB, primary, replica S, greatest time.Duration, join func(id string, proxy *Proxy) *election.Election) {
	t.Helper()
	toA, toB := primary.Proxy(t), primary.Proxy(t)
	a, b := join("a", toA), join("b", toB)
	old, err := a.Campaign(t.Context())
	NoError(t, err)
	replica.CatchUp(t, primary)
	replica.StopReplication(t)
	NoError(t, old.Resign(t.Context()))
	lead, err := b.Campaign(t.Context())
	NoError(t, err)
	NoError(t, a.Lead(nil)) // campaigns, and observes B

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
