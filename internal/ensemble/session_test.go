package ensemble

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// A server breaks a connection just when the library has begun to send the user again. The session goes on
// with the next connection. The library would wait for ever in its own lock if a write returned an error
// there, until the session's client is replaced.
func TestAConnectionThatBreaksAtOnceIsReplaced(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	read := func(c net.Conn) (frame []byte, err error) {
		var head [4]byte
		if _, err = io.ReadFull(c, head[:]); err == nil {
			frame = make([]byte, binary.BigEndian.Uint32(head[:]))
			_, err = io.ReadFull(c, frame)
		}
		return frame, err
	}
	accepted, ready := make(chan int, 100), make(chan struct{})
	go func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := read(c); err != nil {
				c.Close()
				continue
			}
			b := binary.BigEndian.AppendUint32(nil, 36) // a ConnectResponse: version, timeout, session, password
			b = binary.BigEndian.AppendUint32(b, 0)
			b = binary.BigEndian.AppendUint32(b, 60000)
			b = binary.BigEndian.AppendUint64(b, 7)
			b = binary.BigEndian.AppendUint32(b, 16)
			c.Write(append(b, make([]byte, 16)...))
			accepted <- n
			if n > 1 && n < 8 {
				c.(*net.TCPConn).SetLinger(0) // resets
				c.Close()
				continue
			}
			go func() {
				defer c.Close()
				frame, err := read(c) // the user
				if err != nil {
					return
				}
				b := binary.BigEndian.AppendUint32(nil, 16)
				b = append(b, frame[:4]...)
				b = binary.BigEndian.AppendUint64(b, 1)
				c.Write(binary.BigEndian.AppendUint32(b, 0))
				if n == 1 {
					<-ready
					return
				}
				io.Copy(io.Discard, c)
			}()
		}
	}()
	a := Access{Servers: []string{l.Addr().String()}, User: "app", Password: "open-sesame"}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	s := NewSession(&a, time.Minute)
	defer s.Close(true)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	close(ready) // then the first connection ends
	for n := 0; n < 8; {
		select {
		case n = <-accepted:
		case <-ctx.Done():
			t.Fatalf("the library has not connected again after connection %d", n)
		}
	}
}
