package curator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// call makes a request of the library, whose methods take no context. It returns when the
// request is answered or ctx ends. In the latter case the request's goroutine lives until
// the library answers, at the latest when it finds the connection dead or closed; Close
// waits for it. A connection on which nothing was received since the call began is closed,
// so that the next request may reach another server.
func call[T any](ctx context.Context, s *session, request func(*zk.Conn) (T, error)) (T, error) {
	return callAfter(ctx, s, func() {}, request)
}

// callAfter is call, but calls begin first if the request will be made.
func callAfter[T any](ctx context.Context, s *session, begin func(), request func(*zk.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := s.ready(ctx); err != nil {
		return none, err
	}
	began := time.Now()
	begin()
	answers := make(chan answer, 1)
	s.b.late.Go(func() {
		v, err := request(s.conn)
		answers <- answer{v, err}
	})
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.dropIfSilent(began)
		}
		return none, s.explain(ctx.Err())
	}
}

// dropIfSilent closes the connection if nothing was received on it since began.
func (s *session) dropIfSilent(began time.Time) {
	s.mu.Lock()
	conn := s.connection
	s.mu.Unlock()
	if conn != nil && conn.silentSince(began) {
		conn.Close()
	}
}

// read is call for requests that may be repeated after the connection was lost.
func read[T any](ctx context.Context, s *session, request func(*zk.Conn) (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := call(ctx, s, request)
		if !errors.Is(err, zk.ErrConnectionClosed) || try == 3 || ctx.Err() != nil || s.ctx.Err() != nil {
			return v, err
		}
	}
}

// sync brings the server that answers us up to date with the ensemble's leader.
func (s *session) sync(ctx context.Context) error {
	id, _ := s.idAndEpoch()
	sent, err := read(ctx, s, func(c *zk.Conn) (time.Time, error) {
		sent := time.Now()
		_, err := c.Sync("/")
		return sent, err
	})
	if err == nil {
		s.noteAnswer(id, sent, byLeader)
	}
	return err
}

// startSync starts a sync. sent waits until it has been sent: servers answer the requests
// of a session in order, so later reads are as up to date as if the answer had been
// awaited. done waits for the answer, and reports whether the sync must be repeated because
// the connection has changed.
func (s *session) startSync(ctx context.Context) (sent func() error, done func() (again bool, err error)) {
	s.mu.Lock()
	epoch, before := s.epoch, s.syncsSent
	s.mu.Unlock()
	result := make(chan error, 1)
	s.b.late.Go(func() {
		result <- s.sync(ctx)
		s.change(func() {})
	})
	sent = func() error {
		return s.wait(ctx, func() bool { return s.syncsSent != before || s.epoch != epoch || len(result) > 0 })
	}
	return sent, func() (bool, error) {
		err := <-result
		_, now := s.idAndEpoch()
		return now != epoch, err
	}
}

// multi makes all writes or none. failed is the index of the first that could not be made,
// or -1. multi calls begin before it sends the request, and end when the request is
// answered, which may be after multi has returned.
func (s *session) multi(ctx context.Context, begin, end func(), ops ...any) (results []zk.MultiResponse, failed int, err error) {
	type outcome struct {
		results []zk.MultiResponse
		err     error
	}
	got, err := callAfter(ctx, s, begin, func(c *zk.Conn) (outcome, error) {
		defer end()
		r, err := c.Multi(ops...)
		return outcome{r, err}, nil
	})
	if err == nil {
		err = got.err
	}
	if err == nil && len(got.results) != len(ops) {
		err = fmt.Errorf("%d answers to %d writes", len(got.results), len(ops))
	}
	if err == nil {
		return got.results, -1, nil
	}
	if failed, why := ensemble.FailedOp(got.results); failed >= 0 {
		return nil, failed, why
	}
	return nil, -1, err
}

// write makes a batch of writes and notes what it proves about the session.
func (s *session) write(ctx context.Context, ops ...any) ([]zk.MultiResponse, int, error) {
	return s.writeAfter(ctx, func() {}, func() {}, ops...)
}

func (s *session) writeAfter(ctx context.Context, begin, end func(), ops ...any) ([]zk.MultiResponse, int, error) {
	id, _ := s.idAndEpoch()
	sent := time.Now()
	results, failed, err := s.multi(ctx, begin, end, ops...)
	if err == nil {
		s.noteAnswer(id, sent, byMajority)
	}
	return results, failed, err
}
