package ensemble

import "sync"

// A ServerList is a zk.HostProvider that hands out the servers in turn, by name: whoever dials resolves
// them. The library's own list resolves them once, and waits a second before it connects to a single
// server again. The zero value is ready for use.
type ServerList struct {
	mu      sync.Mutex
	servers []string
	next    int
	tries   int
}

// Init implements zk.HostProvider.
func (l *ServerList) Init(servers []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (l *ServerList) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.servers)
}

// Next returns the next server. After a round of failures the library waits a second, and
// fails the waiting requests.
func (l *ServerList) Next() (server string, retryStart bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	server = l.servers[l.next%len(l.servers)]
	l.next++
	if l.tries >= len(l.servers) {
		l.tries, retryStart = 0, true
	}
	l.tries++
	return server, retryStart
}

// Connected implements zk.HostProvider.
func (l *ServerList) Connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries = 0
}
