package election

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// announcements is a store that keeps what processes announce.
type announcements struct {
	backend.Backend
	mu  sync.Mutex
	all []backend.Member
}

func (a *announcements) Announce(ctx context.Context, m backend.Member) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, m)
	return a.Backend.Announce(ctx, m)
}

// latest returns the elections of the last announcement, and how many announcements there were.
func (a *announcements) latest() (names []string, count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return nil, 0
	}
	return slices.Collect(a.all[len(a.all)-1].Campaigns()), len(a.all)
}

// Who asks for the candidates of an election must not wait for a TTL to learn of a new one.
func TestNewCandidaciesAreAnnouncedSoonAndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &announcements{Backend: memory.New().Backend()}
		m := manage(t, store, Options{ID: "a", TTL: time.Minute, RenewEvery: 5 * time.Second})
		elections := make([]*Election, 100)
		for i := range elections {
			elections[i] = joined(t, m, fmt.Sprint("jobs", i))
		}
		time.Sleep(10 * time.Second)
		if names, n := store.latest(); len(names) != 0 || n != 1 {
			t.Errorf("before any campaign: %d announcements, the last of %d elections, want 1 of none", n, len(names))
		}
		for _, e := range elections {
			if err := e.Lead(nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(6 * time.Second) // RenewEvery and a second
		if names, n := store.latest(); len(names) != len(elections) || n > 3 {
			t.Errorf("100 campaigns later: %d announcements, the last of %d elections, want at most 3, and all elections", n, len(names))
		}
		m.Pause()
		time.Sleep(6 * time.Second)
		if names, _ := store.latest(); len(names) != 0 {
			t.Errorf("after Pause the process still says that it campaigns for %d elections", len(names))
		}
		_, before := store.latest()
		time.Sleep(10 * time.Minute)
		if _, n := store.latest(); n-before > 11 {
			t.Errorf("a process whose campaigns do not change made %d announcements in 10 TTLs", n-before)
		}
		closes(t, m)
	})
}

func TestAnObserverAnnouncesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &announcements{Backend: memory.New().Backend()}
		m := manage(t, store, Options{ID: "a", Observer: true})
		joined(t, m, "jobs")
		m.Pause()
		m.Resume()
		time.Sleep(time.Minute)
		if _, n := store.latest(); n != 0 {
			t.Errorf("an observer made %d announcements, want none: it is no member", n)
		}
		closes(t, m)
	})
}
