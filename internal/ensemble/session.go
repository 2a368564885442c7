package ensemble

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/client"
)

// A Session is a connection with the ensemble. The client library connects again by itself, and
// begins the next session when one has ended.
type Session struct {
	// Length is what is asked for; servers grant no more than their maxSessionTimeout. When a session is not
	// connected for so long, it has ended, and a new client is made: the servers of a restored ensemble
	// refuse one that has seen later writes.
	Length time.Duration

	// Watches are those of the present connection.
	Watches *Watches

	// Quiet says that nothing but calls keeps the session alive: it sends no pings, and connects again only for
	// calls. Set it before the first call.
	Quiet bool

	access *Access

	mu         sync.Mutex
	client     *zk.Conn // nil: there was no call yet, or the connection is over
	conn       *conn    // the present network connection, or the last one
	accepted   Connection
	connected  bool
	lost       time.Time     // when the connection was lost
	lastUsed   time.Time     // when a call last asked for the connection
	waiting    int           // calls that wait for it
	authorized chan struct{} // closed when the servers know the user
	why        error         // why the last attempt to connect has failed
	changed    chan struct{} // closed, and replaced, when one of the above changes
	closed     bool
}

// A Connection is what is known of the last connection that a server has accepted.
type Connection struct {
	ID     int64         // of the session
	Length time.Duration // the servers keep the session for so long without contact
	Began  time.Time     // when the request for the session was sent
	Sent   time.Time     // when the request for this connection was sent
}

// Connection returns what is known of the last connection. Calls that have ended without an error while it
// stayed the same were answered on it.
func (s *Session) Connection() Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Connected reports whether there is a connection now, as far as the library knows.
func (s *Session) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected
}

// maxRequest limits a request, for which the library keeps memory, and maxReply an answer. Servers accept about
// 1 MiB (jute.maxbuffer).
const (
	maxRequest = 1 << 20
	maxReply   = 32 << 20
)

// NewSession returns a session that connects when it is first used.
func NewSession(a *Access, length time.Duration) *Session {
	ws := &Watches{watches: make(map[key]*Watch), asked: make(map[string]int), changed: make(chan struct{})}
	return &Session{access: a, Length: length, Watches: ws, changed: make(chan struct{})}
}

// change changes fields of s and wakes all waiters.
func (s *Session) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

var errClosed = fmt.Errorf("%w: the session is closed", backend.ErrUnavailable)

// Ready waits until there is a session, and returns the library's client.
func (s *Session) Ready(ctx context.Context) (*zk.Conn, error) {
	for waits := false; ; {
		client, changed, err := s.state()
		if client != nil || err != nil {
			return client, err
		}
		if !waits {
			waits = true
			s.change(func() { s.waiting++ })
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.waiting--
			}()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, s.explain(ctx.Err())
		}
	}
}

// state returns the client if there is a session, and otherwise what is closed when that changes.
func (s *Session) state() (client *zk.Conn, changed chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosed
	}
	s.lastUsed = time.Now()
	if s.client == nil || !s.connected && time.Since(s.lost) > s.Length {
		if err := s.connect(); err != nil {
			return nil, nil, err
		}
	}
	select {
	case <-s.authorized:
		if s.connected {
			return s.client, nil, nil
		}
	default:
	}
	return nil, s.changed, nil
}

// connect makes the library's client, which connects on its own goroutines. The caller holds s.mu.
func (s *Session) connect() error {
	if s.client != nil {
		go s.client.Close()
	}
	var client *zk.Conn
	current := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.client == client && !s.closed
	}
	client, _, err := zk.Connect(s.access.Servers, s.Length,
		zk.WithDialer(func(_, address string, timeout time.Duration) (net.Conn, error) {
			return s.dial(current, address, timeout)
		}),
		zk.WithEventCallback(func(e zk.Event) {
			if current() {
				s.event(client, e)
			}
		}),
		zk.WithHostProvider(&serverList{}), zk.WithLogger(noLogger{}), zk.WithLogInfo(false),
		zk.WithMaxBufferSize(maxReply), zk.WithMaxConnBufferSize(maxRequest))
	if err != nil {
		return err
	}
	s.client, s.lost, s.authorized = client, time.Now(), make(chan struct{})
	if s.access.User == "" {
		close(s.authorized)
		return nil
	}
	go s.authorize(client, s.authorized)
	return nil
}

// authorize makes the first request, which the library repeats at each connection.
func (s *Session) authorize(client *zk.Conn, done chan struct{}) {
	for {
		err := client.AddAuth("digest", []byte(s.access.User+":"+s.access.secret.Get()))
		s.mu.Lock()
		current := s.client == client && !s.closed
		s.mu.Unlock()
		switch {
		case !current:
			return
		case err == nil:
			s.change(func() { close(done) })
			return
		case errors.Is(err, zk.ErrAuthFailed): // otherwise dial knows a better error
			s.change(func() { s.why = err })
			s.access.secret.ReadAgain(s.access.PasswordFile)
		}
	}
}

// event is called by the library with each event, before any later answer is delivered.
func (s *Session) event(client *zk.Conn, e zk.Event) {
	switch {
	case e.Type != zk.EventSession:
		s.Watches.fire(e)
	case e.State == zk.StateHasSession:
		s.change(func() { s.connected, s.why = true, nil })
	case e.State == zk.StateExpired: // what waits in the library is not for the next session
		s.change(func() {
			s.client, s.connected = nil, false
			if s.conn != nil {
				s.conn.Close() // the library leaves it open
			}
		})
		go client.Close()
	case e.State == zk.StateDisconnected:
		s.change(func() {
			if s.connected {
				s.connected, s.lost = false, time.Now()
			}
		})
		s.Watches.ForgetAll() // the server keeps them for a connection
	}
}

// Call makes a request of the library, whose methods take no context. It returns when the request is
// answered or ctx ends. Then the request's goroutine lives until the library finds the connection
// dead or closed. A connection on which nothing was received since the call began is closed, so that
// the next request may reach another server.
func Call[T any](ctx context.Context, s *Session, request func(*zk.Conn) (T, error)) (T, error) {
	client, err := s.Ready(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return CallOn(ctx, s, client, request)
}

// CallOn is Call after Ready.
func CallOn[T any](ctx context.Context, s *Session, client *zk.Conn, request func(*zk.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	began, answers := time.Now(), make(chan answer, 1)
	go func() {
		v, err := request(client)
		answers <- answer{v, err}
	}()
	select {
	case a := <-answers:
		if errors.Is(a.err, zk.ErrNoAuth) && s.access.secret.ReadAgain(s.access.PasswordFile) {
			client.AddAuth("digest", []byte(s.access.User+":"+s.access.secret.Get())) // for the next call
		}
		if errors.Is(a.err, zk.ErrNoServer) || errors.Is(a.err, zk.ErrConnectionClosed) {
			a.err = s.explain(a.err)
		}
		return a.value, a.err
	case <-ctx.Done():
		s.dropIfSilent(ctx, began)
		var none T
		return none, s.explain(ctx.Err())
	}
}

// explain adds to an error why there is no connection, if that is known.
func (s *Session) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		return err
	}
	if Class(s.why) == backend.ErrDenied { // that is for a person, and trying again does not mend it
		return fmt.Errorf("%w: not connected: %w", backend.ErrDenied, s.why)
	}
	return fmt.Errorf("not connected: %w (%w)", err, s.why)
}

// Read is Call for requests that may be repeated after the connection was lost.
func Read[T any](ctx context.Context, s *Session, request func(*zk.Conn) (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := Call(ctx, s, request)
		if !errors.Is(err, zk.ErrConnectionClosed) || try == 3 || ctx.Err() != nil {
			return v, err
		}
	}
}

// InParallel calls f for 0 to n−1, up to 32 at once.
func InParallel(n int, f func(i int)) { client.InParallel(n, 32, f) }

// closeLimit is how long Close waits for a server to answer. The library would wait for a second.
const closeLimit = 200 * time.Millisecond

// Close ends the connection. It ends the session only if end says so: with it go its ephemeral nodes.
func (s *Session) Close(end bool) {
	s.mu.Lock()
	client, conn, again := s.client, s.conn, s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return
	}
	s.change(func() {})
	s.Watches.ForgetAll()
	if !end && conn != nil {
		conn.Close()
	}
	if client == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		client.Close()
		if conn != nil {
			conn.Close()
		}
	}()
	select {
	case <-done:
	case <-time.After(closeLimit):
	}
}

// noLogger drops what the library logs: everything that matters is returned as an error.
type noLogger struct{}

func (noLogger) Printf(string, ...any) {}
