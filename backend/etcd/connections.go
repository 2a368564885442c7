package etcd

import (
	"context"
	"net"
	"sync"
)

// lines are the connections of a client. One on which nothing comes back any more,
// because a firewall has forgotten it or a network was cut, looks alive to TCP for
// minutes: when a whole call has had no answer they are all dropped, and made
// anew.
type connections struct {
	mu   sync.Mutex
	open map[*connection]bool
}

type connection struct {
	net.Conn
	owner *connections
}

func (l *connections) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	one := &connection{c, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[*connection]bool)
	}
	l.open[one] = true
	return one, nil
}

func (l *connection) Close() error {
	l.owner.mu.Lock()
	delete(l.owner.open, l)
	l.owner.mu.Unlock()
	return l.Conn.Close()
}

// drop closes all connections.
func (l *connections) drop() {
	l.mu.Lock()
	all := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range all {
		c.Conn.Close()
	}
}
