package election

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Who asks for the candidates of an election must not wait for a TTL to learn of a new one.
func TestNewCandidaciesAreAnnouncedSoonAndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := scripted()
		m := manage(t, store, Options{ID: "a", TTL: time.Minute, RenewEvery: 5 * time.Second})
		elections := make([]*Election, 100)
		for i := range elections {
			elections[i] = joined(t, m, fmt.Sprint("jobs", i))
		}
		announces := func(when string, elections, most int) {
			t.Helper()
			list, err := store.Backend.Members(t.Context(), "", 10)
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			names := slices.Collect(list[0].Campaigns())
			if n := int(store.n[callAnnounce].Swap(0)); len(names) != elections || n > most {
				t.Errorf("%s: %d announcements, the last of %d elections, want %d at most, and of %d", when, n, len(names), most, elections)
			}
		}
		time.Sleep(10 * time.Second)
		announces("before any campaign", 0, 1)
		for _, e := range elections {
			noError(t, e.Lead(nil))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(6 * time.Second) // RenewEvery and a second
		announces("100 campaigns later", len(elections), 2)
		m.Pause()
		time.Sleep(6 * time.Second)
		announces("after Pause", 0, 2)
		time.Sleep(10 * time.Minute)
		announces("while nothing changes, in 10 TTLs", 0, 11)
	})
}
