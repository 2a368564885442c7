package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A call ends while its dial is under way. The next call gets that dial's connection, and makes none of its own.
func TestADialOutlivesTheCallThatBeganIt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var dials atomic.Int32
	held := make(chan struct{})
	d := &Dialer{Dialer: net.Dialer{Control: func(string, string, syscall.RawConn) error {
		dials.Add(1)
		<-held
		return nil
	}}}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.DialContext(ctx, "tcp", l.Addr().String()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the call that ends early: %v", err)
	}
	close(held)
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if n := dials.Load(); n != 1 {
		t.Errorf("%d dials, want one", n)
	}
}

// A server accepts a connection and says nothing. Whoever dials for net/http, which gives it a context without an end, does not
// keep the connection for ever.
func TestAHandshakeEndsThoughItsContextDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		go io.Copy(io.Discard, there)
		if _, err := Handshake(context.Background(), here, &tls.Config{}, "silent:443"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the handshake: %v", err)
		}
	})
}
