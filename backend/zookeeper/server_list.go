package zookeeper

import "sync"

// hosts hands out the servers in turn, by name: the dialler looks them up. The
// library's own list looks them up once, and waits a second before it connects
// to an only server again.
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

// Next returns the next server. After a round of failures the library waits a
// second, and fails the requests that wait.
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
