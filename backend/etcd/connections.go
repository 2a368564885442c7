package etcd

import (
	"context"
	"net"
	"sync"
)

// connections are the TCP connections of a client. If a firewall has forgotten a
// connection or the network was cut, TCP takes minutes to notice. Therefore all
// connections are closed, and made anew, when no member has answered a call in time.
type connections struct {
	mu   sync.Mutex
	open map[*connection]bool
}

type connection struct {
	net.Conn
	owner *connections
}

func (c *connections) dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	tracked := &connection{conn, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[*connection]bool)
	}
	c.open[tracked] = true
	return tracked, nil
}

func (c *connection) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// drop closes all connections.
func (c *connections) drop() {
	c.mu.Lock()
	all := c.open
	c.open = nil
	c.mu.Unlock()
	for conn := range all {
		conn.Conn.Close()
	}
}
