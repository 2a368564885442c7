package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

// A run is one call of the job.
type run struct {
	at   time.Time
	term uint64
}

// Three machines run a job each minute for an hour, while leaders crash, lose the store and hand
// over. No minute has two runs, terms do not go back, and only a change of leader costs runs.
func TestEachTimeHasOneRunAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		var mu sync.Mutex
		var runs []run
		job := func(_ context.Context, at time.Time, term uint64) error {
			mu.Lock()
			defer mu.Unlock()
			runs = append(runs, run{at, term})
			return errors.New("as jobs do now and then")
		}
		start := func(id string) {
			e, err := g.Start(id).Join("cron")
			if err != nil {
				t.Fatal(err)
			}
			go e.Run(t.Context(), schedule(time.Minute, job))
		}
		for _, id := range []string{"a", "b", "c"} {
			start(id)
		}
		for range 4 {
			time.Sleep(5 * time.Minute)
			crashed := g.Leader("cron")
			crashed.Crash()
			time.Sleep(5 * time.Minute)
			start(crashed.ID())
			g.Expire("cron")
			time.Sleep(5*time.Minute - 15*time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, r := range runs[1:] {
			before := runs[i]
			if !r.at.After(before.at) || r.term < before.term {
				t.Errorf("%v in term %d ran after %v in term %d", r.at, r.term, before.at, before.term)
			}
		}
		if len(runs) < 50 || len(runs) > 61 {
			t.Errorf("%d runs in an hour", len(runs))
		}
	})
}
