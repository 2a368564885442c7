package main

import (
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionshard"
	"github.com/go-election/go-election/electiontest"
	"github.com/go-election/go-election/lab/testbed"
)

// Each partition is consumed at full speed, but for the time in which it moves, whoever crashes.
func TestAllPartitionsAreConsumed(t *testing.T) {
	electiontest.Test(t, election.Options{TTL: 3 * time.Second}, func(t *testing.T, g *electiontest.Group) {
		orders := &table{rows: map[string]row{}}
		for _, id := range []string{"a", "b", "c"} {
			m := g.Start(id).Manager
			_, err := electionshard.Lead(m, "orders", partitions, consumer(orders), electionshard.Options{})
			testbed.NoError(t, err)
		}
		time.Sleep(10 * time.Second)
		g.Leader(partitions[0]).Crash()
		time.Sleep(20 * time.Second)
		orders.mu.Lock()
		defer orders.mu.Unlock()
		for _, name := range partitions {
			if n := orders.rows[name].next; n < 5*20 {
				t.Errorf("%d messages of %s were applied in 30s, at 5 a second and with a crash", n, name)
			}
		}
	})
}

// A consumer that was frozen, and does not know that its partition has moved, is refused.
func TestAFrozenConsumerIsRefused(t *testing.T) {
	orders := &table{rows: map[string]row{}}
	offset, err := orders.claim("a", 1)
	testbed.NoError(t, err)
	if _, err := orders.claim("a", 2); err != nil {
		t.Fatal(err)
	}
	if err := orders.apply("a", 1, offset); !errors.Is(err, errFenced) {
		t.Errorf("the write of the frozen consumer: %v", err)
	}
}
