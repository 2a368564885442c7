package electiongocron

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

// The scheduler of every node starts the job; the gate admits it only on the leader.
func ExampleGate_Do() {
	m, err := election.New(memory.New().Backend(), election.Options{TTL: time.Minute}) // mysql.Open, …
	if err != nil {
		log.Fatal(err)
	}
	e, _ := m.Join("jobs")
	var gate Gate
	job := func(ctx context.Context, lead *election.Leadership) error {
		fmt.Println("works in the leader's term:", lead.Term == e.Leadership().Term)
		return nil
	}
	fmt.Println(gate.Do(job)) // as cron calls it
	ctx, stop := context.WithCancel(context.Background())
	e.Run(ctx, func(ctx context.Context, lead *election.Leadership) error {
		go func() { fmt.Println(untilOpen(&gate, job)); stop() }()
		return gate.Lead(ctx, lead) // returns after the running jobs
	})
	fmt.Println(gate.Do(job))
	m.Close(context.Background())
	// Output:
	// electiongocron: this process does not lead
	// works in the leader's term: true
	// <nil>
	// electiongocron: this process does not lead
}

// untilOpen stands for the scheduler: it runs the job at the first tick with an open gate.
func untilOpen(gate *Gate, job func(context.Context, *election.Leadership) error) (err error) {
	for err = ErrNotLeader; err == ErrNotLeader; {
		err = gate.Do(job)
	}
	return err
}
