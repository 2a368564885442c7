// Consumer shows consumers of one partition of a log, such as Kafka's: one of them consumes, the
// others wait, and each message has its effect exactly once, although leaders change. It runs three
// consumers and hands over every second.
//
//	go run ./examples/consumer
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

func main() {
	store, table := memory.New(), &Table{} // in real life: servers that all processes share
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, id := range []string{"anna", "bert", "cleo"} {
		m, err := election.New(store.Backend(), election.Options{ID: id})
		if err != nil {
			log.Fatal(err)
		}
		defer m.Close(context.Background())
		e, err := m.Join("orders/partition-0")
		if err != nil {
			log.Fatal(err)
		}
		if err := e.Lead(consumer(id, table)); err != nil {
			log.Fatal(err)
		}
	}
	<-ctx.Done()
}

// consumer returns a function for the leader. It continues where the table ends, and hands over
// after a second.
func consumer(id string, table *Table) election.LeadFunc {
	return func(ctx context.Context, lead *election.Leadership) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		offset, err := table.Claim(lead.Term)
		for ; err == nil && ctx.Err() == nil; offset++ {
			order := read(offset)
			if err = table.Apply(lead.Term, offset, order); err == nil {
				fmt.Printf("term %d: %s has applied %s\n", lead.Term, id, order)
			}
			time.Sleep(200 * time.Millisecond)
		}
		return err
	}
}

// read returns the message of the partition at an offset.
func read(offset int) string { return fmt.Sprintf("order %d", offset) }
