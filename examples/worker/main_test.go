package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electionhttp"
	"github.com/go-election/go-election/electiontest"
	"github.com/go-election/go-election/lab/testbed"
)

// A worker is a copy, and what it serves below /election.
type worker struct {
	*electiontest.Process
	state *electionhttp.Handler
	stop  context.CancelFunc
}

func start(t *testing.T, g *electiontest.Group, id string) *worker {
	t.Helper()
	p := g.Start(id)
	e, err := p.Join("worker")
	testbed.NoError(t, err)
	state, err := electionhttp.New(p.Manager, electionhttp.Options{})
	testbed.NoError(t, err)
	t.Cleanup(state.Close)
	ctx, stop := context.WithCancel(t.Context())
	go e.Run(ctx, work)
	return &worker{p, state, stop}
}

func (w *worker) answers(path string) int {
	answer := httptest.NewRecorder()
	w.state.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
	return answer.Code
}

// terminate is what SIGTERM does.
func (w *worker) terminate(t *testing.T) {
	t.Helper()
	w.stop()
	if err := w.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Deployment replaces one copy after the other. With /readyz as the readiness probe it comes to its end. With
// /leader it waits for the first new copy, which would lead only after an old one has ended.
func TestARollingUpdateGoesOn(t *testing.T) {
	for probe, want := range map[string]int{"/readyz": 3, "/leader/worker": 0} {
		t.Run(probe, func(t *testing.T) {
			electiontest.Test(t, election.Options{}, func(t *testing.T, g *electiontest.Group) {
				var old []*worker
				for i := range 3 {
					old = append(old, start(t, g, fmt.Sprint("old-", i)))
				}
				last := g.Leader("worker")
				replaced := roll(t, g, old, probe)
				if replaced != want {
					t.Errorf("%d copies were replaced, want %d", replaced, want)
				}
				if next := g.Leader("worker"); (next == last) != (want == 0) {
					t.Errorf("%s leads after %s, and %d copies were replaced", next.ID(), last.ID(), replaced)
				}
			})
		})
	}
}

// roll starts a new copy for each old one, and ends the old one when the new one is ready, as a Deployment does. It
// gives up after ten minutes (progressDeadlineSeconds), and returns how many it has replaced.
func roll(t *testing.T, g *electiontest.Group, old []*worker, probe string) (replaced int) {
	for _, w := range old {
		next := start(t, g, fmt.Sprint("new-", replaced))
		for began := time.Now(); next.answers(probe) != http.StatusOK; time.Sleep(time.Second) {
			if time.Since(began) > 10*time.Minute {
				return replaced
			}
		}
		w.terminate(t)
		replaced++
	}
	return replaced
}
