package client

import (
	"context"
	"net"
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

	ended := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("something was read, though nothing was sent")
		}
	case <-time.After(5 * time.Second):
		t.Error("rule violated: who could not write must not wait for an answer")
	}
}
