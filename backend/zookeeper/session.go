package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
)

// A session is the connection with the ensemble. The client library connects again by itself, and
// begins the next session when one has ended; the ephemeral node of this process is then gone.
type session struct {
	d      *driver
	length time.Duration // as requested; not connected for so long, a session has ended

	mu         sync.Mutex
	list       ensemble.ServerList
	client     *zk.Conn // nil: there was no call yet
	conn       *conn    // the present network connection, or the last one
	connected  bool
	lost       time.Time     // when the connection was lost
	id         int64         // of the present session or the last one
	epoch      uint64        // grows when a connection or a session begins
	authorized chan struct{} // closed when the servers know the user
	why        error         // why the last attempt to connect has failed
	changed    chan struct{} // closed, and replaced, when one of the above changes or a watch fires
	closed     bool
	quiet      bool // nothing is sent any more

	watches map[string]*watch // by path
	fired   uint64            // how many watches that a listener waits for have fired
}

// sessionLength is what this package asks for; servers grant no more than their maxSessionTimeout.
const sessionLength = time.Minute

// maxRequest limits a request, and maxReply an answer. Servers accept about 1 MiB (jute.maxbuffer).
const (
	maxRequest = 1 << 20
	maxReply   = 32 << 20
)

func newSession(d *driver) *session {
	return &session{d: d, length: sessionLength, changed: make(chan struct{}), watches: make(map[string]*watch)}
}

// change changes fields of s and wakes all waiters.
func (s *session) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

var errClosed = fmt.Errorf("%w: the backend is closed", backend.ErrUnavailable)

// ready waits until there is a session, and returns it with its id.
func (s *session) ready(ctx context.Context) (*zk.Conn, int64, error) {
	for {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, 0, errClosed
		}
		// A new client is made when the session has ended: the servers of a restored ensemble refuse one
		// that has seen later writes.
		if s.client == nil || !s.connected && time.Since(s.lost) > s.length {
			if err := s.connect(); err != nil {
				s.mu.Unlock()
				return nil, 0, err
			}
		}
		client, id, connected, changed := s.client, s.id, s.connected, s.changed
		select {
		case <-s.authorized:
		default:
			connected = false
		}
		s.mu.Unlock()
		if connected {
			return client, id, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

// connect makes the library's client, which connects on its own goroutines. The caller holds s.mu.
func (s *session) connect() error {
	if s.client != nil {
		go s.client.Close()
	}
	var client *zk.Conn
	client, _, err := zk.Connect(s.d.Servers, s.length,
		zk.WithDialer(s.dial), zk.WithHostProvider(&s.list), zk.WithEventCallback(func(e zk.Event) {
			s.mu.Lock()
			from := client
			s.mu.Unlock()
			s.event(from, e)
		}),
		zk.WithLogger(noLogger{}), zk.WithLogInfo(false),
		zk.WithMaxBufferSize(maxReply), zk.WithMaxConnBufferSize(maxRequest))
	if err != nil {
		return err
	}
	s.client, s.lost, s.authorized = client, time.Now(), make(chan struct{})
	clear(s.watches)
	if s.d.User == "" {
		close(s.authorized)
		return nil
	}
	go s.authorize(client, s.authorized)
	return nil
}

// authorize makes the first request, which the library repeats at each connection.
func (s *session) authorize(client *zk.Conn, done chan struct{}) {
	for {
		err := client.AddAuth("digest", []byte(s.d.User+":"+s.d.Password))
		s.mu.Lock()
		current := s.client == client && !s.closed
		s.mu.Unlock()
		if !current {
			return
		}
		if err == nil {
			s.change(func() { close(done) })
			return
		}
		if errors.Is(err, zk.ErrAuthFailed) { // otherwise dial knows a better error
			s.change(func() { s.why = err })
		}
	}
}

// event is called by the library with each event, before any later answer is delivered.
func (s *session) event(client *zk.Conn, e zk.Event) {
	s.mu.Lock()
	current := s.client == client
	s.mu.Unlock()
	switch {
	case !current:
	case e.Type != zk.EventSession:
		s.fire(e.Path)
	case e.State == zk.StateHasSession:
		s.change(func() { s.connected, s.id, s.why = true, client.SessionID(), nil; s.epoch++ })
	case e.State == zk.StateDisconnected:
		s.change(func() {
			if s.connected {
				s.connected, s.lost = false, time.Now()
				s.epoch++
			}
		})
	}
}

func (s *session) lastError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// call makes a request of the library, whose methods take no context. It returns when the request is
// answered or ctx ends. Then the request's goroutine lives until the library finds the connection
// dead or closed. A connection on which nothing was received since the call began is closed, so that
// the next request may reach another server.
func call[T any](ctx context.Context, s *session, request func(*zk.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	began := time.Now()
	client, _, err := s.ready(ctx)
	if err != nil {
		s.dropIfSilent(began)
		return none, err
	}
	answers := make(chan answer, 1)
	go func() {
		v, err := request(client)
		answers <- answer{v, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.dropIfSilent(began)
		}
		return none, ctx.Err()
	}
}

// read is call for requests that may be repeated after the connection was lost.
func read[T any](ctx context.Context, s *session, request func(*zk.Conn) (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := call(ctx, s, request)
		if !errors.Is(err, zk.ErrConnectionClosed) || try == 3 || ctx.Err() != nil {
			return v, err
		}
	}
}

// sync brings the server that answers us up to date with the ensemble's leader.
func (s *session) sync(ctx context.Context) error {
	_, err := read(ctx, s, func(c *zk.Conn) (string, error) { return c.Sync(string(s.d.root)) })
	return err
}

// inParallel calls f for 0 to n−1, on up to 32 goroutines, and returns the first error in that order.
func inParallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	next := make(chan int)
	for range min(n, 32) {
		all.Go(func() {
			for i := range next {
				errs[i] = f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// close ends the connection. It ends the session only if end says so: with it goes the ephemeral node,
// and whoever watches it begins anew.
func (s *session) close(end bool) {
	s.mu.Lock()
	client, conn := s.client, s.conn
	again := s.closed
	s.closed, s.quiet = true, !end
	s.mu.Unlock()
	if client == nil || again {
		return
	}
	s.change(func() {})
	if !end && conn != nil {
		conn.Close()
	}
	client.Close()
	if conn != nil {
		conn.Close()
	}
}

// noLogger drops what the library logs: everything that matters is returned as an error.
type noLogger struct{}

func (noLogger) Printf(string, ...any) {}
