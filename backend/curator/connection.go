package curator

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-election/go-election/internal/ensemble"
)

// A connection is one network connection to a server. It inspects the traffic to learn the
// session's id and length, which the library does not expose, and to keep messages from the
// library that would crash it.
type connection struct {
	net.Conn
	s        *session
	reader   *bufio.Reader // of the server's messages
	requests frameWriter   // the library's

	handshakeDeadline time.Time // for the connect response
	connectSent       time.Time // when the connect request was sent
	handshakeDone     bool
	checked           []byte // checked, but not yet read by the library

	mu      sync.Mutex
	pending map[int32]int32 // kinds of unanswered requests, by xid

	lastRead atomic.Int64 // time of the last read, as an offset from opened
	opened   time.Time
}

// dial connects to a server for the library. It waits until a call needs a connection,
// because connecting also keeps the session alive.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	for {
		s.mu.Lock()
		idle, changed := s.waiting == 0 && time.Since(s.lastUsed) > s.requestedLength/3, s.changed
		s.mu.Unlock()
		if !idle {
			break
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		}
	}
	c, err := s.dialServer(address, timeout)
	if err != nil {
		s.change(func() { s.lastErr = err })
		// The library tries the next server at once.
		return nil, err
	}
	conn := newConnection(s, c)
	s.mu.Lock()
	mute, old := s.muted, s.connection
	s.connection = conn
	s.mu.Unlock()
	if old != nil {
		old.Conn.Close() // after a session has expired the library leaves its connection open
	}
	if mute || s.ctx.Err() != nil {
		c.Close()
		return nil, net.ErrClosed
	}
	return conn, nil
}

func newConnection(s *session, c net.Conn) *connection {
	now := time.Now()
	conn := &connection{Conn: c, s: s, reader: bufio.NewReaderSize(c, 16<<10), pending: map[int32]int32{}, opened: now, handshakeDeadline: now.Add(min(ensemble.HandshakeTimeout, max(s.requestedLength/3, 500*time.Millisecond)))}
	conn.requests = frameWriter{most: maxRequest, send: conn.send}
	return conn
}

func (s *session) dialServer(address string, timeout time.Duration) (net.Conn, error) {
	s.mu.Lock()
	mute := s.muted
	s.mu.Unlock()
	if mute {
		return nil, net.ErrClosed
	}
	return s.b.access.Dial(s.ctx, address, timeout)
}

func (conn *connection) Read(p []byte) (int, error) {
	if len(conn.checked) == 0 {
		if err := conn.readMessage(); err != nil {
			conn.Conn.Close()
			return 0, fmt.Errorf("message of the server: %w", err)
		}
	}
	n := copy(p, conn.checked)
	conn.checked = conn.checked[n:]
	return n, nil
}

func (conn *connection) Write(p []byte) (int, error) {
	n, err := conn.requests.Write(p)
	if err != nil {
		conn.Conn.Close()
	}
	return n, err
}

// send sends a request of the library, or drops it.
func (conn *connection) send(frame []byte) error {
	kind := int32(0)
	if conn.connectSent.IsZero() {
		conn.connectSent = time.Now()
		// This request asks for a new session. The library would ask for the length that it
		// was granted last, even if the servers now allow longer sessions.
		if len(frame) >= 28 && binary.BigEndian.Uint64(frame[20:]) == 0 {
			binary.BigEndian.PutUint32(frame[16:], uint32(conn.s.requestedLength.Milliseconds()))
		}
	} else if len(frame) >= 12 {
		xid := int32(binary.BigEndian.Uint32(frame[4:]))
		if xid == xidPing {
			// The library's pings would keep the session alive whatever the state of the
			// manager. Only our own calls may keep it.
			return nil
		}
		kind = int32(binary.BigEndian.Uint32(frame[8:]))
		conn.s.setWatchFlag(frame)
		if kind == opSync { // later requests are answered after it
			conn.s.change(func() { conn.s.syncsSent++ })
		}
		conn.mu.Lock()
		conn.pending[xid] = kind
		conn.mu.Unlock()
	}
	conn.s.mu.Lock()
	mute := conn.s.muted
	conn.s.mu.Unlock()
	if mute { // not even a closing request
		conn.Conn.Close()
		return nil
	}
	_, err := conn.Conn.Write(frame)
	if err != nil && kind == opSetAuth {
		// If this fails after a reconnect, the library waits for itself forever. Closing
		// lets it notice by reading.
		conn.Conn.Close()
		return nil
	}
	return err
}

// setWatched makes reads of a path leave a watch (1), or ends that (-1).
func (s *session) setWatched(path string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchedPaths[path] += n; s.watchedPaths[path] <= 0 {
		delete(s.watchedPaths, path)
	}
}

// setWatchFlag makes a read leave a watch if its path is watched. A read consists of length,
// xid, kind, path, and a byte that says whether to leave a watch.
func (s *session) setWatchFlag(frame []byte) {
	if len(frame) < 18 {
		return
	}
	switch binary.BigEndian.Uint32(frame[8:]) {
	case opExists, opGetData, opGetChildren:
	default:
		return
	}
	path := frame[16 : len(frame)-1]
	if int(binary.BigEndian.Uint32(frame[12:])) != len(path) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchedPaths[string(path)] > 0 {
		frame[len(frame)-1] = 1
	}
}

// The library clears its deadlines while it waits for the rest of a connect response.

func (conn *connection) SetReadDeadline(t time.Time) error {
	return conn.Conn.SetReadDeadline(conn.boundDeadline(t))
}

func (conn *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return conn.Conn.SetWriteDeadline(t)
	}
	return conn.Conn.SetWriteDeadline(conn.boundDeadline(t))
}

func (conn *connection) boundDeadline(t time.Time) time.Time {
	if !conn.handshakeDone && (t.IsZero() || t.After(conn.handshakeDeadline)) {
		return conn.handshakeDeadline
	}
	return t
}

// silentSince reports whether nothing has been read since t.
func (conn *connection) silentSince(t time.Time) bool {
	return conn.opened.Add(time.Duration(conn.lastRead.Load())).Before(t)
}
