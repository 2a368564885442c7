package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

// tell returns a function that sends id when it leads, and leads until its context ends.
func tell(leads chan<- string, id string) election.LeadFunc {
	return func(ctx context.Context, _ *election.Leadership) error {
		leads <- id
		<-ctx.Done()
		return nil
	}
}

// crash leaves the lease of a leader that has crashed. It lasts a second and is never renewed.
func crash(store *memory.Store, id string) {
	b, ctx := store.Backend(), context.Background()
	seen, err := b.Observe(ctx, []backend.Lease{{Election: "billing"}})
	if err != nil {
		log.Fatal(err)
	}
	bid := backend.Bid{Election: "billing", TTL: time.Second, Renew: time.Second / 3, Expected: seen[0],
		Candidate: backend.Candidate{ID: id, Nonce: backend.NewNonce()}}
	if _, err := b.Acquire(ctx, []backend.Bid{bid}); err != nil {
		log.Fatal(err)
	}
}

// A leader resigns. Another candidate leads at once. The one that resigned campaigns again after half a
// TTL.
func ExampleElection_Resign() {
	store, ctx := memory.New(), context.Background()
	leads := make(chan string)
	a, ea := candidate(store, "anna")
	b, eb := candidate(store, "bert")
	ea.Lead(tell(leads, "anna"))
	fmt.Println(<-leads)
	eb.Lead(tell(leads, "bert"))
	if err := ea.Resign(ctx); err != nil { // the function has returned, the lease is free
		log.Fatal(err)
	}
	fmt.Println(<-leads)
	a.Close(ctx) // first, otherwise anna would lead again
	b.Close(ctx)
	// Output:
	// anna
	// bert
}

// An unhealthy leader steps down, and does not campaign until its check passes.
func ExampleOptions_health() {
	var full atomic.Bool
	health := func(context.Context) error {
		if full.Load() {
			return errors.New("disk full")
		}
		return nil
	}
	m, err := election.New(memory.New().Backend(), election.Options{TTL: time.Minute, RenewEvery: 50 * time.Millisecond, Health: health})
	if err != nil {
		log.Fatal(err)
	}
	e, _ := m.Join("billing")
	lead, err := e.Campaign(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	full.Store(true)
	<-lead.Context().Done()
	end, _ := errors.AsType[*election.EndError](context.Cause(lead.Context()))
	fmt.Println("leads:", lead.Leading(), "because:", end.Reason)
	m.Close(context.Background())
	// Output:
	// leads: false because: health check failed
}

// FailoverDelay gives the work that a crashed leader left running time to end before another process
// leads. It is added to the TTL.
func ExampleOptions_failoverDelay() {
	store, ctx := memory.New(), context.Background()
	crash(store, "anna")
	began := time.Now()
	m, err := election.New(store.Backend(), election.Options{ID: "bert", TTL: time.Minute, FailoverDelay: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	e, err := m.Join("billing")
	if err != nil {
		log.Fatal(err)
	}
	lead, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("bert leads:", lead.Leading())
	fmt.Println("not before TTL + FailoverDelay:", time.Since(began) >= 2*time.Second)
	lead.Resign(ctx)
	m.Close(ctx)
	// Output:
	// bert leads: true
	// not before TTL + FailoverDelay: true
}

// With IncumbentGrace, other candidates wait after a crash, so that the old leader can lead again, for
// example because its caches are warm. It is recognized by its ID.
func ExampleOptions_incumbentGrace() {
	store, ctx := memory.New(), context.Background()
	crash(store, "anna")
	leads := make(chan string, 2)
	for _, id := range []string{"bert", "anna"} { // anna restarts, after bert
		m, err := election.New(store.Backend(), election.Options{ID: id, IncumbentGrace: time.Hour})
		if err != nil {
			log.Fatal(err)
		}
		defer m.Close(ctx)
		e, err := m.Join("billing")
		if err != nil {
			log.Fatal(err)
		}
		e.Lead(tell(leads, id))
	}
	fmt.Println(<-leads, "leads again")
	// Output:
	// anna leads again
}

// With Priority, the highest that is ready leads when nobody does. With Reclaim, it gets the leadership back from a lower one,
// in order, once it has been ready for so long.
func ExampleOptions_priority() {
	store, ctx := memory.New(), context.Background()
	leads := make(chan string, 2)
	for id, priority := range map[string]int{"old version": 1, "new version": 2} {
		m, err := election.New(store.Backend(), election.Options{ID: id, TTL: 4 * time.Second, Priority: priority, Reclaim: 30 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		defer m.Close(ctx)
		e, err := m.Join("billing")
		if err != nil {
			log.Fatal(err)
		}
		e.Lead(tell(leads, id))
	}
	fmt.Println("the", <-leads, "leads")
	// Output:
	// the new version leads
}

// One watcher for all elections that this process has joined or joins later.
func ExampleManager_Watch() {
	ctx := context.Background()
	m, err := election.New(memory.New().Backend(), election.Options{ID: "anna", TTL: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	events := make(chan election.Event, 10)
	stop := m.Watch(func(ev election.Event) {
		if ev.Kind == election.Elected {
			events <- ev
		}
	})
	for _, name := range []string{"billing", "reports"} {
		e, _ := m.Join(name)
		e.Lead(nil)
		ev := <-events
		fmt.Println(ev.Election, "is led by", ev.Leader.ID)
	}
	stop()
	m.Close(ctx)
	// Output:
	// billing is led by anna
	// reports is led by anna
}

// The processes that take part, leaders or not, as a status page lists them.
func ExampleManager_Members() {
	store, ctx := memory.New(), context.Background()
	m, err := election.New(store.Backend(), election.Options{ID: "anna", Address: "10.0.0.1:9090"})
	if err != nil {
		log.Fatal(err)
	}
	page, err := election.New(store.Backend(), election.Options{Observer: true})
	if err != nil {
		log.Fatal(err)
	}
	var members []backend.Member
	for len(members) == 0 { // anna announces itself soon after New, and once per TTL
		if members, err = page.Members(ctx); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(members[0].ID, members[0].Address)
	page.Close(ctx)
	m.Close(ctx)
	// Output:
	// anna 10.0.0.1:9090
}
