package curator

import (
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/beside"
)

// mark marks a lease, and fails the test if that is not granted.
func (c *client) mark(t testing.TB, held backend.Lease, to string) backend.Lease {
	t.Helper()
	held.MovedTo = to
	answers, err := c.Mark(c.Context(), []backend.Held{held.Held()})
	if err != nil || answers[0].Outcome != backend.Granted || answers[0].MovedTo != to {
		t.Fatalf("a move to %q: want granted, got %+v, %v", to, answers, err)
	}
	return answers[0].Lease
}

func (c *client) free(held backend.Lease) {
	c.Resigns(backend.Lease{Election: held.Election, Term: held.Term})
}

// The next renewal meets a seal that an earlier one has made, whose answer was lost: it has no outcome, and ends nothing.
func TestASealWhoseAnswerWasLostEndsNoLeadership(t *testing.T) {
	t.Parallel()
	o := shared(t)
	a := newClient(t, "a", o)
	held := a.TakesOver("jobs")
	seen, err := a.lock.view(t.Context(), "jobs")
	if err != nil {
		t.Fatal(err)
	}
	held = a.mark(t, held, "mysql")
	r := a.lock.lost(t.Context(), &beside.Owned{Election: "jobs", Term: held.Term, Sealed: true}, seen, zk.ErrNodeExists)
	if r.Outcome != backend.Unknown || !errors.Is(r.Err, backend.ErrUnavailable) {
		t.Errorf("%v, %v; want no outcome", r.Outcome, r.Err)
	}
	a.Keeps(held)
}

// Curator's members wait behind a seal, and continue when it is broken.
func TestCuratorsMembersWaitBehindASeal(t *testing.T) {
	t.Parallel()
	for _, layout := range []Layout{Latch, Selector} {
		t.Run(string(layout), func(t *testing.T) {
			t.Parallel()
			o := shared(t)
			o.Layout = layout
			a, b := newClient(t, "a", o), newClient(t, "b", o)
			a.free(a.mark(t, a.TakesOver("jobs"), "mysql"))
			java := startJava(t, string(layout), o, a.lock.layout.lockPath("jobs"), "java-1", 15*time.Second)
			shows := java.Who(2)
			if want := "moved* java-1"; layout == Latch && shows != want {
				t.Errorf("Curator shows %q, want %q", shows, want)
			}
			t.Logf("Curator's participants behind a seal: %q", shows)
			held := b.mark(t, b.Leads("jobs"), "")
			b.Keeps(held)
			java.Who(2) // it has queued again
			b.Keeps(held)
			if led := java.Led(); len(led) > 0 {
				t.Fatalf("java-1 has led beside b, or behind a seal: %v", led)
			}
			b.free(held)
			java.Says("leader")
		})
	}
}
