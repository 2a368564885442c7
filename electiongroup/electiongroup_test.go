package electiongroup_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiongroup"
	"github.com/go-election/go-election/electiontest"
)

// Two functions work while this process leads. One fails: the other is cancelled and
// waited for, and the lease is free again when Run returns.
func Example() {
	m, err := election.New(memory.New().Backend(), nil) // mysql.Open, etcd.Open, …
	if err != nil {
		log.Fatal(err)
	}
	e, err := m.Join("billing")
	if err != nil {
		log.Fatal(err)
	}
	ready := make(chan struct{})
	consume := func(ctx context.Context, lead *election.Leadership) error {
		close(ready)
		<-ctx.Done()
		fmt.Println("consumer stops:", context.Cause(ctx))
		return nil
	}
	produce := func(ctx context.Context, lead *election.Leadership) error {
		<-ready
		return errors.New("disk full")
	}
	err = electiongroup.Run(context.Background(), e, consume, produce)
	fmt.Println(err, e.Leading())
	// Output:
	// consumer stops: disk full
	// disk full false
}

var errWork = errors.New("the work has failed")

// until works until its context ends, and takes a moment to tidy up. It counts the
// terms in which it began and ended.
type until struct{ began, ended chan uint64 }

func newUntil() until { return until{make(chan uint64, 10), make(chan uint64, 10)} }

func (u until) work(ctx context.Context, lead *election.Leadership) error {
	u.began <- lead.Term
	<-ctx.Done()
	time.Sleep(time.Second)
	u.ended <- lead.Term
	return ctx.Err()
}

func join(t *testing.T, p *electiontest.Process) *election.Election {
	t.Helper()
	e, err := p.Join("job")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestTheFirstErrorCancelsAndJoinsAllAndIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		e, u := join(t, g.Start("a")), newUntil()
		err := electiongroup.Run(t.Context(), e, u.work, u.work, func(context.Context, *election.Leadership) error {
			time.Sleep(time.Second)
			return errWork
		})
		if err != errWork {
			t.Errorf("Run returned %v, want the first error", err)
		}
		if len(u.ended) != 2 || e.Leading() {
			t.Errorf("Run has returned: of 2 others %d have, and it leads: %v", len(u.ended), e.Leading())
		}
		if lead, err := join(t, g.Start("b")).Try(t.Context()); err != nil {
			t.Errorf("the lease was not released: %v, %v", lead, err)
		}
	})
}

func TestAnEndOfTheLeadershipIsNoErrorAndAllAreCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		u := newUntil()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		p := g.Start("a")
		go func() { done <- electiongroup.Run(ctx, join(t, p), u.work, u.work) }()
		term := <-u.began
		<-u.began
		g.Expire("job")
		if next := <-u.began; next <= term || len(u.ended) != 2 {
			t.Errorf("called again in term %d after %d, when %d of 2 functions had returned", next, term, len(u.ended))
		}
		<-u.began
		stop()
		if err := <-done; err != nil || len(u.ended) != 4 {
			t.Errorf("its context has ended: %v, and %d of 4 functions have returned", err, len(u.ended))
		}
	})
}

func TestRunEndsWhenTheWorkIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		e := join(t, g.Start("a"))
		short := func(context.Context, *election.Leadership) error { return nil }
		long := func(ctx context.Context, _ *election.Leadership) error {
			time.Sleep(time.Minute)
			return ctx.Err() // the end of another that has not failed is no reason to stop
		}
		if err := electiongroup.Run(t.Context(), e, short, long); err != nil || e.Leading() {
			t.Errorf("all have returned nil: %v, and it leads: %v", err, e.Leading())
		}
	})
}

func TestDoSaysWhyTheLeadershipHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		e, u := join(t, g.Start("a")), newUntil()
		lead, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- electiongroup.Do(lead.Context(), lead, u.work) }()
		<-u.began
		e.Pause()
		err = <-done
		if lost, ok := errors.AsType[*election.LostError](err); !ok || lost.Reason != election.ReasonPaused || len(u.ended) != 1 {
			t.Errorf("paused: %v, and %d of 1 function has returned", err, len(u.ended))
		}
	})
}
