package curator

import (
	"testing"

	"github.com/go-election/go-election/lab/drivertest"
)

// A client is one Backend and the candidate that it serves.
type client struct {
	*Backend
	*drivertest.Candidate
}

func newClient(t testing.TB, id string, o Options) *client {
	t.Helper()
	b, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return &client{b, drivertest.NewCandidate(t, b, id, ttl)}
}
