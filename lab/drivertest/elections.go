package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/internal/testrules"
	"github.com/go-election/go-election/lab/testbed"
)

// Join opens a manager that has joined these elections and jobs, and returns the first one. It closes the
// manager after the test.
func Join(t testing.TB, id string, ttl time.Duration, b backend.Backend, names ...string) *election.Election {
	t.Helper()
	m, err := election.New(b, election.Options{ID: id, TTL: ttl})
	testbed.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		m.Close(ctx)
	})
	for _, name := range append(names, "jobs") {
		_, err := m.Join(name)
		testbed.NoError(t, err)
	}
	return m.Election(append(names, "jobs")[0])
}

// LeadsAlone waits until next leads. At that instant before must not.
func LeadsAlone(t testing.TB, next, before *election.Election) {
	t.Helper()
	began := time.Now()
	for !next.Leading() {
		if time.Since(began) > patience {
			t.Fatalf("it does not lead: %v", next.Current())
		}
		<-time.After(time.Millisecond)
	}
	if before.Leading() {
		t.Fatalf("two leaders, %v after the fault: %v", time.Since(began), before.Current())
	}
}

// Leads waits until a member leads.
func Leads(t testing.TB, e *election.Election) {
	t.Helper()
	testbed.Eventually(t, patience, "it leads", func() error {
		if !e.Leading() {
			return errors.New(e.Current().String())
		}
		return nil
	})
}

// Settle opens a manager that campaigns for n elections, and waits until it leads them or knows the leader.
func Settle(t testing.TB, b backend.Backend, n int, ttl time.Duration, leads bool) {
	t.Helper()
	m, err := election.New(b, election.Options{ID: fmt.Sprint("leads ", leads), TTL: ttl})
	testbed.NoError(t, err)
	var joined []*election.Election
	for k := range n {
		e, err := m.Join(fmt.Sprintf("jobs%04d", k))
		testbed.NoError(t, err)
		testbed.NoError(t, e.Lead(nil))
		joined = append(joined, e)
	}
	testbed.Eventually(t, patience, "the manager has settled", func() error {
		for _, e := range joined {
			if _, _, known := e.Leader(); !known || leads && !e.Leading() {
				return errors.New(e.Current().String())
			}
		}
		return nil
	})
}

// HandsOver lets a lead and b follow, and waits until ready returns nil. Then a resigns, and b must lead
// within limit, which allows for all other tests: alone it takes milliseconds.
func HandsOver(t testing.TB, a, b *election.Election, limit time.Duration, ready func() error) {
	t.Helper()
	led, err := a.Campaign(t.Context())
	testbed.NoError(t, err)
	testbed.NoError(t, b.Lead(nil))
	testbed.Eventually(t, patience, "b follows and listens", ready)

	began := time.Now()
	testbed.NoError(t, led.Resign(t.Context()))
	Leads(t, b)
	took := time.Since(began)
	t.Logf("the handover took %v", took)
	if took > limit {
		t.Errorf("the handover took %v, more than %v", took, limit)
	}
}

// FollowsOneLeader tells connections of a process something, which open makes it use, while another one
// leads. It must follow that one, and lead after it in a greater term: told by somebody, it must not elect by
// another table.
func FollowsOneLeader(tb testing.TB, old *election.Election, tell func(), open func() *election.Election) {
	t := testrules.T{TB: tb}
	led, err := old.Campaign(t.Context())
	testbed.NoError(t, err)
	tell()
	newer := open()
	testbed.NoError(t, newer.Lead(nil))
	testbed.Eventually(t, patience, "the new process follows the old one", func() error {
		if newer.Leading() && old.Leading() {
			t.Fatal("two processes lead one election, each in a schema of its own")
		}
		if who, term, known := newer.Leader(); !known || term != led.Term {
			return fmt.Errorf("%v leads: %v", who, newer.Current())
		}
		return nil
	})
	t.Want(led.Leading(), "the leadership has ended: %v", old.Current())

	tell() // what was opened since, too
	testbed.NoError(t, led.Resign(t.Context()))
	Leads(t, newer)
	term, most := newer.Leadership().Term, led.Term+uint64(time.Hour/time.Microsecond)
	t.Want(term > led.Term && term <= most, "the next term is %d, after %d", term, led.Term)
}

// CostsLittle lets a manager lead a thousand elections, and then another one follow it. spent counts the
// requests of both so far: in a TTL at most alone, and then both.
func CostsLittle(t testing.TB, open func() backend.Backend, spent func() int, alone, both int) {
	t.Helper()
	const ttl, idle = 9 * time.Second, 18 * time.Second
	for candidates, perTTL := range []int{alone, both} {
		Settle(t, open(), 1000, ttl, candidates == 0)
		// Twice as many are allowed, since new connections are set up. On a busy machine requests are sent
		// again, until it is calm for a while.
		most := 2*int(idle/ttl)*perTTL + 2
		testbed.Eventually(t, patience, "few requests are sent", func() error {
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

// KeepsLeading fails the test if a leadership ends within d.
func KeepsLeading(t testing.TB, led *election.Leadership, d time.Duration) {
	t.Helper()
	began := time.Now()
	select {
	case <-led.Context().Done():
		t.Fatalf("it has ended after %v of %v: %v", time.Since(began), d, context.Cause(led.Context()))
	case <-time.After(d):
	}
}

// DeadConnectionsCostOneCall makes four calls through a proxy at once, so that each has a connection of its
// own. Then all are dead, as when a firewall has forgotten them: the second call after that must be answered,
// and not wait on another one of them.
func DeadConnectionsCostOneCall(t testing.TB, proxy *testbed.Proxy, call func(limit time.Duration) error) {
	t.Helper()
	proxy.Hold(true)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { call(time.Minute) })
	}
	testbed.Eventually(t, patience, "there are connections", func() error {
		if n := proxy.Open(); n < 4 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	proxy.Hold(false)
	all.Wait()

	proxy.Break()
	if err := call(time.Second); err == nil {
		t.Error("a dead connection has answered")
	}
	testbed.NoError(t, call(10*time.Second))
}

// StepsDownFirst lets a lead and the others campaign, and cuts a off. It leads until its lease expires, and
// only then does one of the others. When a is back, it knows who leads.
func StepsDownFirst(t testing.TB, cut func(on bool), a *election.Election, others ...*election.Election) {
	t.Helper()
	led, err := a.Campaign(t.Context())
	testbed.NoError(t, err)
	for _, e := range others {
		testbed.NoError(t, e.Lead(nil))
	}
	OneLeaderAtMost(t, append(slices.Clone(others), a)...)

	cut(true)
	testbed.Eventually(t, patience, "one of the others leads", func() error {
		for _, e := range others {
			if now := e.Leadership(); now != nil {
				if led.Leading() || now.Term <= led.Term {
					t.Fatalf("one leads in term %d, and the one that is cut off: %v", now.Term, a.Current())
				}
				return nil
			}
		}
		return errors.New(others[0].Current().String())
	})

	cut(false)
	testbed.Eventually(t, patience, "the one that was cut off knows who leads", func() error {
		// The leader may have changed once more: servers that come back may choose another one.
		who, _, _ := a.Leader()
		for _, e := range append(slices.Clone(others), a) {
			if leader, _, known := e.Leader(); known && e.Leading() && leader == who {
				return nil
			}
		}
		return errors.New(a.Current().String())
	})
}

// OneLeaderAtMost fails the test if two of the elections lead, until the test ends.
func OneLeaderAtMost(t testing.TB, elections ...*election.Election) {
	stopped := make(chan struct{})
	t.Cleanup(func() { <-stopped })
	go func() {
		defer close(stopped)
		for {
			var first *election.Election
			for _, e := range elections {
				switch {
				case !e.Leading():
				case first == nil:
					first = e
				case first.Leading(): // still, after the second was seen leading
					t.Errorf("two leaders: %v and %v", first.Current(), e.Current())
					return
				}
			}
			select {
			case <-t.Context().Done(): // the test ends
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
}
