package curator

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
	"github.com/go-election/go-election/lab/testbed"
)

// The answer to a bid is lost, and the bid after it ends before it has asked for anything. Giving up the later term gives up both.
func TestATermWhoseAnswerWasLostIsGivenUpWithTheNext(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Node} {
		o := shared(t)
		o.Layout = layout
		k, own := openLock(t, o), func(term uint64) beside.Owned { return beside.Owned{Election: "jobs", ID: "a", Term: term} }
		read := func() beside.State {
			states, err := k.Read(t.Context(), []string{"jobs"})
			testbed.NoError(t, err)
			return states[0]
		}
		got, err := k.Take(t.Context(), []beside.Taking{{Owned: own(1), Was: read()}})
		if testbed.NoError(t, err); got[0].Outcome != backend.Granted {
			t.Fatalf("%s: %+v", layout, got)
		}

		was := read()
		k.session.Drop() // with what is remembered
		ended, end := context.WithCancel(t.Context())
		end()
		if got, _ := k.Take(ended, []beside.Taking{{Owned: own(2), Was: was}}); got[0].Outcome == backend.Granted {
			t.Fatalf("%s: granted in a call that has ended", layout)
		}
		testbed.Eventually(t, patience, "the later term is given up", func() error { return k.Drop(t.Context(), []beside.Owned{own(2)}) })
		if v, err := k.view(t.Context(), "jobs"); err != nil || len(v.marks) > 0 || k.layout.kind != Node && len(k.places(v)) > 0 {
			t.Errorf("%s: the earlier term is still there: %+v, %v", layout, v, err)
		}
	}
}

// Calls that run at once give up one place, while a bid takes the lock anew: none of them removes the nodes of that bid.
func TestWhoGivesUpAPlaceLeavesTheNextBidAlone(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	k, ctx := openLock(t, l.Options), t.Context()
	own := beside.Owned{Election: "jobs", ID: "a"}
	for range 2000 {
		testbed.Eventually(t, patience, "a place", func() error { return k.Wait(ctx, []beside.Owned{own}) })
		k.mu.Lock()
		k.claims["jobs"].wanted = time.Time{} // as if no bid had needed it for long
		k.mu.Unlock()

		var calls sync.WaitGroup
		for range 6 {
			calls.Go(func() { k.Read(ctx, []string{"jobs"}) })
		}
		granted := false
		calls.Go(func() {
			for range 5 {
				if v, err := k.view(ctx, "jobs"); err == nil && !granted {
					own.Term++
					got, _ := k.Take(ctx, []beside.Taking{{Owned: own, Was: k.state(v)}})
					granted = got[0].Outcome == backend.Granted
				}
			}
		})
		calls.Wait()
		if granted {
			v, err := k.view(ctx, "jobs")
			testbed.NoError(t, err)
			if m := v.mark(own.Term); m == nil || !slices.Contains(k.places(v), m.node) {
				t.Fatalf("term %d was granted, and its node is gone: the mark is %+v, the places are %q", own.Term, m, k.places(v))
			}
		}
		testbed.Eventually(t, patience, "it is given up", func() error { return k.Drop(ctx, []beside.Owned{own}) })
	}
}
