package election_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

// part waits a second of virtual time, and returns the status of a manager and of its only election.
func part(t *testing.T, m *election.Manager) (election.Status, election.ElectionStatus) {
	t.Helper()
	time.Sleep(time.Second)
	s := m.Status()
	if len(s.Elections) != 1 {
		t.Fatalf("Status has %d elections, want 1", len(s.Elections))
	}
	return s, s.Elections[0]
}

func TestStatusShowsWhatTheManagerKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		a, b := open(t, store, election.Options{ID: "a"}), open(t, store, election.Options{ID: "b"})
		ea, eb := join(t, a, "jobs"), join(t, b, "jobs")
		if s, p := part(t, a); s.ID != "a" || s.Backend != "memory" || s.Closed || s.Unreachable || s.Err != nil || p.Kind != election.Vacant || p.Campaigning || p.Remaining >= 0 {
			t.Errorf("before anybody campaigns: %+v", s)
		}
		if err := ea.Lead(nil); err != nil {
			t.Fatal(err)
		}
		if _, p := part(t, a); !p.Leading || !p.Campaigning || p.Leader.ID != "a" || p.Remaining <= 0 || p.Remaining > election.DefaultTTL {
			t.Errorf("the leader's own status: %+v", p)
		}
		if err := eb.Nominate(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		if _, p := part(t, b); p.Leading || p.Leader.ID != "a" || p.Remaining <= 0 || p.Remaining > election.DefaultTTL || p.Request.ID != "c" {
			t.Errorf("a follower's status: %+v, want that a leads, and the request for c", p)
		}
		b.Pause()
		if s, p := part(t, b); !s.Paused || !p.Paused {
			t.Errorf("a paused manager's status: %+v", s)
		}
		eb.Resume()
		if s, p := part(t, b); !s.Paused || p.Paused {
			t.Errorf("status of a paused manager whose only election was resumed: %+v", s)
		}
		b.Resume()
		if s, _ := part(t, b); s.Paused {
			t.Errorf("status of a manager that was resumed: %+v", s)
		}
		for _, m := range []*election.Manager{a, b} {
			select {
			case <-m.Done():
				t.Error("Done is closed before Close is called")
			default:
			}
			if err := m.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			<-m.Done()
			if s := m.Status(); !s.Closed || s.ID == "" || len(s.Elections) > 0 {
				t.Errorf("status after Close: %+v", s)
			}
		}
	})
}

func TestStatusShowsAnUnreachableStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New().Backend()
		m, err := election.New(b, election.Options{})
		if err != nil {
			t.Fatal(err)
		}
		join(t, m, "jobs")
		if s, _ := part(t, m); s.Unreachable || s.Err != nil || s.Contact > election.DefaultTTL/2 {
			t.Errorf("status while the store answers: %+v", s)
		}
		b.Close() // from now on every call fails
		time.Sleep(2 * election.DefaultTTL)
		if s, p := part(t, m); !s.Unreachable || s.Err == nil || s.Contact < election.DefaultTTL || p.Kind != election.Unknown {
			t.Errorf("status two TTLs after the store has gone: %+v", s)
		}
		if err := m.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}
