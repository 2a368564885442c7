package electiontest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

// bill is the program under test.
func bill(ctx context.Context, m *election.Manager, work func(*election.Leadership) func()) error {
	e, err := m.Join("billing")
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		defer work(lead)() // the work begins here and ends when this function returns
		<-ctx.Done()
		return nil
	})
}

// A test of a program in virtual time: the leader crashes, and another process takes over. Group.Work checks that two
// processes never work at once and that terms grow. In your own test file, call the function TestBillingGoesOn.
func testBillingGoesOn(t *testing.T) {
	electiontest.Test(t, election.Options{TTL: 10 * time.Second}, func(t *testing.T, g *electiontest.Group) {
		for _, id := range []string{"anna", "bert"} {
			go bill(t.Context(), g.Start(id).Manager, g.Work)
		}
		dead := g.Leader("billing")
		dead.Crash()
		next := g.Next("billing", dead) // ten seconds later, which are virtual: they cost no time
		synctest.Wait()                 // its function has begun
		if terms := g.Worked("billing"); len(terms) != 2 {
			t.Errorf("%s leads, and work was done in the terms %v", next.ID(), terms)
		}
	})
}

// A test of your own program. (The tests of this package run it.)
func Example() {
	_ = testBillingGoesOn
}
