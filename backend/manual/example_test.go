package manual_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-election/go-election/backend/manual"
	"github.com/go-election/go-election/election"
)

// The "not HA" mode: a program written for several processes runs alone.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	store, err := manual.Open(manual.Options{Leader: manual.Self})
	if err != nil {
		log.Fatal(err)
	}
	manager, err := election.New(store, election.Options{})
	if err != nil {
		log.Fatal(err)
	}
	jobs, err := manager.Join("jobs")
	if err != nil {
		log.Fatal(err)
	}
	jobs.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
		fmt.Println("leading", l.Election())
		cancel() // the work is done
		return nil
	})
	if err := manager.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: leading jobs
}
