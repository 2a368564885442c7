package ensemble

// A serverList is a zk.HostProvider that hands out the servers in turn, by name: whoever dials resolves
// them. The library's own list resolves them once, and waits a second before it connects to a single
// server again. The library calls it from one goroutine.
type serverList struct {
	servers []string
	next    int
	tries   int
}

// Init implements zk.HostProvider.
func (l *serverList) Init(servers []string) error {
	l.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (l *serverList) Len() int { return len(l.servers) }

// Next returns the next server. After a round of failures the library waits a second, and
// fails the waiting requests.
func (l *serverList) Next() (server string, retryStart bool) {
	server = l.servers[l.next%len(l.servers)]
	l.next++
	if l.tries >= len(l.servers) {
		l.tries, retryStart = 0, true
	}
	l.tries++
	return server, retryStart
}

// Connected implements zk.HostProvider.
func (l *serverList) Connected() { l.tries = 0 }
