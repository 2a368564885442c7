package migration_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/backend/migration"
	"github.com/go-election/go-election/election"
)

// A migration from one store to another is three rolling deployments of the same program,
// with one word of the configuration changed each time. Here it has one member. Terms grow.
func Example() {
	from, to := memory.New(), memory.New() // etcd.Open, mysql.Open, …
	ctx, last := context.Background(), uint64(0)
	for _, stage := range []migration.Stage{migration.From, migration.Both, migration.To} {
		store, err := migration.New(migration.Options{
			From: from.Backend(), FromName: "old", // the two stores are of one kind, so they need names
			To: to.Backend(), ToName: "new",
			Stage: stage,
		})
		if err != nil {
			log.Fatal(err)
		}
		m, e := join(store)
		lead, err := e.Campaign(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("leads at stage", stage, "in a greater term:", lead.Term > last)
		last = lead.Term
		m.Close(ctx) // steps down, for the next deployment
	}
	// Output:
	// leads at stage from in a greater term: true
	// leads at stage both in a greater term: true
	// leads at stage to in a greater term: true
}

func join(store *migration.Backend) (*election.Manager, *election.Election) {
	m, err := election.New(store, election.Options{})
	if err != nil {
		log.Fatal(err)
	}
	e, err := m.Join("billing")
	if err != nil {
		log.Fatal(err)
	}
	return m, e
}
