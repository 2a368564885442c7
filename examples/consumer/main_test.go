package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

// Consumers take turns, and every message is applied once, in order.
func TestEachMessageIsAppliedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, table := electiontest.New(t, election.Options{}), &Table{}
		for _, id := range []string{"a", "b", "c"} {
			e, err := g.Start(id).Join("orders")
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Lead(consumer(id, table)); err != nil {
				t.Fatal(err)
			}
		}
		terms := map[uint64]bool{}
		for range 100 {
			time.Sleep(time.Second)
			if crashed := g.Leader("orders"); len(terms) == 20 {
				crashed.Crash()
			}
			table.mu.Lock()
			terms[table.term] = true
			table.mu.Unlock()
		}
		table.mu.Lock()
		defer table.mu.Unlock()
		for offset, order := range table.orders {
			if order != read(offset) {
				t.Errorf("at offset %d the table has %s", offset, order)
			}
		}
		if len(table.orders) < 100 || len(terms) < 20 {
			t.Errorf("%d orders were applied, in %d terms", len(table.orders), len(terms))
		}
	})
}

// A consumer that was frozen in the middle of a write, and does not know it, is refused.
func TestAFrozenConsumerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, table := electiontest.New(t, election.Options{}), &Table{}
		a, err := g.Start("a").Join("orders")
		if err != nil {
			t.Fatal(err)
		}
		late := make(chan error, 1)
		err = a.Lead(func(_ context.Context, lead *election.Leadership) error {
			offset, err := table.Claim(lead.Term)
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // frozen: it does not see that its context has ended
			late <- table.Apply(lead.Term, offset, read(offset))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		g.Leader("orders").Cut() // while it is frozen, nothing renews its lease
		b, err := g.Start("b").Join("orders")
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Lead(consumer("b", table)); err != nil {
			t.Fatal(err)
		}
		if err := <-late; !errors.Is(err, errFenced) {
			t.Errorf("the write of the frozen consumer: %v", err)
		}
		table.mu.Lock()
		defer table.mu.Unlock()
		if len(table.orders) == 0 || table.orders[0] != read(0) {
			t.Errorf("the next consumer has applied %v", table.orders)
		}
	})
}
