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
type lines struct {
	mu   sync.Mutex
	open map[*line]bool
}

type line struct {
	net.Conn
	of *lines
}

func (l *lines) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	one := &line{c, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[*line]bool)
	}
	l.open[one] = true
	return one, nil
}

func (l *line) Close() error {
	l.of.mu.Lock()
	delete(l.of.open, l)
	l.of.mu.Unlock()
	return l.Conn.Close()
}

// drop closes all connections.
func (l *lines) drop() {
	l.mu.Lock()
	all := l.open
	l.open = nil
	l.mu.Unlock()
	for c := range all {
		c.Conn.Close()
	}
}
