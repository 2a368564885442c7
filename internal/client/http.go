package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxAnswer is the most that is read of one answer.
const maxAnswer = 256 << 20

// RoundTrip sends a request, and returns the whole answer. As with [Send], the end of the call does not end
// the connection, unless the request waits for a change. If no answer comes in time, connections that are
// idle may be dead, too: drop closes them.
func RoundTrip(next http.RoundTripper, r *http.Request, waits bool, drop func()) (*http.Response, error) {
	ctx, end := context.WithCancel(r.Context())
	if by, ok := ctx.Deadline(); ok && !waits {
		end()
		ctx, end = context.WithDeadline(context.WithoutCancel(r.Context()), by.Add(lateness))
	}
	type result struct {
		answer *http.Response
		err    error
	}
	results := make(chan result, 1)
	go func() {
		defer end()
		answer, err := next.RoundTrip(r.WithContext(ctx))
		if err == nil {
			var body []byte
			body, err = io.ReadAll(http.MaxBytesReader(nil, answer.Body, maxAnswer))
			answer.Body.Close()
			answer.Body = io.NopCloser(bytes.NewReader(body))
			if answer.StatusCode >= 300 { // its text may break off, as where the server expects TLS
				err = nil
			}
		}
		if err != nil {
			answer = nil
		}
		results <- result{answer, err}
	}()
	select {
	case got := <-results:
		if got.err == nil && got.answer.StatusCode >= 500 {
			drop() // a balancer may lead to a server that its cluster has lost
		}
		return got.answer, got.err
	case <-r.Context().Done():
	}
	if errors.Is(r.Context().Err(), context.DeadlineExceeded) {
		drop()
	} else {
		end()
	}
	return nil, r.Context().Err()
}

// A Patient sends requests to S3, none of which waits for a change, as [RoundTrip] does.
type Patient struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper]. S3 answers a write with nothing, or XML. A page or JSON is that
// of a gateway: nothing was written, though it has status 200, and perhaps an ETag.
func (p Patient) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := RoundTrip(p.Transport, r, false, p.CloseIdleConnections)
	if err == nil && r.Method == http.MethodPut && answer.StatusCode < 300 {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		answer.Body.Close()
		answer.Body = io.NopCloser(bytes.NewReader(body))
		if text := bytes.TrimSpace(body); len(text) > 0 && !bytes.HasPrefix(text, []byte("<?xml")) {
			answer.StatusCode = http.StatusMisdirectedRequest
		}
	}
	return answer, err
}

// A Dial dials an address of a network.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// AskFirst returns dial with connections that deliver nothing before something was sent on them. Consul
// answers at once a connection for which it has no place, and net/http prints to stderr what comes before a
// request.
func AskFirst(dial Dial) Dial {
	return wrapping(dial, func(c net.Conn) net.Conn { return &asked{Conn: c, sent: make(chan struct{})} })
}

func wrapping(dial Dial, wrap func(net.Conn) net.Conn) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wrap(c), nil
	}
}

type asked struct {
	net.Conn
	first sync.Once
	sent  chan struct{} // closed when something is sent
}

func (c *asked) Write(p []byte) (int, error) {
	c.first.Do(func() { close(c.sent) })
	return c.Conn.Write(p)
}

// Read implements [net.Conn]. A request that is on its way gets what has come before it.
func (c *asked) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	select {
	case <-c.sent:
		return n, err
	case <-time.After(answersIn):
		return 0, io.EOF
	}
}
