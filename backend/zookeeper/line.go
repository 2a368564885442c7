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
const handshake = 5 * time.Second

// A line is one network connection to a server. It reads along to learn from the
// server's greeting what the library keeps to itself, the session's id and length,
// and to keep from it what it cannot digest.
type line struct {
	net.Conn
	s  *session
	in *bufio.Reader

	limit time.Time // until the greeting
	sent  time.Time // when the request to connect was sent
	done  bool      // the greeting has come; only then the library begins to read and write at the same time
	ready []byte    // what was checked and not yet read

	mu    sync.Mutex
	asked map[int32]int32 // kinds of requests that were not answered yet, by their numbers

	heard atomic.Int64 // when something was read last, counted from began
	began time.Time
}

// dial connects to a server for the library, once somebody needs a connection:
// connecting keeps the session alive, too.
func (s *session) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	for {
		s.mu.Lock()
		idle, changed := s.waiting == 0 && time.Since(s.used) > s.asked/3, s.changed
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
	l := &line{Conn: c, s: s, in: bufio.NewReaderSize(c, 16<<10), asked: map[int32]int32{}, began: time.Now(), limit: time.Now().Add(min(handshake, max(s.asked/3, 500*time.Millisecond)))}
	s.mu.Lock()
	mute, old := s.mute, s.line
	s.line = l
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
	mute := s.mute
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
	ctx, cancel = context.WithTimeout(s.ctx, max(timeout, handshake))
	defer cancel()
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return t, nil
}

func (l *line) Read(p []byte) (int, error) {
	if len(l.ready) == 0 {
		if err := l.frame(); err != nil {
			l.Conn.Close()
			return 0, fmt.Errorf("what the server says: %w", err)
		}
	}
	n := copy(p, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

func (l *line) Write(p []byte) (int, error) {
	if l.sent.IsZero() {
		l.sent = time.Now()
		// The first request asks for a session. The library would ask for as long a one
		// as it was granted last, also if servers have come to allow longer ones.
		if len(p) >= 28 && binary.BigEndian.Uint64(p[20:]) == 0 {
			p = bytes.Clone(p)
			binary.BigEndian.PutUint32(p[16:], uint32(l.s.asked.Milliseconds()))
		}
	}
	xid, kind := int32(0), int32(0)
	if l.done && len(p) >= 12 {
		xid, kind = int32(binary.BigEndian.Uint32(p[4:])), int32(binary.BigEndian.Uint32(p[8:]))
	}
	l.s.mu.Lock()
	mute := l.s.mute
	l.s.mu.Unlock()
	if xid == xidPing {
		// The library would keep the session alive for ever, whatever has become
		// of the manager. Our own calls keep it, and nothing else.
		return len(p), nil
	}
	if l.done {
		p = l.s.watched(p)
		if kind == opSync { // what is asked for from now on goes behind it
			l.s.change(func() { l.s.syncs++ })
		}
		l.mu.Lock()
		l.asked[xid] = kind
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
func (s *session) watch(path string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watching[path] += n; s.watching[path] <= 0 {
		delete(s.watching, path)
	}
}

// watched returns a request as it is to be sent. A reading is length, number,
// kind, path, and a byte that says whether to leave a watch.
func (s *session) watched(p []byte) []byte {
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
	if s.watching[string(path)] == 0 {
		return p
	}
	p = bytes.Clone(p)
	p[len(p)-1] = 1
	return p
}

// The library takes its deadlines away while it waits for the rest of a greeting.

func (l *line) SetReadDeadline(t time.Time) error { return l.Conn.SetReadDeadline(l.bound(t)) }

func (l *line) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return l.Conn.SetWriteDeadline(t)
	}
	return l.Conn.SetWriteDeadline(l.bound(t))
}

func (l *line) bound(t time.Time) time.Time {
	if !l.done && (t.IsZero() || t.After(l.limit)) {
		return l.limit
	}
	return t
}

// silentSince reports whether nothing has been read since t.
func (l *line) silentSince(t time.Time) bool {
	return l.began.Add(time.Duration(l.heard.Load())).Before(t)
}

// hosts hands out the servers in turn, by name: the dialler looks them up. The
// library's own list looks them up once, and waits a second before it connects
// to an only server again.
type hosts struct {
	mu      sync.Mutex
	servers []string
	next    int
	tries   int
}

func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers
	return nil
}

func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next returns the next server. After a round of failures the library waits a
// second, and fails the requests that wait.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next%len(h.servers)]
	h.next++
	if h.tries >= len(h.servers) {
		h.tries, retryStart = 0, true
	}
	h.tries++
	return server, retryStart
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = 0
}
