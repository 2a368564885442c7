package election

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// stubborn is a store in which one lease cannot be released: somebody has its row locked.
// The others of the batch are, and the call has an error, as Release says.
type stubborn struct {
	backend.Backend
	locked atomic.Bool
	calls  atomic.Int64
}

func (s *stubborn) Release(ctx context.Context, held []backend.Held) error {
	s.calls.Add(1)
	if !s.locked.Load() {
		return s.Backend.Release(ctx, held)
	}
	rest := slices.DeleteFunc(slices.Clone(held), func(l backend.Held) bool { return l.Election == "e0" })
	if len(rest) > 0 {
		if err := s.Backend.Release(ctx, rest); err != nil {
			return err
		}
	}
	if len(rest) < len(held) {
		return fmt.Errorf("%w: row e0 is locked", backend.ErrUnavailable)
	}
	return nil
}

func TestAnUnreleasableLeaseBlocksNoOtherElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stubborn{Backend: memory.New().Backend()}
		m := manage(t, store, Options{ID: "only"})
		var elections []*Election
		for i := range 50 {
			e := joined(t, m, fmt.Sprint("e", i))
			e.Lead(nil)
			elections = append(elections, e)
		}
		leading := func() (n int) {
			for _, e := range elections {
				if e.Leading() {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		store.locked.Store(true)
		m.Pause()
		time.Sleep(time.Second)
		m.Resume()
		time.Sleep(2 * time.Minute)
		if n := leading(); n != len(elections)-1 {
			t.Errorf("two minutes after all stepped down, with one that cannot be released: %d of %d lead", n, len(elections))
		}
		if n := store.calls.Load(); n > 200 {
			t.Errorf("%d calls of Release in two minutes", n)
		}
		store.locked.Store(false)
		time.Sleep(time.Minute)
		if n := leading(); n != len(elections) {
			t.Errorf("once it can be released: %d of %d lead", n, len(elections))
		}
		closes(t, m)
	})
}
