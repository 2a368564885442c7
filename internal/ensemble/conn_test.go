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
func readRequest(kind int32, path string, watch byte) []byte {
	return newFrame(path+string(watch), 1, kind, int32(len(path)))
}

// acceptance returns the first message of a server, for a session of so many milliseconds.
func acceptance(millis int32) []byte {
	return newFrame(string(make([]byte, 16)), 0, millis, 0, 7, 16)
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

func (c *pieceConn) SetReadDeadline(time.Time) error { return nil }

// newPieces returns the connection of a session in which a node and the names below another one are watched.
func newPieces(seed uint64) (*conn, *pieceConn) {
	network := &pieceConn{random: rand.New(rand.NewPCG(seed, 0))}
	s := NewSession(&Access{}, 9*time.Second)
	s.watches[key{Data, "/watched"}] = &Watch{}
	s.watches[key{Children, "/names"}] = &Watch{}
	return s.newConn(network, ""), network
}

// The servers get what the library writes, but for a reading that is to leave a watch, and a quiet session's pings.
func TestRequestsAreSentAsTheLibraryWritesThem(t *testing.T) {
	conn, network := newPieces(1)
	defer conn.Close()
	connect := newFrame(string(make([]byte, 16)), 0, 0, 0, 9000, 0, 0, 16)
	for what, r := range map[string]struct{ written, sent []byte }{
		"a connect request":                   {connect, connect},
		"a reading of a node that is watched": {readRequest(opGetData, "/watched", 0), readRequest(opGetData, "/watched", 1)},
		"whether names may come":              {readRequest(opExists, "/names", 0), readRequest(opExists, "/names", 1)},
		"a reading of names":                  {readRequest(opGetChildren, "/names", 0), readRequest(opGetChildren, "/names", 1)},
		"a reading of another node":           {readRequest(opGetData, "/other", 0), readRequest(opGetData, "/other", 0)},
		"a sync of the node that is watched":  {newFrame("/watched", 3, 9, 8), newFrame("/watched", 3, 9, 8)},
		"a ping":                              {ping, ping},
		"what nothing but calls keeps alive":  {ping, nil},
	} {
		conn.s.Quiet, network.sent = r.sent == nil, nil
		buffer := bytes.Clone(r.written)
		if n, err := conn.Write(buffer); n != len(buffer) || err != nil || !bytes.Equal(network.sent, r.sent) {
			t.Errorf("%s: want %x to be sent, got %x; %d, %v", what, r.sent, network.sent, n, err)
		}
		if !bytes.Equal(buffer, r.written) {
			t.Errorf("%s: the library's buffer was changed", what)
		}
	}
}

// After a write that has failed the library could wait for ever. It learns that by reading.
func TestAFailedWriteEndsTheConnectionWithoutAnError(t *testing.T) {
	conn, network := newPieces(1)
	defer conn.Close()
	network.closed = true
	if n, err := conn.Write(ping); n != len(ping) || err != nil {
		t.Errorf("the library is told: %d, %v", n, err)
	}
}

// However the server's first message arrives, it is known before the library reads any of it, and the library reads
// all that the server has sent. The last zxid of an answer is known; that of a watch that fires is none.
func TestTheFirstMessageIsKnownBeforeItIsRead(t *testing.T) {
	stream := slices.Concat(acceptance(9000), newFrame(string(make([]byte, 50_000)), 2, 1, 5, 0), newFrame("", -1, 1, 9, 0))
	for seed := range uint64(200) {
		conn, network := newPieces(seed)
		network.incoming = stream
		first := make([]byte, 1)
		if n, err := conn.Read(first); n != 1 || err != nil || conn.length != 9*time.Second {
			t.Fatalf("seed %d: the first byte: %d, %v; a session of %v", seed, n, err, conn.length)
		}
		rest, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(append(first, rest...), stream) {
			t.Errorf("seed %d: of %d bytes %d are read: %v", seed, len(stream), 1+len(rest), err)
		}
		if got := conn.zxid.Load(); got != 1<<32+5 {
			t.Errorf("seed %d: the last zxid is said to be %x", seed, got)
		}
		conn.Close()
	}
}

// What is no answer to a connect request, as from another kind of server or one that grants a session of no length,
// ends the connection before the library reads it.
func TestAnotherKindOfServerIsRefused(t *testing.T) {
	for what, message := range map[string][]byte{
		"HTTP":              []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request"),
		"an alert of TLS":   {0x15, 3, 1, 0, 2, 2, 0x46},
		"a session of 0 ms": acceptance(0),
	} {
		conn, network := newPieces(1)
		network.incoming = message
		if n, err := conn.Read(make([]byte, 256)); n != 0 || err == nil || !network.closed {
			t.Errorf("%s: %d bytes, %v, closed %v", what, n, err, network.closed)
		}
	}
}

// A successor is for the client whose connection it succeeds: one that has ended would end the session with it. And no
// reading is older than the one before it: what another server has was known before the last answers came.
func TestASuccessorIsTakenByItsClientAlone(t *testing.T) {
	for what, change := range map[string]func(s *Session, next *conn) (turn int, taken bool){
		"the client":                    func(*Session, *conn) (int, bool) { return 7, true },
		"another client, which ends":    func(*Session, *conn) (int, bool) { return 6, false },
		"after answers of another one":  func(s *Session, _ *conn) (int, bool) { s.conn.zxid.Add(1); return 7, false },
		"after answers of the same one": func(s *Session, c *conn) (int, bool) { s.conn.zxid.Add(1); c.address = ""; return 7, true },
	} {
		old, _ := newPieces(1)
		s := old.s
		s.conn, s.turn = old, 7
		s.next = s.newConn(&pieceConn{}, "another")
		turn, want := change(s, s.next)
		got, err := s.takeNext(turn)
		if (got != nil) != want || (err != nil) != (turn != s.turn) || turn != s.turn && s.next == nil {
			t.Errorf("%s: %v, %v; is it still there? %v", what, got, err, s.next != nil)
		}
	}
}

// A server that grants nothing is why there is no connection, while one is needed.
func TestAServerThatIsNotNeededIsNoReason(t *testing.T) {
	old, _ := newPieces(1)
	s := old.s
	s.connected = true
	for _, round := range []bool{false, true} {
		s.settle(&succession{old: old}, nil, net.ErrClosed, round)
	}
	if s.why != nil {
		t.Errorf("calls on the connection that is kept would fail with: %v", s.why)
	}
}
