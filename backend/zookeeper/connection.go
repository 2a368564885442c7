package zookeeper

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// handshake bounds how long a server may take to greet us. The library would wait
// for ten times the session's length.
const handshakeTimeout = 5 * time.Second

// A line is one network connection to a server. It reads along to learn from the
// server's greeting what the library keeps to itself, the session's id and length,
// and to keep from it what it cannot digest.
type connection struct {
	net.Conn
	s      *session
	reader *bufio.Reader

	handshakeDeadline time.Time // until the greeting
	connectSent       time.Time // when the request to connect was sent
	handshakeDone     bool      // the greeting has come; only then the library begins to read and write at the same time
	checked           []byte    // what was checked and not yet read

	mu      sync.Mutex
	pending map[int32]int32 // kinds of requests that were not answered yet, by their numbers

	lastRead atomic.Int64 // when something was read last, counted from began
	opened   time.Time
}

// dial connects to a server for the library, once somebody needs a connection:
// connecting keeps the session alive, too.
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
	c, err := s.dialServer(network, address, timeout)
	if err != nil {
		s.change(func() { s.lastErr = err })
		// The library tries the next server at once.
		return nil, err
	}
	l := &connection{Conn: c, s: s, reader: bufio.NewReaderSize(c, 16<<10), pending: map[int32]int32{}, opened: time.Now(), handshakeDeadline: time.Now().Add(min(handshakeTimeout, max(s.requestedLength/3, 500*time.Millisecond)))}
	s.mu.Lock()
	mute, old := s.muted, s.connection
	s.connection = l
	s.mu.Unlock()
	if old != nil {
		old.Conn.Close() // the library leaves that of a session that has run out open
	}
	if mute || s.ctx.Err() != nil {
		c.Close()
		return nil, net.ErrClosed
	}
	return l, nil
}

func (s *session) dialServer(network, address string, timeout time.Duration) (net.Conn, error) {
	s.mu.Lock()
	mute := s.muted
	s.mu.Unlock()
	if mute {
		return nil, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	d := net.Dialer{KeepAlive: 15 * time.Second}
	c, err := d.DialContext(ctx, network, address)
	if err != nil || s.b.options.TLS == nil {
		return c, err
	}
	config := s.b.options.TLS
	if config.ServerName == "" && !config.InsecureSkipVerify {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	// A connection of TLS takes some round trips and some computing.
	ctx, cancel = context.WithTimeout(s.ctx, max(timeout, handshakeTimeout))
	defer cancel()
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return t, nil
}

func (l *connection) Read(p []byte) (int, error) {
	if len(l.checked) == 0 {
		if err := l.readMessage(); err != nil {
			l.Conn.Close()
			return 0, fmt.Errorf("what the server says: %w", err)
		}
	}
	n := copy(p, l.checked)
	l.checked = l.checked[n:]
	return n, nil
}

func (l *connection) Write(p []byte) (int, error) {
	if l.connectSent.IsZero() {
		l.connectSent = time.Now()
		// The first request asks for a session. The library would ask for as long a one
		// as it was granted last, also if servers have come to allow longer ones.
		if len(p) >= 28 && binary.BigEndian.Uint64(p[20:]) == 0 {
			p = bytes.Clone(p)
			binary.BigEndian.PutUint32(p[16:], uint32(l.s.requestedLength.Milliseconds()))
		}
	}
	xid, kind := int32(0), int32(0)
	if l.handshakeDone && len(p) >= 12 {
		xid, kind = int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	}
	l.s.mu.Lock()
	mute := l.s.muted
	l.s.mu.Unlock()
	if xid == xidPing {
		// The library would keep the session alive for ever, whatever has become
		// of the manager. Our own calls keep it, and nothing else.
		return len(p), nil
	}
	if l.handshakeDone {
		p = l.s.withWatchFlag(p)
		if kind == opSync { // what is asked for from now on goes behind it
			l.s.change(func() { l.s.syncsSent++ })
		}
		l.mu.Lock()
		l.pending[xid] = kind
		l.mu.Unlock()
	}
	if mute { // not even that we go
		l.Conn.Close()
		return len(p), nil
	}
	n, err := l.Conn.Write(p)
	if err != nil && kind == opSetAuth {
		// The library waits for ever for itself if it cannot send this after it
		// has connected again. It notices the end of the connection by reading.
		l.Conn.Close()
		return len(p), nil
	}
	return n, err
}

// watch makes readings of a path leave a watch, or ends that.
func (s *session) setWatched(path string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchedPaths[path] += n; s.watchedPaths[path] <= 0 {
		delete(s.watchedPaths, path)
	}
}

// watched returns a request as it is to be sent. A reading is length, number,
// kind, path, and a byte that says whether to leave a watch.
func (s *session) withWatchFlag(p []byte) []byte {
	if len(p) < 18 {
		return p
	}
	switch binary.BigEndian.Uint32(p[8:]) {
	case opExists, opGetData, opGetChildren:
	default:
		return p
	}
	path := p[16 : len(p)-1]
	if int(binary.BigEndian.Uint32(p[12:])) != len(path) {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchedPaths[string(path)] == 0 {
		return p
	}
	p = bytes.Clone(p)
	p[len(p)-1] = 1
	return p
}

// The library takes its deadlines away while it waits for the rest of a greeting.

func (l *connection) SetReadDeadline(t time.Time) error {
	return l.Conn.SetReadDeadline(l.boundDeadline(t))
}

func (l *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return l.Conn.SetWriteDeadline(t)
	}
	return l.Conn.SetWriteDeadline(l.boundDeadline(t))
}

func (l *connection) boundDeadline(t time.Time) time.Time {
	if !l.handshakeDone && (t.IsZero() || t.After(l.handshakeDeadline)) {
		return l.handshakeDeadline
	}
	return t
}

// silentSince reports whether nothing has been read since t.
func (l *connection) silentSince(t time.Time) bool {
	return l.opened.Add(time.Duration(l.lastRead.Load())).Before(t)
}
