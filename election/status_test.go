package election

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend/memory"
)

// part waits a second of virtual time, and returns the status of a manager and of its only election.
func part(t *testing.T, m *Manager) (Status, ElectionStatus) {
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
		ea, eb := alone(t, store.Backend(), Options{ID: "a"}), alone(t, store.Backend(), Options{ID: "b"})
		a, b := ea.manager, eb.manager
		if s, p := part(t, a); s.ID != "a" || s.Backend != "memory" || s.Closed || s.Unreachable || s.Err != nil || p.Kind != Vacant || p.Campaigning || p.Remaining >= 0 {
			t.Errorf("before anybody campaigns: %+v", s)
		}
		noError(t, ea.Lead(nil))
		if _, p := part(t, a); !p.Leading || !p.Campaigning || p.Leader.ID != "a" || p.Remaining <= 0 || p.Remaining > DefaultTTL {
			t.Errorf("the leader's own status: %+v", p)
		}
		noError(t, eb.Nominate(t.Context(), "c"))
		if _, p := part(t, b); p.Leading || p.Leader.ID != "a" || p.Remaining <= 0 || p.Remaining > DefaultTTL || p.Request.ID != "c" {
			t.Errorf("a follower's status: %+v, want that a leads, and the request for c", p)
		}
		for _, c := range []struct {
			what     string
			do       func()
			all, one bool
		}{
			{"a manager that is paused", b.Pause, true, true},
			{"a paused manager whose only election was resumed", eb.Resume, true, false},
			{"a manager that was resumed", b.Resume, false, false},
		} {
			c.do()
			if s, p := part(t, b); s.Paused != c.all || p.Paused != c.one {
				t.Errorf("the status of %s: %+v", c.what, s)
			}
		}
		for _, m := range []*Manager{a, b} {
			select {
			case <-m.Done():
				t.Error("Done is closed before Close is called")
			default:
			}
			closes(t, m)
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
		m := alone(t, b, Options{}).manager
		if s, _ := part(t, m); s.Unreachable || s.Err != nil || s.Contact > DefaultTTL/2 {
			t.Errorf("status while the store answers: %+v", s)
		}
		b.Close() // from now on every call fails
		time.Sleep(2 * DefaultTTL)
		if s, p := part(t, m); !s.Unreachable || s.Err == nil || s.Contact < DefaultTTL || p.Kind != Unknown {
			t.Errorf("status two TTLs after the store has gone: %+v", s)
		}
	})
}
