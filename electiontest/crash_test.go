package electiontest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
	"github.com/go-election/go-election/lab/testbed"
)

// A process that is killed runs nothing: its functions' contexts end, and Run returns.
func TestACrashEndsTheFunctionsOfItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		ended := map[string]chan error{"a": make(chan error, 1), "b": make(chan error, 1)}
		for id, over := range ended {
			e, err := g.Start(id).Join("jobs")
			testbed.NoError(t, err)
			go func() {
				over <- e.Run(context.Background(), func(ctx context.Context, _ *election.Leadership) error {
					<-ctx.Done()
					return nil
				})
			}()
		}
		dead := g.Leader("jobs")
		dead.Crash()
		if err := <-ended[dead.ID()]; !errors.Is(err, election.ErrClosed) {
			t.Errorf("Run of the crashed process returned %v, want %v", err, election.ErrClosed)
		}
		if dead.Election("jobs") != nil {
			t.Error("the crashed process still takes part")
		}
		crashed := time.Now()
		next := g.Leader("jobs")
		if waited := time.Since(crashed); next == dead || waited < election.DefaultTTL/2 {
			t.Errorf("%s leads %v after the crash of %s: a killed process releases no lease", next.ID(), waited, dead.ID())
		}
		if err := g.Start(dead.ID()).Close(t.Context()); err != nil {
			t.Errorf("the crashed process was not restarted: %v", err)
		}
	})
}

// A leader that is cut off leads until it no longer trusts its lease.
func TestTheNextLeaderIsAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		for _, id := range []string{"a", "b"} {
			e, err := g.Start(id).Join("jobs")
			testbed.NoError(t, err)
			testbed.NoError(t, e.Lead(nil))
		}
		first := g.Leader("jobs")
		first.Cut()
		if now := g.Leader("jobs"); now != first {
			t.Errorf("%s leads at the moment of the cut, want %s", now.ID(), first.ID())
		}
		if next := g.Next("jobs", first); next == first || first.Election("jobs").Leading() {
			t.Errorf("the next leader is %s, and %s leads: %v", next.ID(), first.ID(), first.Election("jobs").Leading())
		}
	})
}

// A crash is over when Crash returns, also in a lead function, which may never return.
func TestACrashedProcessLeadsNoLonger(t *testing.T) {
	for where, inFunction := range map[string]bool{"outside": false, "in the lead function": true} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := electiontest.New(t, election.Options{})
				p := g.Start("a")
				e, err := p.Join("jobs")
				testbed.NoError(t, err)
				began, leads, end := make(chan bool), make(chan bool), make(chan bool)
				defer close(end)
				crash := func() {
					p.Crash()
					leads <- e.Leading()
				}
				e.Lead(func(context.Context, *election.Leadership) error {
					close(began)
					if inFunction {
						crash()
					}
					<-end
					return nil
				})
				if <-began; !inFunction {
					go crash()
				}
				if <-leads {
					t.Error("the process leads after its crash")
				}
			})
		})
	}
}
