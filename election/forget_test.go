package election

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/memory"
)

// campaigns starts a process that campaigns for "x", and waits for a minute.
func campaigns(t *testing.T, b backend.Backend, id string) *Election {
	t.Helper()
	e := alone(t, b, Options{ID: id})
	e.Lead(untilItEnds)
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
	for how, end := range map[string]func(t *testing.T, e *Election, wire *script){
		"after a release": func(t *testing.T, e *Election, _ *script) { closes(t, e.manager) },
		"after a crash":   func(_ *testing.T, _ *Election, wire *script) { wire.fail(errLost) },
	} {
		inBubble(t, how, func(t *testing.T) {
			store := memory.New()
			wire := &script{Backend: store.Backend()}
			leader := campaigns(t, wire, "a")
			led := kept(t, store)
			end(t, leader, wire)
			time.Sleep(time.Minute)
			operator := manage(t, store.Backend(), Options{ID: "operator"})
			noError(t, operator.Forget(t.Context(), "x"))
			r := kept(t, store)
			if !r.Forgotten() || r.Term <= led.Term || operator.Election("x") != nil {
				t.Errorf("it is kept as %+v, and joined: %v", r, operator.Election("x") != nil)
			}
			e := campaigns(t, store.Backend(), "b")
			if again := kept(t, store); !e.Leading() || again.Forgotten() || again.Term <= r.Term {
				t.Errorf("a new candidate leads: %v, with %+v", e.Leading(), again)
			}
			wire.heal()
			time.Sleep(time.Minute)
		})
	}
}

func TestForgetFailsWhileAnotherProcessLeads(t *testing.T) {
	inBubble(t, "by another", func(t *testing.T) {
		store := memory.New()
		e := campaigns(t, store.Backend(), "a")
		operator := manage(t, store.Backend(), Options{ID: "operator"})
		if err := operator.Forget(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), `"a" leads`) {
			t.Errorf("Forget: %v, want that a leads", err)
		}
		time.Sleep(time.Minute)
		if !e.Leading() || operator.Election("x") != nil {
			t.Errorf("it leads on: %v; the operator's process is in it: %v", e.Leading(), operator.Election("x") != nil)
		}
	})
	inBubble(t, "while this process is a candidate", func(t *testing.T) {
		store := memory.New()
		campaigns(t, store.Backend(), "a")
		b := campaigns(t, store.Backend(), "b").manager
		if err := b.Forget(t.Context(), "x"); err == nil || b.Election("x") == nil {
			t.Errorf("Forget: %v, and it is in the election: %v; want an error, and that it is", err, b.Election("x") != nil)
		}
	})
}

// A leader that forgets its own election steps down and leaves.
func TestALeaderCanForgetItsElection(t *testing.T) {
	inBubble(t, "x", func(t *testing.T) {
		store := memory.New()
		e := campaigns(t, store.Backend(), "a")
		if err := e.manager.Forget(t.Context(), "x"); err != nil || e.Leading() || e.manager.Election("x") != nil {
			t.Errorf("Forget: %v, it leads: %v, it is in the election: %v", err, e.Leading(), e.manager.Election("x") != nil)
		}
		if r := kept(t, store); !r.Forgotten() {
			t.Errorf("it is kept as %+v", r)
		}
	})
}

// The vacancy is reported though the election was vacant before: its reason has changed.
func TestWatchersSeeThatAnElectionIsForgotten(t *testing.T) {
	inBubble(t, "x", func(t *testing.T) {
		store := memory.New()
		closes(t, campaigns(t, store.Backend(), "a").manager)
		var last Event
		alone(t, store.Backend(), Options{ID: "b"}).Watch(func(ev Event) { last = ev })
		time.Sleep(time.Minute)
		noError(t, manage(t, store.Backend(), Options{ID: "operator"}).Forget(t.Context(), "x"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if last.Kind != Vacant || last.Reason != ReasonForgotten {
			t.Errorf("it is told %v", last)
		}
	})
}
