package election_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

func leader(b *testing.B) *election.Election {
	m, err := election.New(memory.New().Backend(), election.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { m.Close(context.Background()) })
	e, err := m.Join("jobs")
	if err != nil {
		b.Fatal(err)
	}
	if _, err := e.Campaign(b.Context()); err != nil {
		b.Fatal(err)
	}
	return e
}

// BenchmarkLeading may take 1.5 times as long as BenchmarkTimeNow, without an allocation.
func BenchmarkLeading(b *testing.B) {
	e := leader(b)
	b.ReportAllocs()
	for b.Loop() {
		if !e.Leading() {
			b.Fatal("not leading")
		}
	}
}

func BenchmarkTimeNow(b *testing.B) {
	for b.Loop() {
		if time.Now().IsZero() {
			b.Fatal("no time")
		}
	}
}
