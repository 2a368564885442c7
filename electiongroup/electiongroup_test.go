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
	"github.com/go-election/go-election/lab/testbed"
)

// Two functions work while this process leads. One of them fails; Run cancels the other,
// waits for it, and releases the lease before it returns.
func Example() {
	m, err := election.New(memory.New().Backend(), election.Options{}) // mysql.Open, etcd.Open, …
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

// A worker works until its context ends, and then takes a second to clean up. It sends the
// terms in which it begins and ends.
type worker struct{ began, ended chan uint64 }

func newWorker() worker { return worker{make(chan uint64, 10), make(chan uint64, 10)} }

func (w worker) work(ctx context.Context, lead *election.Leadership) error {
	w.began <- lead.Term
	<-ctx.Done()
	time.Sleep(time.Second)
	w.ended <- lead.Term
	return ctx.Err()
}

func join(t *testing.T, p *electiontest.Process) *election.Election {
	t.Helper()
	e, err := p.Join("job")
	testbed.NoError(t, err)
	return e
}

func TestRunReturnsTheFirstErrorAndCancelsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		e, w := join(t, g.Start("a")), newWorker()
		err := electiongroup.Run(t.Context(), e, w.work, w.work, func(context.Context, *election.Leadership) error {
			time.Sleep(time.Second)
			return errWork
		})
		if err != errWork {
			t.Errorf("Run returned %v, want the first error", err)
		}
		if len(w.ended) != 2 || e.Leading() {
			t.Errorf("after Run: %d of the 2 other functions have returned, and the process leads: %v", len(w.ended), e.Leading())
		}
		if lead, err := join(t, g.Start("b")).Try(t.Context()); err != nil {
			t.Errorf("the lease was not released: %v, %v", lead, err)
		}
	})
}

func TestAllAreCalledAgainInTheNextTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		w := newWorker()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		p := g.Start("a")
		go func() { done <- electiongroup.Run(ctx, join(t, p), w.work, w.work) }()
		term := <-w.began
		<-w.began
		g.Expire("job")
		if next := <-w.began; next <= term || len(w.ended) != 2 {
			t.Errorf("called again in term %d after %d, after %d of 2 functions had returned", next, term, len(w.ended))
		}
		<-w.began
		stop()
		if err := <-done; err != nil || len(w.ended) != 4 {
			t.Errorf("after the context has ended: %v, and %d of 4 functions have returned", err, len(w.ended))
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
			return ctx.Err() // nil: a function that returns nil does not end the others
		}
		if err := electiongroup.Run(t.Context(), e, short, long); err != nil || e.Leading() {
			t.Errorf("after all have returned nil: %v, and the process leads: %v", err, e.Leading())
		}
	})
}

func TestDoReturnsWhyTheLeadershipEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		e, w := join(t, g.Start("a")), newWorker()
		lead, err := e.Campaign(t.Context())
		testbed.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- electiongroup.Do(lead.Context(), lead, w.work) }()
		<-w.began
		e.Pause()
		err = <-done
		if end, ok := errors.AsType[*election.EndError](err); !ok || end.Reason != election.ReasonPaused || len(w.ended) != 1 {
			t.Errorf("after Pause: %v, and %d of 1 function has returned", err, len(w.ended))
		}
	})
}
