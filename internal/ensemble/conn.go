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

// acceptTimeout is how long a server may take to accept a session. It does not depend on the calls that wait:
// servers that have just recovered would be asked again and again. The library would wait for ten sessions.
const acceptTimeout = 2 * time.Second

// A conn is one network connection to a server. It does what the library has no option for: it ends if the
// server does not accept a session in time, it knows how long a session is granted, it sends no pings for a
// Quiet session, and it has readings of nodes that are watched leave a watch.
type conn struct {
	net.Conn
	s        *Session
	address  string
	reader   *bufio.Reader
	opened   time.Time    // before anything was sent
	from     time.Time    // when the connection before had ended
	lastRead atomic.Int64 // as an offset from opened

	answered  bool          // the server's first message has come
	grant     []byte        // its timeout, id and password: the next request for the session has the same
	length    time.Duration // of the session that it grants
	requested bool          // of a successor: the request that the library writes first was sent already
	left      int           // bytes that the library has yet to read of the present message
	zxid      atomic.Int64  // the last one that the session has seen
}

// newConn returns a connection for the session of the one before. The caller holds s.mu.
func (s *Session) newConn(raw net.Conn, address string) *conn {
	now := time.Now()
	c := &conn{Conn: raw, s: s, address: address, opened: now, from: now}
	c.reader = bufio.NewReaderSize(raw, 16<<10)
	if s.conn != nil {
		c.zxid.Store(s.conn.zxid.Load())
	}
	return c
}

var errIdle = errors.New("nobody needs a connection")

// idle reports whether a connection is for nobody. A Quiet session that no call has needed for a while stays
// without one: connecting, too, keeps it alive. The caller holds s.mu.
func (s *Session) idle(turn int) bool {
	return s.turn != turn || s.Quiet && time.Since(s.lastUsed) > s.Length/3
}

// dial connects to a server for the library.
func (s *Session) dial(turn int, address string) (net.Conn, error) {
	if next, err := s.takeNext(turn); next != nil || err != nil {
		return next, err
	}
	raw, err := s.reach(address)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.why = err
		s.wake()
		return nil, err // the library tries the next server at once
	case s.turn != turn:
		raw.Close()
		return nil, errIdle
	}
	s.conn = s.newConn(raw, address)
	return s.conn, nil
}

// reach connects to a server.
func (s *Session) reach(address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second) // several round trips of TLS
	defer cancel()
	return s.access.Dial(ctx, address, time.Second)
}

// refused notes why a server has granted no session.
func (s *Session) refused(c *conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		s.why = c.refusal(err)
		s.wake()
	}
}

// refusal says why a server has granted no session.
func (c *conn) refusal(err error) error {
	expects := ""
	if c.s.access.TLS == nil {
		expects = "expects TLS, "
	}
	return fmt.Errorf("%s grants no session: it has no majority, %sor allows this address"+
		" no more connections (maxClientCnxns): %w", c.RemoteAddr(), expects, err)
}

// Read lets the library read what the server sends.
func (c *conn) Read(p []byte) (int, error) {
	if !c.answered {
		if err := c.readGrant(); err != nil {
			c.Close()
			c.s.refused(c, err)
			return 0, err
		}
	}
	if c.left == 0 {
		if err := c.readHeader(); err != nil {
			return 0, err
		}
	}
	n, err := c.reader.Read(p[:min(len(p), c.left)])
	c.left -= n
	c.lastRead.Store(int64(time.Since(c.opened)))
	return n, err
}

// readGrant reads ahead the server's first message, and how long a session it grants. The message begins with
// its size, a version, the length in milliseconds, and the session's id, which is 0 if it has expired. From
// another kind of server the library would take anything for the size, and reserve that much memory.
func (c *conn) readGrant() error {
	c.SetReadDeadline(c.opened.Add(acceptTimeout)) // the library sets its own one before it reads on
	head, err := c.reader.Peek(20)
	if err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head)
	id := binary.BigEndian.Uint64(head[12:])
	c.length = time.Duration(int32(binary.BigEndian.Uint32(head[8:]))) * time.Millisecond
	if size < 36 || size > 256 || id != 0 && c.length < 10*time.Millisecond {
		return errors.New("the server's first message is not one of a ZooKeeper server")
	}
	head, err = c.reader.Peek(4 + int(size))
	if err == nil {
		c.answered, c.left, c.grant = true, len(head), bytes.Clone(head[8:])
	}
	return err
}

// readHeader reads ahead how long the next message is, and what the session has seen with it: like the
// library, which keeps that to itself, it counts answers to requests.
func (c *conn) readHeader() error {
	head, err := c.reader.Peek(16)
	if err != nil {
		return err
	}
	c.left = 4 + int(min(binary.BigEndian.Uint32(head), maxReply)) // the library refuses more
	xid, zxid := int32(binary.BigEndian.Uint32(head[4:])), int64(binary.BigEndian.Uint64(head[8:]))
	if xid >= 0 && zxid > 0 {
		c.zxid.Store(zxid)
	}
	return nil
}

// ping is what the library sends three times in the length of a session.
var ping = []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}

// Write sends a request, unless that was done. A failure is told by the next Read alone: after a failed write
// the library may wait for ever, as it answers one request twice (conn.go, sendData and flushRequests).
func (c *conn) Write(frame []byte) (int, error) {
	if c.requested || c.s.Quiet && bytes.Equal(frame, ping) {
		c.requested = false
		return len(frame), nil
	}
	if _, err := c.Conn.Write(c.s.flag(frame)); err != nil {
		c.Close()
	}
	return len(frame), nil
}

// Drop closes the connection. Requests that are under way fail, and calls wait for the next connection.
func (s *Session) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
	s.disconnected()
}

// A serverList is a zk.HostProvider that hands out the servers in turn, by name: whoever dials resolves
// them. The library's own list resolves them once, and waits a second before it connects to a single
// server again. The library calls it from one goroutine.
type serverList struct {
	servers []string
	next    int
	tries   int
}

func (l *serverList) Init(servers []string) error {
	l.servers = servers
	return nil
}

func (l *serverList) Len() int { return len(l.servers) }

// Next returns the next server. After a round of failures the library waits, and fails waiting requests.
func (l *serverList) Next() (server string, retryStart bool) {
	retryStart = l.tries == len(l.servers)
	if retryStart {
		l.tries = 0
	}
	l.tries++
	l.next++
	return l.servers[l.next%len(l.servers)], retryStart
}

func (l *serverList) Connected() { l.tries = 0 }
