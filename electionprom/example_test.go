package electionprom_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionprom"
)

// The metrics are registered with the registry that the program serves.
func Example() {
	m, err := election.New(memory.New().Backend(), election.Options{TTL: time.Minute}) // mysql.Open, …
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(electionprom.New(m, electionprom.Options{}))

	e, _ := m.Join("billing")
	if _, err := e.Campaign(context.Background()); err != nil {
		log.Fatal(err)
	}
	families, _ := registry.Gather() // what a scrape does
	for _, family := range families {
		if family.GetName() == "election_leading" {
			fmt.Println(family.GetMetric()[0].GetLabel()[0].GetValue(), family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	m.Close(context.Background())
	// Output:
	// billing 1
}
