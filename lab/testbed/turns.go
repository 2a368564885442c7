package testbed

import (
	"errors"
	"testing"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/backend/lease"
	"github.com/go-election/go-election/internal/client"
)

// TakeAll makes a driver have n connections.
func TakeAll[C any](t testing.TB, pool *client.Pool[C], n int) {
	t.Helper()
	var all []*client.Conn[C]
	for range n {
		c, err := pool.Take(t.Context(), true)
		noError(t, err)
		all = append(all, c)
	}
	for _, c := range all {
		pool.Give(c, false)
	}
}

// NotInTurns reads several times: the server changes once.
func NotInTurns(t testing.TB, d lease.Driver, before string) {
	t.Helper()
	changes, last := 0, before
	for range 6 {
		v, err := d.Read(t.Context(), nil)
		if errors.Is(err, backend.ErrDenied) {
			t.Fatal(err) // they take turns
		}
		if err == nil && v.Epoch != last {
			changes, last = changes+1, v.Epoch
		}
	}
	if changes != 1 || last == before {
		t.Errorf("the answers came from one server and the other: %d changes", changes)
	}
}
