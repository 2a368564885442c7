package zookeeper

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// handshakeTimeout limits how long a server may take to accept a session. The library would wait ten
// times the session's length for a server that hangs.
const handshakeTimeout = 5 * time.Second

// A conn is one network connection to a server.
type conn struct {
	net.Conn
	handshake *time.Timer  // closes the connection
	received  atomic.Int64 // bytes
	lastRead  atomic.Int64 // as an offset from opened
	opened    time.Time

	lastWrite, lastPing time.Time // used by the library's one goroutine that sends
}

// dial connects to a server for the library.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	raw, err := dialServer(context.Background(), s.d.options.TLS, address, timeout)
	if err != nil {
		s.change(func() { s.why = err })
		return nil, err // the library tries the next server at once
	}
	c := &conn{Conn: raw, opened: time.Now()}
	c.handshake = time.AfterFunc(handshakeTimeout, func() { raw.Close() })
	s.mu.Lock()
	old := s.conn
	s.conn, closed = c, s.closed
	s.mu.Unlock()
	if old != nil {
		old.Close() // after a session has expired the library leaves its connection open
	}
	if closed {
		c.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// dialServer connects to one server, with TLS unless config is nil.
func dialServer(ctx context.Context, config *tls.Config, address string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil || config == nil {
		return c, err
	}
	if config.ServerName == "" && !config.InsecureSkipVerify {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	// A TLS handshake takes several round trips and some computing.
	ctx, cancel := context.WithTimeout(ctx, max(timeout, handshakeTimeout))
	defer cancel()
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return t, nil
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.lastRead.Store(int64(time.Since(c.opened)))
		if c.received.Add(int64(n)) > 16 { // the length and the beginning of the answer to the handshake
			c.handshake.Stop()
		}
	}
	return n, err
}

// ping is what the library sends three times in the length of a session, whatever else it sends.
var ping = []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}

// Write leaves out a ping if there was another request in the second half of the time since the last
// one: every request keeps the session alive.
func (c *conn) Write(p []byte) (int, error) {
	now := time.Now()
	if bytes.Equal(p, ping) {
		needless := now.Sub(c.lastWrite) < now.Sub(c.lastPing)/2
		if c.lastPing = now; needless {
			return len(p), nil
		}
	}
	c.lastWrite = now
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	c.handshake.Stop()
	return c.Conn.Close()
}

// dropIfSilent closes the connection if nothing was received on it since began.
func (s *session) dropIfSilent(began time.Time) {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil && c.opened.Add(time.Duration(c.lastRead.Load())).Before(began) {
		c.Close()
	}
}

// A serverList hands out the servers in turn, by name: dial resolves them. The library's own list
// resolves them once, and waits a second before it connects to a single server again.
type serverList struct {
	mu      sync.Mutex
	servers []string
	next    int
	failed  int
}

func (l *serverList) Init(servers []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = servers
	return nil
}

func (l *serverList) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.servers)
}

// Next returns the next server. After a round of failures the library waits a second, and fails the
// waiting requests.
func (l *serverList) Next() (server string, wait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	server = l.servers[l.next%len(l.servers)]
	l.next++
	if l.failed >= len(l.servers) {
		l.failed, wait = 0, true
	}
	l.failed++
	return server, wait
}

func (l *serverList) Connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = 0
}
