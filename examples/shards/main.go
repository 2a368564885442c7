// Shards shows processes that share the partitions of a log evenly, such as Kafka's. Each partition
// is consumed by one process at a time, and each message has its effect exactly once, although
// partitions move. It runs three consumers of twelve partitions; after six seconds one of them ends
// in order, and the others take over what it consumed.
//
//	go run ./examples/shards
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionshard"
)

var partitions = electionshard.Names("orders", 12)

func main() {
	// In real life these are servers that all processes share.
	store, orders := memory.New(), &table{rows: map[string]row{}}
	var fleet []*electionshard.Group
	for _, id := range []string{"anna", "bert", "cleo"} {
		m, err := election.New(store.Backend(), election.Options{ID: id, TTL: 3 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		defer m.Close(context.Background())
		g, err := electionshard.Lead(m, "orders", partitions, consumer(orders), electionshard.Options{})
		if err != nil {
			log.Fatal(err)
		}
		fleet = append(fleet, g)
	}

	for second := range 12 {
		time.Sleep(time.Second)
		for _, member := range fleet[2].Status().Members {
			fmt.Printf("%s consumes %2d of its %2d  ", member.ID, member.Leads, member.Share)
		}
		fmt.Println()
		if second == 6 {
			fleet[0].Leave(context.Background())
		}
	}
	fmt.Println(orders.applied(), "orders were applied, each once")
}

// consumer returns a function that consumes the partition that this process leads. It continues
// where the last one has ended, until the leadership does.
func consumer(orders *table) election.LeadFunc {
	return func(ctx context.Context, lead *election.Leadership) error {
		offset, err := orders.claim(lead.Election(), lead.Term)
		for ; err == nil && ctx.Err() == nil; offset++ {
			err = orders.apply(lead.Election(), lead.Term, offset)
			time.Sleep(200 * time.Millisecond)
		}
		return err
	}
}
