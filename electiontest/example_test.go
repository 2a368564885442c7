package electiontest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

// The tests in this file are written as a user would write them.

// counter is the program under test: while it leads it does a piece of work once a second.
// It calls begin when the work begins, and the returned function when the work ends.
type counter struct {
	begin func(*election.Leadership) func()
}

func (c *counter) run(ctx context.Context, m *election.Manager) error {
	e, err := m.Join("count")
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.begin(lead)()
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// start starts the program in two processes.
func start(t *testing.T) (g *electiontest.Group, a, b *electiontest.Process) {
	g = electiontest.New(t, election.Options{TTL: 10 * time.Second})
	a, b = g.Start("a"), g.Start("b")
	c := &counter{begin: g.Work}
	go c.run(t.Context(), a.Manager)
	go c.run(t.Context(), b.Manager)
	return g, a, b
}

func TestAnotherTakesOverAfterTheLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, _ := start(t)
		first := g.Leader("count")
		time.Sleep(time.Minute)
		if g.Expire("count") != first {
			t.Error("the leader changed without a fault")
		}
		if g.Leader("count") == first {
			t.Error("the lease has expired, and no other process leads")
		}
		time.Sleep(time.Minute)
		terms := g.Worked("count")
		if n := len(terms); n < 110 || terms[0] == terms[n-1] {
			t.Errorf("%d pieces of work in two minutes under terms %v", n, terms)
		}
	})
}

func TestHandOverMovesTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, a, b := start(t)
		for _, next := range []*electiontest.Process{b, a, b} {
			g.HandOver("count", next)
			time.Sleep(time.Minute)
			if g.Leader("count") != next {
				t.Errorf("%s was nominated and does not lead a minute later", next.ID())
			}
		}
	})
}

func TestNobodyLeadsWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, a, b := start(t)
		g.Leader("count")
		g.Fail(backend.ErrUnavailable)
		time.Sleep(time.Minute)
		before := len(g.Worked("count"))
		time.Sleep(time.Minute)
		if n := len(g.Worked("count")); n != before || a.Election("count").Leading() || b.Election("count").Leading() {
			t.Errorf("work goes on while the store is down: %d pieces, %d a minute earlier", n, before)
		}
		g.Fail(nil)
		g.Leader("count")
	})
}

func TestADeniedLeaderLosesTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, _ := start(t)
		denied := g.Leader("count")
		denied.Fail(backend.ErrDenied)
		time.Sleep(20 * time.Second)
		if g.Leader("count") == denied {
			t.Error("the denied process still leads after two TTLs")
		}
		denied.Heal()
		time.Sleep(time.Minute)
		if g.Leader("count") == denied {
			t.Error("the healed process has taken the lease back")
		}
	})
}

func TestTheExamplePasses(t *testing.T) { testBillingGoesOn(t) }
