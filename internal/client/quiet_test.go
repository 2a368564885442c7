package client

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// A process was stopped before it sent SUBSCRIBE: the server has never seen it, and would say nothing for ever.
func TestASubscriptionThatWasNotSentEnds(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer there.Close()
	c, err := Quiet(func(context.Context, string, string) (net.Conn, error) { return here, nil })(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	c.SetWriteDeadline(time.Now().Add(-time.Second))
	c.Write([]byte("SUBSCRIBE"))
	c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("rule violated: who could not write must not wait for an answer: %v", err)
	}
}
