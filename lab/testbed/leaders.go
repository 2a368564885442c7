package testbed

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
)

// OneLeaderAtMost fails the test if two of the elections lead, until the test ends.
func OneLeaderAtMost(t testing.TB, elections ...*election.Election) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			var first *election.Election
			for _, e := range elections {
				switch {
				case !e.Leading():
				case first == nil:
					first = e
				case first.Leading(): // still, after the second was seen leading
					t.Errorf("two leaders: %v and %v", first.Current(), e.Current())
					return
				}
			}
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
}

// KeepsLeading fails the test if a leadership ends within d.
func KeepsLeading(t testing.TB, led *election.Leadership, d time.Duration) {
	t.Helper()
	tick, began := time.NewTicker(10*time.Millisecond), time.Now()
	defer tick.Stop()
	for ; time.Since(began) < d; <-tick.C {
		if !led.Leading() {
			t.Fatalf("the leadership ended after %v of %v", time.Since(began), d)
		}
	}
}

// StepsDownFirst lets a lead and the others campaign, and cuts a off. It leads until its lease expires, and only then
// does one of the others. When a is back, it knows who leads.
func StepsDownFirst(t testing.TB, cut func(on bool), a *election.Election, others ...*election.Election) {
	t.Helper()
	led, err := a.Campaign(t.Context())
	NoError(t, err)
	for _, e := range others {
		NoError(t, e.Lead(nil))
	}
	OneLeaderAtMost(t, append(slices.Clone(others), a)...)

	cut(true)
	Eventually(t, patience, "one of the others leads", func() error {
		for _, e := range others {
			if now := e.Leadership(); now != nil {
				if led.Leading() || now.Term <= led.Term {
					t.Fatalf("the next leader is in term %d, and the one that is cut off leads in term %d: %v", now.Term, led.Term, led.Leading())
				}
				return nil
			}
		}
		return errors.New(others[0].Current().String())
	})

	cut(false)
	Eventually(t, patience, "the one that was cut off knows who leads", func() error {
		// The leader may have changed once more: servers that come back may choose another leader of their own.
		who, _, _ := a.Leader()
		for _, e := range append(slices.Clone(others), a) {
			if leader, _, known := e.Leader(); known && e.Leading() && leader == who {
				return nil
			}
		}
		return errors.New(a.Current().String())
	})
}
