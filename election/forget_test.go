package election_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
	"github.com/go-election/go-election/conformance"
	"github.com/go-election/go-election/election"
)

func opened(t *testing.T, store *memory.Store, id string) *election.Manager {
	t.Helper()
	return over(t, store.Backend(), id)
}

func over(t *testing.T, b backend.Backend, id string) *election.Manager {
	t.Helper()
	m, err := election.New(b, election.Options{ID: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

func campaigns(t *testing.T, m *election.Manager, name string) *election.Election {
	t.Helper()
	e, err := m.Join(name)
	if err != nil {
		t.Fatal(err)
	}
	e.Lead(func(ctx context.Context, _ *election.Leadership) error { <-ctx.Done(); return nil })
	time.Sleep(time.Minute)
	return e
}

func kept(t *testing.T, store *memory.Store) backend.Record {
	t.Helper()
	list, err := store.Backend().List(t.Context(), "", 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("the store has %v, %v", list, err)
	}
	return list[0]
}

func TestAForgottenElectionCanBeLedAgain(t *testing.T) {
	for how, end := range map[string]func(m *election.Manager, wire *conformance.Wire){
		"after a release": func(m *election.Manager, _ *conformance.Wire) { m.Close(context.Background()) },
		"after a crash": func(_ *election.Manager, wire *conformance.Wire) {
			wire.Decide(func(conformance.Call) conformance.Fate { return conformance.Fate{Lost: true} })
		},
	} {
		bubble(t, how, func(t *testing.T) {
			store := memory.New()
			wire := conformance.Wrap(store.Backend())
			leader := over(t, wire, "a")
			campaigns(t, leader, "x")
			led := kept(t, store)
			end(leader, wire)
			time.Sleep(time.Minute)
			operator := opened(t, store, "operator")
			if err := operator.Forget(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			r := kept(t, store)
			if !r.Forgotten() || r.Term <= led.Term || operator.Election("x") != nil {
				t.Errorf("it is kept as %+v, and joined: %v", r, operator.Election("x") != nil)
			}
			b := opened(t, store, "b")
			e := campaigns(t, b, "x")
			if again := kept(t, store); !e.Leading() || again.Forgotten() || again.Term <= r.Term {
				t.Errorf("a new candidate leads: %v, with %+v", e.Leading(), again)
			}
		})
	}
}

func TestForgetFailsWhileAnotherProcessLeads(t *testing.T) {
	bubble(t, "by another", func(t *testing.T) {
		store := memory.New()
		e := campaigns(t, opened(t, store, "a"), "x")
		operator := opened(t, store, "operator")
		if err := operator.Forget(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), `"a" leads`) {
			t.Errorf("Forget: %v, want that a leads", err)
		}
		time.Sleep(time.Minute)
		if !e.Leading() || operator.Election("x") != nil {
			t.Errorf("it leads on: %v; the operator's process is in it: %v", e.Leading(), operator.Election("x") != nil)
		}
	})
	bubble(t, "while this process is a candidate", func(t *testing.T) {
		store := memory.New()
		campaigns(t, opened(t, store, "a"), "x")
		b := opened(t, store, "b")
		campaigns(t, b, "x")
		if err := b.Forget(t.Context(), "x"); err == nil || b.Election("x") == nil {
			t.Errorf("Forget: %v, and it is in the election: %v; want an error, and that it is", err, b.Election("x") != nil)
		}
	})
}

// A leader that forgets its own election steps down and leaves.
func TestALeaderCanForgetItsElection(t *testing.T) {
	bubble(t, "x", func(t *testing.T) {
		store := memory.New()
		m := opened(t, store, "a")
		e := campaigns(t, m, "x")
		if err := m.Forget(t.Context(), "x"); err != nil || e.Leading() || m.Election("x") != nil {
			t.Errorf("Forget: %v, it leads: %v, it is in the election: %v", err, e.Leading(), m.Election("x") != nil)
		}
		if r := kept(t, store); !r.Forgotten() {
			t.Errorf("it is kept as %+v", r)
		}
	})
}

// The vacancy is reported though the election was vacant before: its reason has changed.
func TestWatchersSeeThatAnElectionIsForgotten(t *testing.T) {
	bubble(t, "x", func(t *testing.T) {
		store := memory.New()
		m := opened(t, store, "a")
		campaigns(t, m, "x")
		m.Close(t.Context())
		e, err := opened(t, store, "b").Join("x")
		if err != nil {
			t.Fatal(err)
		}
		var last election.Event
		e.Watch(func(ev election.Event) { last = ev })
		time.Sleep(time.Minute)
		if err := opened(t, store, "operator").Forget(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if last.Kind != election.Vacant || last.Reason != election.ReasonForgotten {
			t.Errorf("it is told %v", last)
		}
	})
}
