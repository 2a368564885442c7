package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

// candidate returns a candidate on a store, as another process would be. It renews often, so that
// examples are fast.
func candidate(store *memory.Store, id string) (*election.Manager, *election.Election) {
	m, err := election.New(store.Backend(), election.Options{ID: id, TTL: 30 * time.Second, RenewEvery: 50 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	e, err := m.Join("billing")
	if err != nil {
		log.Fatal(err)
	}
	return m, e
}

// The usual form of a program: a function that runs only on the leader, and ends with the leadership.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	m, err := election.New(memory.New().Backend(), election.Options{}) // mysql.Open, etcd.Open, …
	if err != nil {
		log.Fatal(err)
	}
	e, err := m.Join("billing")
	if err != nil {
		log.Fatal(err)
	}
	err = e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		fmt.Println("this process leads", lead.Election())
		stop()       // the program shall end
		<-ctx.Done() // work until the leadership ends
		return nil
	})
	fmt.Println("handed over:", err, m.Close(context.Background()))
	// Output:
	// this process leads billing
	// handed over: <nil> <nil>
}

// Every node learns who leads.
func ExampleElection_Watch() {
	store, ctx := memory.New(), context.Background()
	a, ea := candidate(store, "anna")
	b, eb := candidate(store, "bert") // does not campaign

	events := make(chan election.Event, 100)
	stop := eb.Watch(func(ev election.Event) {
		if ev.Reason != election.ReasonCurrent { // the first event is the state at the beginning
			events <- ev
		}
	})
	defer stop()
	next := func(kind election.Kind) election.Event {
		for ev := range events {
			if ev.Kind == kind {
				return ev
			}
		}
		panic("not reached")
	}

	if err := ea.Lead(nil); err != nil {
		log.Fatal(err)
	}
	ev := next(election.Elected)
	fmt.Println(ev.Kind, ev.Leader.ID, "me:", ev.Leading)
	go a.Close(ctx)
	ev = next(election.Vacant)
	fmt.Println(ev.Kind, "after", ev.Previous.ID, "reason:", ev.Reason)
	b.Close(ctx)
	// Output:
	// elected anna me: false
	// vacant after anna reason: released
}

// Cron starts a job on every node, and only the leader's does the work. The job's context ends with
// the leadership.
func ExampleElection_Leadership() {
	store, ctx := memory.New(), context.Background()
	a, ea := candidate(store, "anna")
	b, eb := candidate(store, "bert")
	lead, err := ea.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}

	job := func(e *election.Election, id string) { // as cron calls it, on every node
		lead := e.Leadership()
		if lead == nil {
			fmt.Println(id, "skips")
			return
		}
		ctx, cancel := context.WithTimeout(lead.Context(), lead.Remaining())
		defer cancel()
		fmt.Println(id, "works:", ctx.Err() == nil)
	}
	job(ea, "anna")
	job(eb, "bert")

	lead.Resign(ctx)
	job(ea, "anna")
	a.Close(ctx)
	b.Close(ctx)
	// Output:
	// anna works: true
	// bert skips
	// anna skips
}

// A ledger is a resource to which the leader writes. It rejects a term smaller than the largest it has
// seen.
type ledger struct {
	mu   sync.Mutex
	term uint64
}

func (l *ledger) write(term uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term < l.term {
		return fmt.Errorf("fenced")
	}
	l.term = term
	return nil
}

// The term fences writes: a leader that was stopped for a while writes late, and the ledger rejects the
// write. (On MySQL: mysql.Fence.)
func ExampleLeadership() {
	store, ctx := memory.New(), context.Background()
	a, ea := candidate(store, "anna")
	b, eb := candidate(store, "bert")
	var l ledger

	first, err := ea.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("anna writes:", l.write(first.Term))
	first.Resign(ctx)

	second, err := eb.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("bert writes:", l.write(second.Term))
	fmt.Println("anna writes late:", l.write(first.Term))
	second.Resign(ctx)
	a.Close(ctx)
	b.Close(ctx)
	// Output:
	// anna writes: <nil>
	// bert writes: <nil>
	// anna writes late: fenced
}

// An operator chooses the next leader. Any process that can write to the store can nominate.
func ExampleElection_Nominate() {
	store, ctx := memory.New(), context.Background()
	leads := make(chan string)
	a, ea := candidate(store, "anna")
	b, eb := candidate(store, "bert")
	ea.Lead(tell(leads, "anna"))
	fmt.Println(<-leads)
	eb.Lead(tell(leads, "bert"))
	if err := eb.Nominate(ctx, "bert"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-leads)
	a.Close(ctx) // first, otherwise anna would lead again
	b.Close(ctx)
	// Output:
	// anna
	// bert
}

// An operator ends a leadership. The leader steps down in order, and does not bid for one TTL.
func ExampleElection_Depose() {
	store, ctx := memory.New(), context.Background()
	a, ea := candidate(store, "anna")
	b, eb := candidate(store, "bert")
	over := make(chan error)
	ea.Lead(func(ctx context.Context, _ *election.Leadership) error {
		go func() {
			if err := eb.Depose(context.Background()); err != nil {
				log.Fatal(err)
			}
		}()
		<-ctx.Done()
		over <- context.Cause(ctx)
		return nil
	})
	if end, ok := errors.AsType[*election.EndError](<-over); ok {
		fmt.Println("anna is out:", end.Reason)
	}
	lead, err := eb.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("bert leads:", lead.Leading())
	lead.Resign(ctx)
	a.Close(ctx)
	b.Close(ctx)
	// Output:
	// anna is out: deposed
	// bert leads: true
}

// Before a rolling restart, a node steps down and does not lead again until Resume.
func ExampleElection_Pause() {
	store, ctx := memory.New(), context.Background()
	m, e := candidate(store, "anna")
	leads := make(chan bool)
	e.Lead(func(ctx context.Context, _ *election.Leadership) error {
		leads <- true
		<-ctx.Done()
		leads <- false
		return nil
	})
	fmt.Println("leads:", <-leads)
	e.Pause()
	fmt.Println("paused, leads:", <-leads)
	e.Resume()
	fmt.Println("resumed, leads:", <-leads)
	go m.Close(ctx)
	<-leads
	<-m.Done()
	// Output:
	// leads: true
	// paused, leads: false
	// resumed, leads: true
}

// An observer needs only read access, and never leads.
func ExampleOptions_observer() {
	store, ctx := memory.New(), context.Background()
	a, ea := candidate(store, "anna")
	lead, err := ea.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}

	page, err := election.New(store.Backend(), election.Options{Observer: true})
	if err != nil {
		log.Fatal(err)
	}
	e, err := page.Join("billing")
	if err != nil {
		log.Fatal(err)
	}
	leader := make(chan string, 1)
	stop := e.Watch(func(ev election.Event) {
		if ev.Kind == election.Elected {
			leader <- ev.Leader.ID
		}
	})
	fmt.Println(<-leader, "leads")
	stop()
	_, err = e.Try(ctx)
	fmt.Println(err)
	lead.Resign(ctx)
	page.Close(ctx)
	a.Close(ctx)
	// Output:
	// anna leads
	// election: campaign for "billing": invalid request: this manager only observes
}

// One attempt, like TryLock: for a job that another process may be doing.
func ExampleElection_Try() {
	store, ctx := memory.New(), context.Background()
	a, ea := candidate(store, "anna")
	b, eb := candidate(store, "bert")
	lead, err := ea.Try(ctx)
	fmt.Println("anna:", err)
	_, err = eb.Try(ctx)
	fmt.Println("bert:", err)

	lead.Resign(ctx)
	other, err := eb.Try(ctx)
	fmt.Println("bert, afterwards:", err)
	other.Resign(ctx)
	a.Close(ctx)
	b.Close(ctx)
	// Output:
	// anna: <nil>
	// bert: election: not elected
	// bert, afterwards: <nil>
}
