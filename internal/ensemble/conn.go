package ensemble

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// acceptTimeout is how long a server may take to accept a session. It does not depend on the calls that
// wait: servers that have just recovered would be asked again and again before they can answer. The
// library would wait ten times the session's length.
const acceptTimeout = 2 * time.Second

// A conn is one network connection to a server. It reads the messages of both sides: those of the library for
// what it does not let its caller decide, those of the server because they could crash the library.
//
// A message, or frame, is a length of four bytes, and as many bytes. Neither a write of the library nor a read
// from the network need be one frame. A request is sent when its frame is whole: later than the call that
// makes it has begun, never earlier.
type conn struct {
	net.Conn
	s           *Session
	reader      *bufio.Reader
	handshake   *time.Timer  // closes the connection
	connectSent time.Time    // when the request for a connection was sent
	accepted    bool         // that request was answered
	checked     []byte       // of the server's message: not yet read by the library
	rest        []byte       // of the library's request: not yet whole
	lastRead    atomic.Int64 // as an offset from opened
	opened      time.Time

	lastWrite, lastPing time.Time // used by the library's one goroutine that sends

	mu    sync.Mutex
	kinds map[int32]int32 // of unanswered requests, by xid
}

func (s *Session) newConn(raw net.Conn) *conn {
	now := time.Now()
	c := &conn{Conn: raw, s: s, reader: bufio.NewReaderSize(raw, 16<<10), opened: now, lastPing: now, kinds: make(map[int32]int32)}
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

// frameSize returns the size of the frame that begins with head. Its text has at most most bytes.
func frameSize(head []byte, most uint32) (int, error) {
	n := binary.BigEndian.Uint32(head)
	if n > most {
		return 0, fmt.Errorf("it has %d bytes, or is not a ZooKeeper message", n)
	}
	return 4 + int(n), nil
}

// readFrame reads a whole frame.
func readFrame(r io.Reader, most uint32) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size, err := frameSize(head[:], most)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, size)
	copy(frame, head[:])
	_, err = io.ReadFull(r, frame[4:])
	return frame, err
}

// Read lets the library read messages that are whole and were checked.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.checked) == 0 {
		if err := c.readMessage(); err != nil {
			c.Close()
			return 0, fmt.Errorf("message of the server: %w", err)
		}
	}
	n := copy(p, c.checked)
	c.checked = c.checked[n:]
	return n, nil
}

// Write sends the requests that are whole. A failure is told by the next Read alone: after a failed write the
// library may wait for ever, as it answers one request twice (conn.go, sendData and flushRequests).
func (c *conn) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for len(c.rest) >= 4 {
		size, err := frameSize(c.rest, maxRequest)
		if err == nil && len(c.rest) < size {
			return len(p), nil
		}
		if err == nil {
			err = c.send(c.rest[:size:size])
		}
		if err != nil {
			c.Close()
			return len(p), nil
		}
		c.rest = c.rest[size:]
	}
	if len(c.rest) == 0 {
		c.rest = nil // a large request need not stay in memory
	}
	return len(p), nil
}

// send sends a request, or leaves it out.
func (c *conn) send(frame []byte) error {
	now := time.Now()
	if c.connectSent.IsZero() {
		c.connectSent = now
	} else if len(frame) >= 12 {
		if bytes.Equal(frame, ping) && c.needless(now) {
			return nil
		}
		c.s.Watches.flag(frame)
		c.mu.Lock()
		c.kinds[int32(binary.BigEndian.Uint32(frame[4:]))] = int32(binary.BigEndian.Uint32(frame[8:]))
		c.mu.Unlock()
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
