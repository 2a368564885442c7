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
		defer work(lead)() // begins, and has ended when this function returns
		<-ctx.Done()
		return nil
	})
}

// A test of a program, in virtual time: its leader crashes, and another works on. That
// two of them never work at once, and terms grow, is checked on the way by Group.Work.
// In a test file of your own it is called TestBillingGoesOn.
func testBillingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{TTL: 10 * time.Second})
		for _, id := range []string{"anna", "bert"} {
			go bill(t.Context(), g.Start(id).Manager, g.Work)
		}
		dead := g.Leader("billing")
		dead.Crash()
		time.Sleep(20 * time.Second) // virtual: it costs no time
		if g.Leader("billing") == dead {
			t.Error("who has crashed still leads after two TTLs")
		}
	})
}

// How a test of your own program looks. (It is run by this package's tests.)
func Example() {
	_ = testBillingGoesOn
}
