package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// manager starts a manager that campaigns for elections.
func manager(t *testing.T, id string, ttl time.Duration, o Options, names ...string) (*election.Manager, []*election.Election) {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := election.New(b, election.Options{ID: id, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		m.Close(ctx)
	})
	var list []*election.Election
	for _, name := range names {
		e, err := m.Join(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Lead(func(ctx context.Context, _ *election.Leadership) error { <-ctx.Done(); return nil }); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return m, list
}

// After a resignation the next leader follows within milliseconds: a watch, one grant, and
// at most one new connection.
func TestAHandoverTakesMilliseconds(t *testing.T) {
	t.Parallel()
	const ttl = wideSession / 2 // a busy machine must not change the leader; and no read is due soon
	o := shared(t)
	_, first := manager(t, "a", ttl, o, "jobs")
	_, second := manager(t, "b", ttl, o, "jobs")
	both := []*election.Election{first[0], second[0]}
	var took []time.Duration
	for range 7 {
		pause(t, ttl*3/4) // until the resigned member is back in the queue
		var leader, other *election.Election
		testbed.Eventually(t, patience, "a leader", func() error {
			for i, e := range both {
				if e.Leading() {
					leader, other = e, both[1-i]
					return nil
				}
			}
			return errNone
		})
		testbed.Eventually(t, patience, "the other to know the leader", func() error {
			if _, _, ok := other.Leader(); !ok {
				return errNone
			}
			return nil
		})
		elected := make(chan time.Time, 1)
		stop := other.Watch(func(e election.Event) {
			if e.Leading {
				select {
				case elected <- time.Now():
				default:
				}
			}
		})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := leader.Resign(ctx)
		cancel()
		if err != nil {
			t.Logf("resign: %v", err) // a busy machine may have cost it the leadership
			stop()
			continue
		}
		select {
		case at := <-elected:
			took = append(took, at.Sub(began))
		case <-time.After(patience):
			t.Fatalf("the other does not lead %v after the leader has resigned", patience)
		}
		stop()
	}
	slices.Sort(took)
	if len(took) == 0 {
		t.Fatal("no handover could be measured")
	}
	median := took[len(took)/2]
	t.Logf("handovers: median %v, worst %v", median, took[len(took)-1])
	if median > 500*time.Millisecond { // on a busy machine; some milliseconds otherwise
		t.Errorf("a handover has taken %v at the median", median)
	}
}

// A thousand idle elections cost no more requests than ten.
func TestAThousandIdleElectionsCostAsManyRequestsAsTen(t *testing.T) {
	t.Parallel()
	reserve(t, 1)
	server := testbed.StartZooKeeper(t, testbed.ZooKeeperOptions{})
	const long = 6 * time.Second // a busy machine must not end a leadership
	cost := func(n, enough int) int {
		o := Options{Servers: []string{server.Addr()}, Root: fmt.Sprintf("/n%d", n), Tick: tick, MaxSession: 2 * long}
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("jobs%04d", i))
		}
		_, leads := manager(t, "a", long, o, names...)
		all := func() error {
			for _, e := range leads {
				if !e.Leading() {
					return errNone
				}
			}
			return nil
		}
		testbed.Eventually(t, patience, "all to be led", all)
		_, follows := manager(t, "b", long, o, names...)
		testbed.Eventually(t, patience, "all leaders to be known", func() error {
			for _, e := range follows {
				if _, _, ok := e.Leader(); !ok {
					return errNone
				}
			}
			return nil
		})
		received := func() (n int) {
			for _, line := range strings.Split(server.Asks(t, "srvr"), "\n") {
				fmt.Sscanf(line, "Received: %d", &n)
			}
			return n
		}
		least := 1 << 30
		for try := 0; try < 6 && least > enough; try++ { // the first may include start-up
			before := received()
			pause(t, long)
			least = min(least, received()-before)
		}
		return least
	}
	few := cost(10, 30)
	many := cost(1000, few+60) // includes the ten
	t.Logf("requests in a TTL, leader and follower: 10 elections %d, and with 1000 more %d", few, many)
	if many > few+60 {
		t.Errorf("1000 idle elections cost %d requests in a TTL, 10 cost %d", many-few, few)
	}
}

// A member that waits behind other programs and loses its node, to an operator or with its
// session, queues again when another member leads.
func TestALostQueueNodeIsCreatedAgain(t *testing.T) {
	t.Parallel()
	o := shared(t)
	admin := dial(t, o.Servers)
	l, err := newLayout(o)
	if err != nil {
		t.Fatal(err)
	}
	other := newClient(t, "other", o)
	if err := other.release(other.win(t, "jobs")); err != nil { // creates the queue
		t.Fatal(err)
	}
	first := queueForeign(t, admin, l, "jobs")
	_, list := manager(t, "a", wideSession/2, o, "jobs")
	queued := func(what string) (path string) {
		t.Helper()
		testbed.Eventually(t, patience, what, func() error {
			names, _, err := admin.Children(l.lockPath("jobs"))
			for _, name := range names {
				if l.isOurs(name) {
					path = l.lockPath("jobs") + "/" + name
					return nil
				}
			}
			return errors.Join(err, errors.New("none of ours"))
		})
		return path
	}
	place := queued("a place in the queue")
	second := queueForeign(t, admin, l, "jobs")
	for _, path := range []string{place, first} {
		if err := admin.Delete(path, -1); err != nil {
			t.Fatal(err)
		}
	}
	queued("another place, now that somebody else leads")
	if list[0].Leading() {
		t.Error("it leads behind another program's node")
	}
	if err := admin.Delete(second, -1); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, patience, "a leadership after the other program has gone", func() error {
		if !list[0].Leading() {
			return errNone
		}
		return nil
	})
}
