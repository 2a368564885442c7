package testbed

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/election"
)

// Join opens a manager that has joined the election jobs. It closes the manager after the test.
func Join(t testing.TB, id string, ttl time.Duration, b backend.Backend) *election.Election {
	t.Helper()
	m, err := election.New(b, election.Options{ID: id, TTL: ttl})
	NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		m.Close(ctx)
	})
	e, err := m.Join("jobs")
	NoError(t, err)
	return e
}

// LeadsAlone waits until next leads. At that instant before must not.
func LeadsAlone(t testing.TB, next, before *election.Election) {
	t.Helper()
	tick, began := time.NewTicker(time.Millisecond), time.Now()
	defer tick.Stop()
	for !next.Leading() {
		if time.Since(began) > patience {
			t.Fatalf("it does not lead: %v", next.Current())
		}
		<-tick.C
	}
	if before.Leading() {
		t.Fatalf("two leaders, %v after the fault: %v", time.Since(began), before.Current())
	}
}

// Leads waits until a member leads.
func Leads(t testing.TB, e *election.Election) {
	t.Helper()
	Eventually(t, patience, "it leads", func() error {
		if !e.Leading() {
			return errors.New(e.Current().String())
		}
		return nil
	})
}
