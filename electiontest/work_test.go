package electiontest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

// A notebook is a test that writes down what fails.
type notebook struct {
	testing.TB
	mu    sync.Mutex
	notes []string
}

func (n *notebook) Helper() {}

func (n *notebook) Errorf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, fmt.Sprintf(format, args...))
}

// A job that nobody waits for goes on under the next leader.
func TestWorkThatOverlapsIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes, end := &notebook{TB: t}, make(chan struct{})
		t.Cleanup(func() { close(end) })
		g := electiontest.New(notes, election.Options{})
		for _, id := range []string{"a", "b"} {
			e, err := g.Start(id).Join("jobs")
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Lead(func(ctx context.Context, lead *election.Leadership) error {
				done := g.Work(lead)
				go func() {
					defer done()
					<-end
				}()
				<-ctx.Done()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		g.Leader("jobs")
		synctest.Wait()
		first := g.Worked("jobs")
		if len(first) != 1 || len(notes.notes) != 0 {
			t.Fatalf("work under terms %v, and complaints without a reason: %q", first, notes.notes)
		}
		g.Expire("jobs")
		if len(notes.notes) != 1 || !strings.Contains(notes.notes[0], fmt.Sprintf("while that of term %d goes on", first[0])) {
			t.Errorf("work overlaps that of term %d, and the complaints are %q", first[0], notes.notes)
		}
	})
}

func TestWorkAfterThatOfALaterLeadershipIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &notebook{TB: t}
		g := electiontest.New(notes, election.Options{})
		e, err := g.Start("a").Join("jobs")
		if err != nil {
			t.Fatal(err)
		}
		old, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		lead, err := e.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g.Work(lead)()
		g.Work(old)()
		if len(notes.notes) != 1 || !strings.Contains(notes.notes[0], "after that of term") {
			t.Errorf("work begins after that of a later leadership, and the complaints are %q", notes.notes)
		}
	})
}
