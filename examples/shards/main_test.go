package main

import (
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionshard"
	"github.com/go-election/go-election/electiontest"
)

// Each partition is consumed at full speed, but for the time in which it moves, whoever crashes.
func TestAllPartitionsAreConsumed(t *testing.T) {
	electiontest.Test(t, election.Options{TTL: 3 * time.Second}, func(t *testing.T, g *electiontest.Group) {
		all := newTables(partitions)
		for _, id := range []string{"a", "b", "c"} {
			if _, err := electionshard.Lead(g.Start(id).Manager, "orders", partitions, consumer(all), electionshard.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		g.Leader(partitions[0]).Crash()
		time.Sleep(20 * time.Second)
		for name, table := range all {
			if table.mu.Lock(); table.next < 5*20 {
				t.Errorf("%d messages of %s were applied in 30s, at 5 a second and with a crash", table.next, name)
			}
			table.mu.Unlock()
		}
	})
}

// A consumer that was frozen, and does not know that its partition has moved, is refused.
func TestAFrozenConsumerIsRefused(t *testing.T) {
	var orders table
	offset, err := orders.claim(1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := orders.claim(2); err != nil {
		t.Fatal(err)
	}
	if err := orders.apply(1, offset); !errors.Is(err, errFenced) {
		t.Errorf("the write of the frozen consumer: %v", err)
	}
}
