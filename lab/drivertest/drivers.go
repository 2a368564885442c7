package drivertest

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/lab/testbed"
)

// Read reads items with a driver once its server answers.
func Read(t testing.TB, d lease.Driver, keys ...lease.Key) (v lease.View) {
	t.Helper()
	testbed.Eventually(t, patience, "the server answers", func() (err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		v, err = d.Read(ctx, keys)
		return err
	})
	return v
}

// Put writes records over what was read in a view, and returns the result of each.
func Put(t testing.TB, d lease.Driver, v *lease.View, records ...*lease.Record) ([]lease.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var changes []lease.Change
	for _, r := range records {
		over := lease.Item{Key: lease.Key{Kind: lease.Records, Name: r.Election}}
		for _, it := range v.Items {
			if it.Key == over.Key {
				over = it
			}
		}
		changes = append(changes, lease.Change{Put: []lease.Put{{Over: over, Value: r}}})
	}
	w, err := d.Write(ctx, v.Epoch, v.WentBack, changes, nil)
	return w.Results, err
}

// MustPut is Put, and fails the test unless all records are granted.
func MustPut(t testing.TB, d lease.Driver, v *lease.View, records ...*lease.Record) {
	t.Helper()
	results, err := Put(t, d, v, records...)
	for _, r := range results {
		if err != nil || r.Outcome != backend.Granted {
			t.Fatalf("want all changes granted, got %+v, %v", results, err)
		}
	}
}

// Held returns what a holder of these leases passes to Renew, Mark and Release.
func Held(leases ...backend.Lease) []backend.Held {
	held := make([]backend.Held, len(leases))
	for i, l := range leases {
		held[i] = l.Held()
	}
	return held
}
