package ensemble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"sync"
	"sync/atomic"
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

	// Quiet says that nothing but calls keeps the session alive: it sends no pings, and connects again only
	// for calls. Set it before the first call.
	Quiet bool

	access *Access
	late   atomic.Int32 // writes whose calls have ended

	mu         sync.Mutex
	client     *zk.Conn    // nil: there was no call yet, or the session has ended
	turn       int         // changes with client, and when the session is closed
	conn       *conn       // the present network connection of client, or the last one
	succession *succession // of conn; nil: it needs no successor
	next       *conn       // the successor, for the library to take
	accepted   Connection
	connected  bool          // there is a session, as far as the library knows
	known      bool          // the servers know the user, whom the library names at each connection
	lost       time.Time     // when the connection was lost
	lastUsed   time.Time     // when a call last asked for the connection
	why        error         // why the last attempt to connect has failed
	changed    chan struct{} // closed, and replaced, when one of the above changes, or fired
	closed     bool

	// Those of the present connection, and how often some have fired or were lost. There are also those under
	// which a node is being read, and those that are over and have yet to fire.
	watches map[key]*Watch
	fired   uint64
}

// A Connection is what is known of the last connection that a server has accepted.
type Connection struct {
	ID     int64         // of the session
	Length time.Duration // the servers keep the session for so long without contact
	Sent   time.Time     // the request for this connection was sent after that
	From   time.Time     // calls that began after that are not answered on an earlier one
}

// Connection returns what is known of the last connection. Calls that have ended without an error while it
// stayed the same were answered on it.
func (s *Session) Connection() Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Connected reports whether there is a connection now, as far as the library knows, that needs no successor.
func (s *Session) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected && s.succession == nil
}

const (
	maxRequest = 1 << 20 // the library keeps memory for it, and servers accept about as much (jute.maxbuffer)
	maxReply   = 32 << 20
)

// NewSession returns a session that connects when it is first used.
func NewSession(a *Access, length time.Duration) *Session {
	return &Session{access: a, Length: length, watches: make(map[key]*Watch), changed: make(chan struct{})}
}

// wake tells all waiters of a change. The caller holds s.mu.
func (s *Session) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Ready waits until there is a session, and returns the library's client.
func (s *Session) Ready(ctx context.Context) (*zk.Conn, error) {
	for {
		client, changed, err := s.state()
		if client != nil || err != nil {
			return client, cmp.Or(err, ctx.Err())
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
		return nil, nil, fmt.Errorf("%w: the session is closed", backend.ErrUnavailable)
	}
	s.lastUsed = time.Now()
	if s.client == nil || !s.connected && time.Since(s.lost) > s.Length {
		if err := s.connect(); err != nil {
			return nil, nil, err
		}
	}
	if s.connected && s.known && (s.succession == nil || s.succession.slow) {
		return s.client, nil, nil
	}
	return nil, s.changed, nil
}

// connect makes the library's client, which connects on its own goroutines. The caller holds s.mu.
func (s *Session) connect() error {
	s.end()
	turn := s.turn
	silent := log.New(io.Discard, "", 0) // all that matters is returned as an error
	client, _, err := zk.Connect(s.access.Servers, s.Length,
		zk.WithDialer(func(_, address string, _ time.Duration) (net.Conn, error) {
			return s.dial(turn, address)
		}),
		zk.WithEventCallback(func(e zk.Event) { s.event(turn, e) }),
		zk.WithHostProvider(&serverList{}), zk.WithLogger(silent), zk.WithLogInfo(false),
		zk.WithMaxBufferSize(maxReply), zk.WithMaxConnBufferSize(maxRequest))
	if err != nil {
		return err
	}
	s.client, s.conn, s.lost, s.known = client, nil, time.Now(), s.access.User == ""
	return nil
}

// end ends what the library does for the session. The caller holds s.mu.
func (s *Session) end() {
	if s.client != nil {
		go s.client.Close()
	}
	s.client = nil
	s.turn++
	s.dropNext()
}

// event is called by the library with each event, before any later answer is delivered.
func (s *Session) event(turn int, e zk.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.turn != turn:
	case e.Type != zk.EventSession:
		s.fire(e)
	case e.State == zk.StateHasSession:
		s.accepted = Connection{s.client.SessionID(), s.conn.length, s.conn.opened, s.conn.from}
		s.connected, s.why = true, nil
		if !s.known {
			go s.authorize(s.client, turn)
		}
		s.wake()
	case e.State == zk.StateExpired: // what waits in the library is not for the next session
		s.end()
		s.conn.Close() // the library leaves it open
		s.disconnected()
	case e.State == zk.StateDisconnected:
		s.disconnected()
	}
}

// disconnected notes that the connection is lost, for which servers keep watches. The caller holds s.mu.
func (s *Session) disconnected() {
	if s.connected {
		s.connected, s.lost = false, time.Now()
	}
	s.forgetAll()
}

// authorize names the user to the servers. If that fails, the next connection tries again.
func (s *Session) authorize(client *zk.Conn, turn int) {
	err := client.AddAuth("digest", s.credentials())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.turn != turn:
	case err == nil:
		s.known = true
	case errors.Is(err, zk.ErrAuthFailed): // otherwise dial knows a better error
		s.why = err
	}
	s.wake()
}

func (s *Session) credentials() []byte { return []byte(s.access.User + ":" + s.access.secret.Get()) }

// call makes a request of the library, whose methods take no context. It returns when the request is answered
// or ctx ends. Then the request's goroutine lives until the library finds the connection dead or closed; late
// counts it until then. A connection on which nothing was received since the call began gets a successor, so
// that the next request may reach another server.
func call[T any](
	ctx context.Context, s *Session, late *atomic.Int32, request func(*zk.Conn) (T, error),
) (none T, err error) {
	client, err := s.Ready(ctx)
	if err != nil {
		return none, err
	}
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
			client.AddAuth("digest", s.credentials()) // for the next call
		}
		if errors.Is(a.err, zk.ErrNoServer) || errors.Is(a.err, zk.ErrConnectionClosed) {
			a.err = s.explain(a.err)
		}
		return a.value, a.err
	case <-ctx.Done():
		late.Add(1)
		go func() {
			<-answers
			late.Add(-1)
		}()
		s.succeedIfSilent(ctx, began)
		return none, s.explain(ctx.Err())
	}
}

// Late reports whether a write of a call that has ended is not answered yet: it may be made later.
func (s *Session) Late() bool { return s.late.Load() > 0 }

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

// Read is call for requests that may be repeated after the connection was lost.
func Read[T any](ctx context.Context, s *Session, request func(*zk.Conn) (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := call(ctx, s, new(atomic.Int32), request)
		if !errors.Is(err, zk.ErrConnectionClosed) || try == 3 || ctx.Err() != nil {
			return v, err
		}
	}
}

// Sync brings the server that answers up to date with the ensemble's leader.
func (s *Session) Sync(ctx context.Context) error {
	_, err := Read(ctx, s, func(c *zk.Conn) (string, error) { return c.Sync("/") })
	return err
}

// ErrEnded says that a session has ended. It wraps [backend.ErrUnavailable].
var ErrEnded = fmt.Errorf("%w: the session has just ended", backend.ErrUnavailable)

// Multi makes all operations or none, and no others than in session id: the next one may be at another
// ensemble. It makes the parents of nodes that are to be created. If err is not nil, failed is the operation
// that could not be made, or -1: the outcome is unknown.
func (s *Session) Multi(
	ctx context.Context, id int64, ops ...any,
) (results []zk.MultiResponse, failed int, err error) {
	for range 3 {
		results, err = call(ctx, s, &s.late, func(c *zk.Conn) ([]zk.MultiResponse, error) {
			if c.SessionID() != id {
				return nil, ErrEnded
			}
			return c.Multi(ops...)
		})
		failed = slices.IndexFunc(results, func(r zk.MultiResponse) bool { return r.Error != nil })
		if err == nil && len(results) != len(ops) {
			err = fmt.Errorf("%d answers to %d operations", len(results), len(ops))
		}
		if failed < 0 || !errors.Is(err, zk.ErrNoNode) {
			break
		}
		create, is := ops[failed].(*zk.CreateRequest)
		if !is {
			break
		}
		if err := s.Make(ctx, Parent(create.Path), nil); err != nil {
			return nil, failed, err
		}
	}
	return results, failed, err
}

// Make makes a lasting node unless it exists, with its parents.
func (s *Session) Make(ctx context.Context, path string, data []byte) error {
	_, err := call(ctx, s, &s.late, func(c *zk.Conn) (string, error) {
		return c.Create(path, data, zk.FlagPersistent, s.access.ACL)
	})
	switch above := Parent(path); {
	case err == nil, errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode) && above != "":
		if err := s.Make(ctx, above, nil); err != nil {
			return err
		}
		return s.Make(ctx, path, data)
	}
	return fmt.Errorf("make %s: %w", path, err)
}

// InParallel calls f for 0 to n−1, up to 32 at once.
func InParallel(n int, f func(i int)) { client.InParallel(n, 32, f) }

// Close ends the connection. It ends the session only if end says so: with it go its ephemeral nodes.
func (s *Session) Close(end bool) {
	s.mu.Lock()
	client, conn := s.client, s.conn
	s.client, s.closed = nil, true
	s.turn++
	s.dropNext()
	s.forgetAll()
	s.mu.Unlock()
	if client == nil {
		return
	}
	if !end && conn != nil {
		conn.Close()
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
	case <-time.After(200 * time.Millisecond): // the library would wait for a second
	}
}
