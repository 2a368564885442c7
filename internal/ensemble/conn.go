package ensemble

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// acceptTimeout is how long a server may take to accept a session. It does not depend on the calls that
// wait: servers that have just recovered would be asked again and again before they can answer. The
// library would wait ten times the session's length.
const acceptTimeout = 2 * time.Second

// A conn is one network connection to a server.
type conn struct {
	net.Conn
	handshake *time.Timer  // closes the connection
	received  atomic.Int64 // bytes
	lastRead  atomic.Int64 // as an offset from opened
	opened    time.Time
	watches   *Watches

	lastWrite, lastPing time.Time // used by the library's one goroutine that sends
}

// dial connects to a server for the library.
func (s *Session) dial(address string, timeout time.Duration) (net.Conn, error) {
	raw, err := s.access.Dial(context.Background(), address, timeout)
	if err != nil {
		s.change(func() { s.why = err })
		return nil, err // the library tries the next server at once
	}
	c := &conn{Conn: raw, opened: time.Now(), lastPing: time.Now(), watches: s.Watches}
	c.handshake = time.AfterFunc(acceptTimeout, func() { raw.Close() })
	s.mu.Lock()
	old := s.conn
	s.conn = c
	closed := s.closed
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
// one: every request keeps the session alive. It leaves out all if nobody would miss the session, of which
// nothing but the root is remembered.
// A failure is told by the next Read alone: after a failed write the library may wait for ever, as it
// answers one request twice (conn.go, sendData and flushRequests).
func (c *conn) Write(p []byte) (int, error) {
	now := time.Now()
	if bytes.Equal(p, ping) {
		needless := now.Sub(c.lastWrite) < now.Sub(c.lastPing)/2
		if c.lastPing = now; needless || c.watches != nil && c.watches.Len() < 2 {
			return len(p), nil
		}
	}
	c.lastWrite = now
	if _, err := c.Conn.Write(p); err != nil {
		c.Close()
	}
	return len(p), nil
}

func (c *conn) Close() error {
	c.handshake.Stop()
	return c.Conn.Close()
}

// dropIfSilent closes the connection if ctx was exceeded and nothing was received on it since began.
func (s *Session) dropIfSilent(ctx context.Context, began time.Time) {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && c.opened.Add(time.Duration(c.lastRead.Load())).Before(began) {
		c.Close()
	}
}
