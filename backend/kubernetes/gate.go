package kubernetes

import (
	"net/http"
	"sync"
)

// maxRequests is how many requests a Backend has under way at the same time, besides a watch.
const maxRequests = 16

// A gate limits how many requests are under way. When the API server answers that there are too many,
// it lets fewer through: client-go sends each again after the time that the server has named, all at
// the same moment.
type gate struct {
	next http.RoundTripper

	mu      sync.Mutex
	busy    int
	limit   int
	granted int           // requests since the limit was changed
	freed   chan struct{} // closed when a request may go on
}

func newGate(next http.RoundTripper) *gate {
	return &gate{next: next, limit: maxRequests, freed: make(chan struct{})}
}

// RoundTrip implements [http.RoundTripper].
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "" { // it lasts
		return g.next.RoundTrip(r)
	}
	for freed := g.enter(); freed != nil; freed = g.enter() {
		select {
		case <-freed:
		case <-r.Context().Done():
			if r.Body != nil {
				r.Body.Close()
			}
			return nil, r.Context().Err()
		}
	}
	answer, err := g.next.RoundTrip(r)
	g.leave(err == nil && answer.StatusCode == http.StatusTooManyRequests)
	return answer, err
}

// WrappedRoundTripper returns what it calls, so that Close finds the idle connections.
func (g *gate) WrappedRoundTripper() http.RoundTripper { return g.next }

// enter returns nil if the request may be sent, or what to wait for.
func (g *gate) enter() (freed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy >= g.limit {
		return g.freed
	}
	g.busy++
	return nil
}

func (g *gate) leave(throttled bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	if g.granted++; throttled {
		g.limit, g.granted = max(1, g.limit/2), 0
	} else if g.granted > 2*maxRequests && g.limit < maxRequests {
		g.limit, g.granted = g.limit+1, 0
	}
	close(g.freed)
	g.freed = make(chan struct{})
}
