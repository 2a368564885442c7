package connections

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-election/go-election/lab/testbed"
)

// A server may take long to let a connection in: it looks up the client's name, asks a directory about the password, or
// has many logins to do. The connection is waited for, though no call is.
func TestALoginThatTakesLongIsWaitedFor(t *testing.T) {
	testbed.Full(t, "waits for logins")
	t.Parallel()
	for _, name := range []string{"mysql", "postgres"} { // no other server asks anybody
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stores[name](t)
			b, err := s.open(late(t, s.addr, 7*time.Second))
			lead(t, join(t, "a", 10*time.Second, b, err))
		})
	}
}

// late returns the address of a server that begins to serve each connection after some time.
func late(t *testing.T, target string, after time.Duration) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	serve := func(c net.Conn) error {
		defer c.Close()
		<-time.After(after)
		server, err := net.Dial("tcp", target)
		if err != nil {
			return err
		}
		defer server.Close()
		go io.Copy(server, c)
		_, err = io.Copy(c, server)
		return err
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return fmt.Sprint(listener.Addr())
}
