package ensemble

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// acceptTimeout is how long a server may take to accept a session. It does not depend on the calls that
// wait: servers that have just recovered would be asked again and again before they can answer. The
// library would wait ten times the session's length.
const acceptTimeout = 2 * time.Second

// A conn is one network connection to a server. It decides what the library does not let its caller decide: whether a
// ping is sent, and whether a reading leaves a watch. It reads the server's first message before the library does.
//
// A message, or frame, is a length of four bytes, and as many bytes. The library writes one frame at a time.
type conn struct {
	net.Conn
	s           *Session
	reader      *bufio.Reader
	handshake   *time.Timer  // closes the connection
	connectSent time.Time    // when the request for a connection was sent
	accepted    bool         // that request was answered
	lastRead    atomic.Int64 // as an offset from opened
	opened      time.Time

	lastWrite, lastPing time.Time // used by the library's one goroutine that sends
}

func (s *Session) newConn(raw net.Conn) *conn {
	now := time.Now()
	c := &conn{Conn: raw, s: s, reader: bufio.NewReaderSize(raw, 16<<10), opened: now, lastPing: now}
	c.handshake = time.AfterFunc(acceptTimeout, func() { raw.Close() })
	return c
}

// dial connects to a server for the library. For a Quiet session it waits until a call needs a connection:
// connecting also keeps the session alive. current reports whether the library's client is the session's present one.
func (s *Session) dial(current func() bool, address string, timeout time.Duration) (net.Conn, error) {
	for {
		s.mu.Lock()
		idle, changed := s.Quiet && s.waiting == 0 && time.Since(s.lastUsed) > s.Length/3, s.changed
		s.mu.Unlock()
		if !current() {
			return nil, net.ErrClosed
		}
		if !idle {
			break
		}
		<-changed
	}
	raw, err := s.access.Dial(context.Background(), address, timeout)
	if err != nil {
		s.change(func() { s.why = err })
		return nil, err // the library tries the next server at once
	}
	c := s.newConn(raw)
	s.mu.Lock()
	old := s.conn
	s.conn = c
	s.mu.Unlock()
	if old != nil {
		old.Close() // after a session has expired the library leaves its connection open
	}
	if !current() {
		c.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// Read lets the library read what the server sends. The first message is the answer to the request for a connection.
func (c *conn) Read(p []byte) (int, error) {
	if !c.accepted {
		if err := c.readAcceptance(); err != nil {
			c.Close()
			return 0, fmt.Errorf("message of the server: %w", err)
		}
	}
	n, err := c.reader.Read(p)
	c.lastRead.Store(int64(time.Since(c.opened)))
	return n, err
}

// MaxLength is the greatest length of a session that a server may grant.
const MaxLength = time.Hour

// readAcceptance notes what the server's first message says. So it is known before the library sends a request in the
// session. The message has a version, the length in milliseconds, the session's id, which is 0 if it has expired, and a
// password of 16 bytes with its length. What is no such message comes from another kind of server; the library would
// take its beginning for a length, and reserve that much memory.
func (c *conn) readAcceptance() error {
	const least, most = 4 + 4 + 8 + 4 + 16, 256
	head, err := c.reader.Peek(4)
	if err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head)
	if n < least || n > most {
		return fmt.Errorf("it has %d bytes, or is not a ZooKeeper message", n)
	}
	frame, err := c.reader.Peek(4 + int(n))
	if err != nil {
		return err
	}

	length := time.Duration(int32(binary.BigEndian.Uint32(frame[8:]))) * time.Millisecond
	id := int64(binary.BigEndian.Uint64(frame[12:]))
	if id != 0 && (length < 10*time.Millisecond || length > MaxLength) { // the library would crash
		return fmt.Errorf("the server grants a session of %v", length)
	}
	c.accepted = true
	c.handshake.Stop()
	c.s.change(func() {
		if s := c.s; id != 0 && s.conn == c {
			if s.accepted.ID != id {
				s.accepted = Connection{ID: id, Began: c.connectSent}
			}
			s.accepted.Length, s.accepted.Sent = length, c.connectSent
		}
	})
	return nil
}

var errNoFrame = errors.New("what the library writes is not one frame")

// Write sends a request. A failure is told by the next Read alone: after a failed write the library may wait for
// ever, as it answers one request twice (conn.go, sendData and flushRequests).
func (c *conn) Write(frame []byte) (int, error) {
	if err := c.send(frame); err != nil {
		c.Close()
	}
	return len(frame), nil
}

// send sends a request, or leaves it out.
func (c *conn) send(frame []byte) error {
	if len(frame) < 4 || int(binary.BigEndian.Uint32(frame)) != len(frame)-4 {
		return errNoFrame
	}
	now := time.Now()
	switch {
	case c.connectSent.IsZero():
		c.connectSent = now
	case bytes.Equal(frame, ping):
		if c.needless(now) {
			return nil
		}
	default:
		frame = c.s.Watches.flag(frame)
	}
	c.lastWrite = now
	_, err := c.Conn.Write(frame)
	return err
}

// ping is what the library sends three times in the length of a session, whatever else it sends.
var ping = []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}

// needless reports whether a ping can be left out: there was another request in the second half of the time since
// the last one, and every request keeps the session alive; or nothing but calls may keep it.
func (c *conn) needless(now time.Time) bool {
	kept := now.Sub(c.lastWrite) < now.Sub(c.lastPing)/2
	c.lastPing = now
	return kept || c.s.Quiet
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

// Drop closes the connection. Requests that are under way fail, and calls wait for the next connection.
func (s *Session) Drop() {
	var c *conn
	s.change(func() {
		if c = s.conn; s.connected {
			s.connected, s.lost = false, time.Now()
		}
	})
	if c != nil {
		c.Close()
	}
}
