package electionshard_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionshard"
)

// Each process of the fleet does the same, with the same list of shards.
func Example() {
	m, err := election.New(memory.New().Backend(), election.Options{ID: "host-1"}) // mysql.Open, …
	if err != nil {
		log.Fatal(err)
	}
	ready := make(chan string)
	consume := func(ctx context.Context, lead *election.Leadership) error {
		ready <- lead.Election() // send lead.Term with every write
		<-ctx.Done()             // your work; it must stop when ctx ends
		return nil
	}
	g, err := electionshard.Lead(m, "orders", electionshard.Names("orders", 12), consume, electionshard.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for range 12 { // alone it leads all
		<-ready
	}
	fmt.Println(g.ID(), "takes part in", g.Status().Name)
	m.Close(context.Background())
	// Output:
	// host-1 takes part in orders
}
