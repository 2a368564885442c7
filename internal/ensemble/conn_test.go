package ensemble

import (
	"bytes"
	"encoding/binary"
	"errors"
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

// However the library's writes are cut and joined, the servers get the same whole requests, and
// none before it is whole.
func TestRequestsAreSentWholeHoweverTheyAreWritten(t *testing.T) {
	type request struct{ written, sent []byte }
	requests := []request{
		{connectRequest(9000), connectRequest(9000)},
		{readRequest(1, "/watched", 0), readRequest(1, "/watched", 1)},
		{ping, nil},
		{readRequest(2, "/other", 0), readRequest(2, "/other", 0)},
		{newFrame("/", 3, opSync, 1), newFrame("/", 3, opSync, 1)},
		{newFrame(string(make([]byte, 100_000)), 4, opMulti), newFrame(string(make([]byte, 100_000)), 4, opMulti)},
	}
	var stream []byte
	for _, r := range requests {
		stream = append(stream, r.written...)
	}
	for seed := range uint64(200) {
		conn, network := newPieces(t, seed)
		for at := 0; at < len(stream); {
			most := []int{1, 10, len(stream)}[network.random.IntN(3)]
			piece := bytes.Clone(stream[at : at+1+network.random.IntN(min(most, len(stream)-at))])
			began := time.Now()
			if n, err := conn.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("seed %d: a write of %d bytes: %d, %v", seed, len(piece), n, err)
			}
			clear(piece) // the library uses its buffer again
			var want []byte
			rest := at + len(piece)
			for _, r := range requests {
				if rest -= len(r.written); rest < 0 {
					break
				}
				want = append(want, r.sent...)
			}
			if !bytes.Equal(network.sent, want) {
				t.Fatalf("seed %d: after %d bytes of requests want %d bytes to be sent, got %d", seed, at+len(piece), len(want), len(network.sent))
			}
			if whole := len(requests[0].written); at < whole && at+len(piece) >= whole && conn.connectSent.Before(began) {
				t.Fatalf("seed %d: the connect request was sent in the write that completes it, not before", seed)
			}
			at += len(piece)
		}
		if len(conn.kinds) != 4 || conn.kinds[2] != opGetData || conn.kinds[4] != opMulti {
			t.Errorf("seed %d: want the kinds of 4 requests, got %v", seed, conn.kinds)
		}
	}
}

// A session that is left to expire sends nothing more, not even the rest of a request.
func TestNoRequestIsCompletedAfterTheEnd(t *testing.T) {
	conn, network := newPieces(t, 1)
	request := connectRequest(4000)
	conn.Write(request[:20])
	conn.s.Close(false)
	conn.Write(request[20:])
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

// However the network cuts and joins the server's messages, the library reads the same ones,
// and none that is not whole.
func TestMessagesAreReadWholeHoweverTheyArrive(t *testing.T) {
	handshake := newFrame(string(make([]byte, 16)), 0, 9000, 0, 7, 16)
	event := newFrame("/x", xidEvent, 0, 0, 0, 3, 3, 2)
	messages := [][]byte{handshake, event, newFrame("", 1, 0, 0, -101), newFrame(string(make([]byte, 50_000)), 2, 0, 0, 0), event}
	stream := slices.Concat(messages...)
	for seed := range uint64(200) {
		conn, network := newPieces(t, seed)
		cut := len(stream) - network.random.IntN(len(event)+1)
		network.incoming = stream[:cut]
		want := stream
		if cut < len(stream) {
			want = stream[:len(stream)-len(event)]
		}
		got, err := io.ReadAll(conn)
		if !bytes.Equal(got, want) || err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("seed %d: of %d bytes want %d to be read, got %d: %v", seed, cut, len(want), len(got), err)
		}
		if known := conn.s.Connection(); known.ID != 7 || known.Length != 9*time.Second {
			t.Errorf("seed %d: the handshake was read as session %d of %v", seed, known.ID, known.Length)
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
