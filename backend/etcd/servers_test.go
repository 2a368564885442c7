package etcd

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/lab/testbed"
)

// calm has the options of clusters without faults: on a busy machine the members must not
// elect another leader of etcd.
var calm = testbed.EtcdOptions{Args: []string{"--heartbeat-interval=100", "--election-timeout=2000"}}

// TestConformanceOnThreeNodes runs the conformance suite on a cluster without faults.
func TestConformanceOnThreeNodes(t *testing.T) {
	t.Parallel()
	endpoints := urls(testbed.StartEtcdCluster(t, testbed.NewNetwork(t, 3), 3, calm))
	conformance.Run(t, harness(func(t testing.TB) conformance.Store { return newStore(t, endpoints) }))
}

// harness configures the conformance suite for etcd in real time.
func harness(newStore func(t testing.TB) conformance.Store) conformance.Harness {
	return conformance.Harness{TTL: 2 * time.Second, Late: time.Second, Short: true, Parallel: true, NewStore: newStore}
}

func urls(nodes []*testbed.EtcdNode) (all []string) {
	for _, n := range nodes {
		all = append(all, n.URL())
	}
	return all
}

// A fleet is some managers that campaign for one election. A goroutine checks every
// millisecond that no two of them lead.
type fleet struct {
	t         testing.TB
	elections []*election.Election
	stopped   chan struct{}
	stop      chan struct{}
	violation error
}

func newFleet(t testing.TB, ttl time.Duration, options ...Options) *fleet {
	t.Helper()
	c := &fleet{t: t, stop: make(chan struct{}), stopped: make(chan struct{})}
	for i, o := range options {
		b, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		m, err := election.New(b, election.Options{ID: fmt.Sprintf("m%d", i), TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), ttl)
			defer cancel()
			m.Close(ctx)
		})
		e, err := m.Join("jobs")
		if err != nil {
			t.Fatal(err)
		}
		c.elections = append(c.elections, e)
	}
	go func() {
		defer close(c.stopped)
		for {
			select {
			case <-c.stop:
				return
			case <-time.After(time.Millisecond):
			}
			var leading []string
			for i, s := range c.elections {
				if s.Leading() {
					leading = append(leading, fmt.Sprintf("m%d", i))
				}
			}
			if len(leading) > 1 && c.elections[0].Leading() { // the first one leads even after the others were checked
				c.violation = fmt.Errorf("two leaders: %v", leading)
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(c.stop)
		<-c.stopped
		if c.violation != nil {
			t.Error(c.violation)
		}
	})
	return c
}

// leadInOrder makes the first manager lead, then the others campaign.
func (c *fleet) leadInOrder() (term uint64) {
	c.t.Helper()
	for i, s := range c.elections {
		if err := s.Lead(nil); err != nil {
			c.t.Fatal(err)
		}
		if i == 0 {
			term = c.waitLeads(0)
		}
	}
	return term
}

// patience is how long an event may take on a busy machine; usually it takes a second or two.
const patience = 2 * time.Minute

// waitLeads waits until manager i leads, and returns its term.
func (c *fleet) waitLeads(i int) (term uint64) {
	c.t.Helper()
	testbed.Eventually(c.t, patience, fmt.Sprintf("m%d leads", i), func() error {
		l := c.elections[i].Leadership()
		if l == nil {
			return errors.New(c.elections[i].Current().String())
		}
		term = l.Term
		return nil
	})
	return term
}

// etcd's own leader is stopped, another member replaces it, and the old one continues. The
// election keeps its leader, and there is never a second one.
func TestALeaderSurvivesAChangeOfEtcdsLeader(t *testing.T) {
	t.Parallel()
	nodes := testbed.StartEtcdCluster(t, testbed.NewNetwork(t, 3), 3, testbed.EtcdOptions{})
	l := newLab(t, urls(nodes)...)
	const ttl = 15 * time.Second // etcd needs a second or two to choose, on a busy machine more
	c := newFleet(t, ttl, l.options(), l.options())
	term := c.leadInOrder()
	for range 2 {
		old := testbed.Leader(t, nodes)
		old.Stop(t)
		testbed.Leader(t, nodes, old)
		time.Sleep(ttl * 2 / 5) // a renewal falls into this time
		old.Continue(t)
	}
	time.Sleep(ttl * 2 / 5) // more than a TTL after the first change: a leadership without renewals would have ended
	if now := c.elections[0].Leadership(); now == nil || now.Term != term {
		t.Errorf("after etcd's leader has changed twice: %v; want the leadership of term %d to continue", c.elections[0].Current(), term)
	}
}

// A leader whose only endpoint is cut off from the other members steps down before another
// process leads. A member that led etcd when it was cut off confirms nothing.
func TestACutOffMemberConfirmsNothing(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"follower", "leader"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			network := testbed.NewNetwork(t, 3)
			nodes := testbed.StartEtcdCluster(t, network, 3, testbed.EtcdOptions{})
			led := testbed.Leader(t, nodes)
			at := 0
			for i, n := range nodes {
				if (n == led) == (role == "leader") {
					at = i
				}
			}
			var others []string
			for i, n := range nodes {
				if i != at {
					others = append(others, n.URL())
				}
			}
			l := newLab(t, others...)
			alone := l.options()
			alone.Endpoints = []string{nodes[at].URL()}
			c := newFleet(t, 3*time.Second, alone, l.options())
			term := c.leadInOrder()
			network.Host(at).Cut(t, true)
			testbed.Eventually(t, patience, "the leader that is cut off steps down", func() error {
				if c.elections[0].Leading() {
					return errors.New("it leads")
				}
				return nil
			})
			if now := c.waitLeads(1); now <= term {
				t.Errorf("term %d after term %d", now, term)
			}
			network.Host(at).Cut(t, false)
			testbed.Eventually(t, patience, "the first one knows the new leader", func() error {
				// The first one may lead again by now, if etcd has changed its leader.
				if who, _, _ := c.elections[0].Leader(); who.ID == "m1" && c.elections[1].Leading() || c.elections[0].Leading() {
					return nil
				}
				return errors.New(c.elections[0].Current().String())
			})
		})
	}
}

// A member of etcd that hangs costs no one a lease: calls that it does not answer are sent to
// another.
func TestCallsSucceedBesideAStoppedMember(t *testing.T) {
	t.Parallel()
	nodes := testbed.StartEtcdCluster(t, testbed.NewNetwork(t, 3), 3, calm)
	l := newLab(t, urls(nodes)...)
	a := l.node(t, "a")
	won, err := a.bid(a.read("jobs"), 30*time.Second)
	if err != nil || won.Outcome != backend.Granted {
		t.Fatal(won.Outcome, err)
	}
	led := testbed.Leader(t, nodes)
	for _, n := range nodes {
		if n != led {
			n.Stop(t)
			defer n.Continue(t)
			break
		}
	}
	for i := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		answers, err := a.Renew(ctx, []backend.Held{won.Lease.Held()})
		cancel()
		if err != nil || answers[0].Outcome != backend.Granted {
			t.Fatalf("renewal %d beside a member that hangs: %v, %v", i, answers, err)
		}
		seen := a.read(fmt.Sprint("more", i))
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		answers, err = a.Acquire(ctx, []backend.Bid{{Election: seen.Election, Candidate: a.me, TTL: 30 * time.Second, Renew: time.Second, Expected: seen}})
		cancel()
		if err != nil || answers[0].Outcome != backend.Granted {
			t.Fatalf("bid %d beside a member that hangs: %v, %v", i, answers, err)
		}
		if err := a.release(answers[0].Lease, backend.Released); err != nil {
			t.Fatalf("release %d beside a member that hangs: %v", i, err)
		}
	}
}
