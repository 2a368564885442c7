package ensemble

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"
)

// newFrame returns a frame with these numbers and this text.
func newFrame(text string, numbers ...int32) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(4*len(numbers)+len(text)))
	for _, n := range numbers {
		frame = binary.BigEndian.AppendUint32(frame, uint32(n))
	}
	return append(frame, text...)
}

// readRequest returns a request to read a path, and whether it leaves a watch.
func readRequest(xid int32, path string, watch byte) []byte {
	return newFrame(path+string(watch), xid, opGetData, int32(len(path)))
}

// connectRequest returns a request for a new session of this many milliseconds.
func connectRequest(millis int32) []byte {
	return newFrame(string(make([]byte, 16)), 0, 0, 0, millis, 0, 0, 16)
}

// A pieceConn is the network: it keeps what is sent, and is read in pieces of any size.
type pieceConn struct {
	net.Conn
	random   *rand.Rand
	sent     []byte
	incoming []byte
	closed   bool
}

func (c *pieceConn) Write(p []byte) (int, error) {
	if c.closed {
		return 0, net.ErrClosed
	}
	c.sent = append(c.sent, p...)
	return len(p), nil
}

func (c *pieceConn) Read(p []byte) (int, error) {
	if len(c.incoming) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.incoming[:1+c.random.IntN(len(c.incoming))])
	c.incoming = c.incoming[n:]
	return n, nil
}

func (c *pieceConn) Close() error { c.closed = true; return nil }

// newPieces returns the connection of a quiet session in which a path is being read under a watch.
func newPieces(t *testing.T, seed uint64) (*conn, *pieceConn) {
	network := &pieceConn{random: rand.New(rand.NewPCG(seed, 0))}
	s := NewSession(&Access{}, 9*time.Second)
	s.Quiet = true
	s.Watches.ask("/watched", 1)
	s.conn = s.newConn(network)
	t.Cleanup(func() { s.conn.handshake.Stop() })
	return s.conn, network
}

// The servers get what the library writes, but for a reading that is to leave a watch, and a quiet session's pings.
func TestRequestsAreSentAsTheLibraryWritesThem(t *testing.T) {
	conn, network := newPieces(t, 1)
	large := newFrame(string(make([]byte, 100_000)), 4, 14)
	for _, r := range []struct {
		what          string
		written, sent []byte
	}{
		{"a connect request", connectRequest(9000), connectRequest(9000)},
		{"a reading of a path that is watched", readRequest(1, "/watched", 0), readRequest(1, "/watched", 1)},
		{"a ping", ping, nil},
		{"a reading of another path", readRequest(2, "/other", 0), readRequest(2, "/other", 0)},
		{"a sync of the path that is watched", newFrame("/watched", 3, 9, 8), newFrame("/watched", 3, 9, 8)},
		{"many writes", large, large},
	} {
		network.sent = nil
		buffer := bytes.Clone(r.written)
		if n, err := conn.Write(buffer); n != len(buffer) || err != nil || !bytes.Equal(network.sent, r.sent) {
			t.Errorf("%s: want %x to be sent, got %x; %d, %v", r.what, r.sent, network.sent, n, err)
		}
		if !bytes.Equal(buffer, r.written) {
			t.Errorf("%s: the library's buffer was changed", r.what)
		}
	}
}

// A session that is left to expire sends nothing more.
func TestNoRequestIsSentAfterTheEnd(t *testing.T) {
	conn, network := newPieces(t, 1)
	conn.s.Close(false)
	conn.Write(connectRequest(4000))
	if len(network.sent) > 0 || !network.closed {
		t.Errorf("%d bytes were sent; closed: %v", len(network.sent), network.closed)
	}
}

// What is no frame ends the connection.
func TestAWriteThatIsNoFrameEndsTheConnection(t *testing.T) {
	conn, network := newPieces(t, 1)
	if conn.Write([]byte("GET / HTTP/1.1\r\n")); !network.closed || len(network.sent) > 0 {
		t.Errorf("closed %v, %d bytes sent", network.closed, len(network.sent))
	}
}

// However the server's first message arrives, it is known before the library reads any of it, and the library reads
// all that the server has sent.
func TestTheFirstMessageIsKnownBeforeItIsRead(t *testing.T) {
	stream := slices.Concat(newFrame(string(make([]byte, 16)), 0, 9000, 0, 7, 16), newFrame(string(make([]byte, 50_000)), 2, 0, 0, 0))
	for seed := range uint64(200) {
		conn, network := newPieces(t, seed)
		network.incoming = stream
		first := make([]byte, 1)
		if n, err := conn.Read(first); n != 1 || err != nil {
			t.Fatalf("seed %d: the first byte: %d, %v", seed, n, err)
		}
		if known := conn.s.Connection(); known.ID != 7 || known.Length != 9*time.Second {
			t.Errorf("seed %d: it is read as session %d of %v", seed, known.ID, known.Length)
		}
		rest, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(append(first, rest...), stream) {
			t.Errorf("seed %d: of %d bytes %d are read: %v", seed, len(stream), 1+len(rest), err)
		}
	}
}

// What is no answer to a connect request, as from another kind of server or one that grants a session of no length,
// ends the connection before the library reads it.
func TestAnotherKindOfServerIsRefused(t *testing.T) {
	for what, message := range map[string][]byte{
		"HTTP":              []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request"),
		"an alert of TLS":   {0x15, 3, 1, 0, 2, 2, 0x46},
		"too short":         newFrame("", 0, 9000, 0, 7, 0),
		"not complete":      newFrame(string(make([]byte, 16)), 0, 9000, 0, 7, 16)[:30],
		"a session of 0 ms": newFrame(string(make([]byte, 16)), 0, 0, 0, 7, 16),
		"of two hours":      newFrame(string(make([]byte, 16)), 0, 7_200_000, 0, 7, 16),
	} {
		conn, network := newPieces(t, 1)
		network.incoming = message
		if n, err := conn.Read(make([]byte, 256)); n != 0 || err == nil || !network.closed || conn.s.Connection().ID != 0 {
			t.Errorf("%s: %d bytes, %v, closed %v, %+v", what, n, err, network.closed, conn.s.Connection())
		}
	}
}

// What is trusted of a session counts from the request for it: a server that accepts it once more proves
// nothing by that alone.
func TestASessionBeganWithItsFirstConnection(t *testing.T) {
	first, network := newPieces(t, 1)
	s, at := first.s, time.Now()
	second, third, fourth := s.newConn(network), s.newConn(network), s.newConn(network)
	for _, c := range []struct {
		what        string
		conn        *conn
		present     *conn
		id          int32 // in the answer
		sent        time.Duration
		known       int64
		began, last time.Duration
	}{
		{"a new session", first, first, 7, 1, 7, 1, 1},
		{"the same once more", second, second, 7, 2, 7, 1, 2},
		{"it has expired", third, third, 0, 3, 7, 1, 2},
		{"a connection that was replaced is accepted late", third, fourth, 9, 4, 7, 1, 2},
		{"another session", fourth, fourth, 8, 5, 8, 5, 5},
	} {
		s.conn, c.conn.accepted, c.conn.connectSent = c.present, false, at.Add(c.sent)
		network.incoming = newFrame(string(make([]byte, 16)), 0, 9000, 0, c.id, 16)
		if _, err := c.conn.Read(make([]byte, 256)); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if want := (Connection{c.known, 9 * time.Second, at.Add(c.began), at.Add(c.last)}); s.Connection() != want {
			t.Errorf("%s: want %+v, got %+v", c.what, want, s.Connection())
		}
	}
}

// Nothing but calls keeps a quiet session alive, whatever it watches. Another one keeps itself.
func TestAQuietSessionSendsNoPings(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		conn, network := newPieces(t, 1)
		conn.s.Quiet = quiet
		for _, path := range []string{"/a", "/b"} {
			conn.s.Watches.watches[key{Data, path}] = &Watch{}
		}
		conn.Write(connectRequest(9000))
		network.sent, conn.lastWrite, conn.lastPing = nil, time.Now().Add(-3*time.Second), time.Now().Add(-3*time.Second)
		conn.Write(ping)
		if sent := len(network.sent) > 0; sent == quiet {
			t.Errorf("quiet: %v, and a ping is sent: %v", quiet, sent)
		}
	}
}
