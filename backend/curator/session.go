package curator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-election/go-election/backend"
	"github.com/go-election/go-election/internal/ensemble"
	"github.com/go-zookeeper/zk"
)

// A session is one connection handle of the client library, with all sessions that it
// opens: after one has expired, the library opens another.
type session struct {
	b               *Backend
	conn            *zk.Conn
	requestedLength time.Duration
	ctx             context.Context // ends dialling
	cancel          context.CancelFunc

	beingReplaced bool // guarded by b.mu: no request may be made that would depend on this session

	mu            sync.Mutex
	id            int64         // as the server last said
	grantedLength time.Duration // how long the servers keep it without contact
	epoch         int           // grows when a connection is made or lost
	lastContact   time.Time     // the ensemble's leader is known to have heard of the session since then
	connectSent   time.Time     // when the last answered connect request was sent
	exchanges     []exchange    // oldest first, none before lastContact
	syncsSent     int           // sent so far
	connection    *connection   // present or last one
	muted         bool          // nothing is sent, as if the process had died
	lastUsed      time.Time     // when the last request was made
	waiting       int           // requests that wait for a connection
	lastErr       error         // why the last attempt to connect failed
	changed       chan struct{} // closed and replaced at each change
	recordOwner   int64         // the session whose session record is known to exist
	recordCzxid   int64         // its czxid
	recordVersion int32         // its version
	record        sessionRecord // its content
	clockOffset   time.Duration // how far the servers' clock is ahead of ours

	watchedPaths map[string]int // paths whose reads leave a watch
	renewing     chan struct{}  // held while renewing

	authenticated chan struct{} // closed when the server knows the user
	servers       *ensemble.ServerList
	cache         cache
}

// defaultSession is the session length if no call has needed one: enough for the default
// TTL.
const defaultSession = 16_667 * time.Millisecond

// currentSession returns the session, connected. need is how long it must live without
// contact; 0: any length. A shorter session is replaced if nothing depends on it.
func (b *Backend) currentSession(ctx context.Context, need time.Duration) (*session, error) {
	select {
	case b.opening <- struct{}{}:
		defer func() { <-b.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	b.mu.Lock()
	s, closed, replace := b.session, b.owner.Admit(""), false
	expected := min(max(b.expectedSession, need), b.options.MaxSession)
	if s != nil {
		replace = s.requestedLength < expected || s.tooShort(need)
		for _, own := range b.locks {
			replace = replace && own.empty()
		}
		s.beingReplaced = replace
	}
	b.mu.Unlock()
	if closed != nil {
		return nil, closed
	}
	if s == nil || replace {
		if expected == 0 {
			expected = min(defaultSession, b.options.MaxSession)
		}
		fresh, err := b.openSession(expected)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		if closed = b.owner.Admit(""); closed == nil {
			b.session = fresh
		}
		b.mu.Unlock()
		if closed != nil {
			fresh.close(false)
			return nil, closed
		}
		if s != nil {
			s.close(false)
		}
		s = fresh
	}
	return s, s.ready(ctx)
}

// tooShort reports whether the servers have granted less than is needed.
func (s *session) tooShort(need time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grantedLength > 0 && s.grantedLength < need
}

// withSession calls f with the connected session, and again if the session was replaced
// meanwhile: f must be repeatable.
func (b *Backend) withSession(ctx context.Context, f func(*session) error) error {
	for try := 1; ; try++ {
		s, err := b.currentSession(ctx, 0)
		if err == nil {
			err = f(s)
		}
		if err == nil || s == nil || s.ctx.Err() == nil || ctx.Err() != nil || try == 3 {
			return err
		}
	}
}

// openSession starts a session. The library connects on its own goroutine.
func (b *Backend) openSession(length time.Duration) (*session, error) {
	s := &session{b: b, requestedLength: length, lastUsed: time.Now(), changed: make(chan struct{}), authenticated: make(chan struct{}), watchedPaths: map[string]int{}, renewing: make(chan struct{}, 1), servers: &ensemble.ServerList{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.cache.init(s)
	conn, _, err := zk.Connect(b.access.Servers, length,
		zk.WithDialer(s.dial), zk.WithHostProvider(s.servers), zk.WithEventCallback(s.event),
		zk.WithLogger(noLogger{}), zk.WithLogInfo(false),
		zk.WithMaxBufferSize(maxReply), zk.WithMaxConnBufferSize(maxRequest))
	if err != nil {
		s.cancel()
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	if b.options.User == "" {
		return s, nil
	}
	// This is the first request, and the library repeats it at each connection.
	b.late.Go(func() {
		for {
			err := conn.AddAuth("digest", []byte(b.options.User+":"+b.options.Password))
			if err == nil || s.ctx.Err() != nil {
				s.change(func() { s.lastErr = nil })
				close(s.authenticated)
				return
			}
			if errors.Is(err, zk.ErrAuthFailed) { // otherwise the dialler knows a better error
				s.change(func() { s.lastErr = err })
			}
		}
	})
	return s, nil
}

// maxReply limits what a server may make us read at once: the names of some hundred
// thousand children.
const maxReply = 32 << 20

// maxRequest is the library's send buffer. Our transactions take at most half of that,
// besides the session record, which has a few bytes for each group of grants.
const maxRequest = 2 * maxMulti

// noLogger drops what the library logs: everything that matters is returned as an error.
type noLogger struct{}

func (noLogger) Printf(string, ...any) {}

// change changes fields of s and wakes all waiters.
func (s *session) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// event is called by the library, on its own goroutine, with each event, before any later
// answer is delivered.
func (s *session) event(e zk.Event) {
	if e.Type == zk.EventSession {
		s.change(func() {
			if e.State == zk.StateDisconnected {
				s.epoch++
			}
		})
		s.cache.wakeAll()
		return
	}
	s.cache.fire(e)
}

// recordCzxidOf returns the czxid of the session record of session id, 0 if it is not
// known.
func (s *session) recordCzxidOf(id int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recordOwner != id {
		return 0
	}
	return s.recordCzxid
}

// answeredSince reports whether the servers have answered a request that this session has
// sent since t.
func (s *session) answeredSince(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.exchanges)
	return n > 0 && s.exchanges[n-1].sent.After(t)
}

// noteRecordLost notes that the session record of session id is gone.
func (s *session) noteRecordLost(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recordOwner == id {
		s.recordOwner = 0
	}
}

// ready waits until there is a connection with a session.
func (s *session) ready(ctx context.Context) error {
	s.mu.Lock()
	s.lastUsed = time.Now()
	connected := s.conn.State() == zk.StateHasSession
	s.mu.Unlock()
	if !connected {
		s.change(func() { s.waiting++ })
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.waiting--
		}()
	}
	err := s.wait(ctx, func() bool { return s.conn.State() == zk.StateHasSession })
	if err != nil || s.b.options.User == "" {
		return err
	}
	select {
	case <-s.authenticated:
		return nil
	case <-ctx.Done():
		return s.explain(ctx.Err())
	}
}

// wait waits until ok, which is called with s.mu held.
func (s *session) wait(ctx context.Context, ok func() bool) error {
	for {
		s.mu.Lock()
		done, changed := ok(), s.changed
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return errSessionClosed
		case <-ctx.Done():
			return s.explain(ctx.Err())
		}
	}
}

var errSessionClosed = fmt.Errorf("%w: the session was closed", backend.ErrUnavailable)

// explain adds to a context's error why there is no connection, if that is known.
func (s *session) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastErr == nil {
		return fmt.Errorf("no answer from the servers: %w", err)
	}
	if ensemble.Class(s.lastErr) == backend.ErrDenied {
		return fmt.Errorf("%w: not connected: %w", backend.ErrDenied, s.lastErr)
	}
	return fmt.Errorf("not connected: %w (%w)", err, s.lastErr)
}

// now returns the servers' time as far as it is known.
func (s *session) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.clockOffset)
}

// learnClock learns the servers' clock from a write that has just been made.
func (s *session) learnClock(stat *zk.Stat) {
	if stat == nil || stat.Mtime == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if skew := time.Until(time.UnixMilli(stat.Mtime)); skew.Abs() < 100*365*24*time.Hour {
		s.clockOffset = skew
	}
}

// idAndEpoch returns the session's id and its epoch.
func (s *session) idAndEpoch() (id int64, epoch int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.epoch
}

// close ends the connection and the session, or leaves the session to expire as if the
// process had died.
func (s *session) close(leave bool) {
	if leave {
		s.mute()
	}
	s.cancel()
	s.conn.Close()
	s.mu.Lock()
	conn := s.connection
	s.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}

// mute stops sending at once.
func (s *session) mute() {
	s.mu.Lock()
	s.muted = true
	conn := s.connection
	s.mu.Unlock()
	if conn != nil {
		conn.Conn.Close()
	}
}

// age returns how long ago something was written, by the servers' clock as far as it is
// known.
func (s *session) age(millis int64) time.Duration {
	return max(s.now().Sub(time.UnixMilli(millis)), 0)
}
