package elect

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/lab/testbed"
)

// This test is the program that embeds the library. Elect finds it by the name of the election, or
// by the path of its socket.
func TestElectReachesAProgramWithTheLibrary(t *testing.T) {
	dir := testbed.TempDir(t)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	env := environ(dir)
	for _, path := range []string{"", filepath.Join(dir, "own", "socket")} {
		m, err := election.New(memory.New().Backend(), election.Options{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		e, ends := leadNightly(t, m)
		done := make(chan error, 1)
		go func() { done <- electionhttp.ServeLocal(t.Context(), m, path) }()
		leads := func(why string) {
			t.Helper()
			testbed.Eventually(t, patience, why, func() error {
				if !e.Leading() {
					return fmt.Errorf("%v", e.Current())
				}
				return nil
			})
		}
		act := func(action, says string) {
			t.Helper()
			args := []string{action, "billing/nightly", "--json", "--yes"}
			if path != "" {
				args = append(args, "--socket", path)
			}
			// The socket may not exist yet.
			testbed.Eventually(t, patience, "elect "+action+" reaches the program", func() error {
				if out, code := call(t, env, args...); code != 0 || !strings.Contains(out, says) {
					return fmt.Errorf("code %d: %s", code, out)
				}
				return nil
			})
		}
		ended := func(reason election.Reason) {
			t.Helper()
			select {
			case err := <-ends:
				if end, ok := err.(*election.EndError); !ok || end.Reason != reason {
					t.Errorf("the lead function was ended because of %v, want %s", err, reason)
				}
			default:
				t.Errorf("elect has returned, and the lead function has not (%s)", reason)
			}
		}
		leads("the program leads")
		act("pause", `"leading":false,"paused":true`)
		ended(election.ReasonPaused)
		act("resume", `"paused":false`)
		leads("a program that is resumed leads again")
		act("resign", `"leading":false,"paused":false`)
		ended(election.ReasonResigned)
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// leadNightly campaigns with a function that tells why its context has ended.
func leadNightly(t *testing.T, m *election.Manager) (e *election.Election, ends chan error) {
	t.Helper()
	e, err := m.Join("billing/nightly")
	if err != nil {
		t.Fatal(err)
	}
	ends = make(chan error, 10)
	if err := e.Lead(func(ctx context.Context, _ *election.Leadership) error {
		<-ctx.Done()
		ends <- context.Cause(ctx)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return e, ends
}
