package curator

import "sync"

// A serverList hands out the servers in turn, by name: the dialler resolves them. The
// library's own list resolves them once, and waits a second before it reconnects to a
// single server.
type serverList struct {
	mu      sync.Mutex
	servers []string
	next    int
	tries   int
}

func (h *serverList) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers
	return nil
}

func (h *serverList) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next returns the next server. After a round of failures the library waits a second, and
// fails the waiting requests.
func (h *serverList) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next%len(h.servers)]
	h.next++
	if h.tries >= len(h.servers) {
		h.tries, retryStart = 0, true
	}
	h.tries++
	return server, retryStart
}

func (h *serverList) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = 0
}
