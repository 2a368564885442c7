package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-election/go-election/election"
	"github.com/go-election/go-election/electiontest"
)

// At any time at most one copy is ready, and all are alive. When the leader crashes, another copy
// becomes ready.
func TestOnlyTheLeaderIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := electiontest.New(t, election.Options{})
		handlers := map[string]http.Handler{}
		for _, id := range []string{"a", "b", "c"} {
			e, err := g.Start(id).Join("worker")
			if err != nil {
				t.Fatal(err)
			}
			handlers[id] = routes(e)
			go e.Run(t.Context(), work)
		}
		first := g.Leader("worker")
		if now := ready(t, handlers); len(now) != 1 || now[0] != first.ID() {
			t.Errorf("%s leads, and %v are ready", first.ID(), now)
		}
		first.Crash()
		for range 12 { // more than a TTL
			time.Sleep(time.Second)
			if now := ready(t, handlers); len(now) > 1 {
				t.Errorf("%v are ready", now)
			}
		}
		if now := ready(t, handlers); len(now) != 1 || now[0] == first.ID() {
			t.Errorf("after the crash of %s %v are ready", first.ID(), now)
		}
	})
}

// ready returns the copies that are ready. All must be alive.
func ready(t *testing.T, handlers map[string]http.Handler) (ids []string) {
	t.Helper()
	for id, h := range handlers {
		if code := get(h, "/healthz"); code != http.StatusOK {
			t.Errorf("%s: /healthz is %d", id, code)
		}
		switch code := get(h, "/readyz"); code {
		case http.StatusOK:
			ids = append(ids, id)
		case http.StatusServiceUnavailable:
		default:
			t.Errorf("%s: /readyz is %d", id, code)
		}
	}
	return ids
}

func get(h http.Handler, path string) int {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
	return answer.Code
}
