package resourcelock_test

import (
	"context"
	"fmt"
	"log"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/go-election/go-election/backend/kubernetes/resourcelock"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

// An elector of client-go on a store of this module.
func Example() {
	m, err := election.New(memory.New().Backend(), election.Options{ID: "a"}) // or config.Open
	if err != nil {
		log.Fatal(err)
	}
	lock, err := resourcelock.New(m, "billing/controller")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	timings := lock.Timings()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: timings.LeaseDuration, RenewDeadline: timings.RenewDeadline, RetryPeriod: timings.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				fmt.Println("it works, and the term fences it:", lock.Election().Leadership().Term > 0)
				stop()
				<-ctx.Done()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	elector.Run(ctx)
	fmt.Println("released:", m.Close(context.Background()) == nil)
	// Output:
	// it works, and the term fences it: true
	// released: true
}
