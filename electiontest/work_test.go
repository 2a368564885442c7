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
	"github.com/go-election/go-election/lab/testbed"
)

// A recorder is a test that records its errors.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	errors []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// The lead function does not wait for its job, which goes on under the next leader.
func TestOverlappingWorkFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec, end := &recorder{TB: t}, make(chan struct{})
		t.Cleanup(func() { close(end) })
		g := electiontest.New(rec, election.Options{})
		for _, id := range []string{"a", "b"} {
			e, err := g.Start(id).Join("jobs")
			testbed.NoError(t, err)
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
		if len(first) != 1 || len(rec.errors) != 0 {
			t.Fatalf("work under terms %v, want one; unexpected errors: %q", first, rec.errors)
		}
		g.Expire("jobs")
		if len(rec.errors) != 1 || !strings.Contains(rec.errors[0], fmt.Sprintf("before that of term %d has ended", first[0])) {
			t.Errorf("work overlaps that of term %d, and the errors are %q", first[0], rec.errors)
		}
	})
}

func TestWorkOfAnEarlierTermFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{TB: t}
		g := electiontest.New(rec, election.Options{})
		e, err := g.Start("a").Join("jobs")
		testbed.NoError(t, err)
		old, err := e.Campaign(t.Context())
		testbed.NoError(t, err)
		testbed.NoError(t, old.Resign(t.Context()))
		lead, err := e.Campaign(t.Context())
		testbed.NoError(t, err)
		g.Work(lead)()
		g.Work(old)()
		if len(rec.errors) != 1 || !strings.Contains(rec.errors[0], "after that of term") {
			t.Errorf("work begins after that of a later leadership, and the errors are %q", rec.errors)
		}
	})
}
