package election_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/election"
)

func open(t *testing.T, s *memory.Store, o election.Options) *election.Manager {
	t.Helper()
	m, err := election.New(s.Backend(), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// polled is a store that must be polled: it does not push changes.
type polled struct{ backend.Backend }

func (p polled) Guarantees() backend.Guarantees {
	g := p.Backend.Guarantees()
	g.Push, g.Poll = false, true
	return g
}

func join(t *testing.T, m *election.Manager, name string) *election.Election {
	t.Helper()
	e, err := m.Join(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestALeaderIsElectedAndHandsOver(t *testing.T) {
	for _, poll := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			start := func(id string) *election.Manager {
				if !poll {
					return open(t, store, election.Options{ID: id})
				}
				m, err := election.New(polled{store.Backend()}, election.Options{ID: id})
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			a, b := start("a"), start("b")
			ea, eb := join(t, a, "jobs"), join(t, b, "jobs")
			eb.Watch(func(ev election.Event) { t.Log(time.Now().Format("15:04:05.000"), ev) })
			if err := ea.Lead(nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := eb.Lead(nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if !ea.Leading() || eb.Leading() {
				t.Fatal("a does not lead alone")
			}
			if err := a.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if !eb.Leading() {
				t.Fatal("b does not lead after a has closed")
			}
			if err := b.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
