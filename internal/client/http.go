package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
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
